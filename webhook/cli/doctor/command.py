"""The command `tallygate doctor`: checks of the gate in a cluster.

Each check is a pure function from the gathered facts to a result. The results are printed as text or as JSON or YAML.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from tallygate.webhook.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.webhook.cli.connection import Connection
from tallygate.webhook.cli.doctor.check_result import Check, CheckReport, CheckResult, CheckStatus
from tallygate.webhook.cli.doctor.checks import (
    certificates,
    conflicts,
    device_classes,
    ledgers,
    lockout,
    namespace_limits,
    node_amounts,
    reachability,
    registered_kinds,
    registration,
    replicas,
)
from tallygate.webhook.cli.doctor.facts import GateFacts
from tallygate.webhook.cli.doctor.gather import DoctorRequest, gather_facts
from tallygate.webhook.cli.framework import (
    DATA_FORMATS,
    EXIT_FINDINGS,
    Command,
    UsageError,
    connection_options,
    namespace_option,
)
from tallygate.webhook.cli.output import tables
from tallygate.webhook.cli.output.tables import escape_control
from tallygate.webhook.cli.sources.options import load_usable_policies, require_one_source

CHECKS: tuple[Check[GateFacts], ...] = (
    *registration.CHECKS,
    *reachability.CHECKS,
    *certificates.CHECKS,
    *lockout.CHECKS,
    *replicas.CHECKS,
    *ledgers.CHECKS,
    *registration.PERMISSION_CHECKS,
    *replicas.CLOCK_CHECKS,
    *conflicts.CHECKS,
    *namespace_limits.CHECKS,
    *device_classes.CHECKS,
    *registered_kinds.CHECKS,
    *node_amounts.CHECKS,
)

_STYLES = {
    CheckStatus.PASS: "green",
    CheckStatus.UNKNOWN: "cyan",
    CheckStatus.WARN: "yellow",
    CheckStatus.FAIL: "bold red",
}


def run_checks(facts: GateFacts) -> list[CheckReport]:
    """Run every check and return the reports in the order of `CHECKS`."""
    return [CheckReport(check.name, check.title, _collapse_whitespace(check.run(facts))) for check in CHECKS]


def _collapse_whitespace(result: CheckResult) -> CheckResult:
    """Collapse the whitespace of a reason, which may contain text from the cluster."""
    return replace(result, reason=" ".join(result.reason.split()))


_STATUS_WIDTH = max(map(len, CheckStatus)) + 2
_NAME_WIDTH = max(len(check.name) for check in CHECKS) + 2
_INDENT = " " * _STATUS_WIDTH


def render_reports(reports: Sequence[CheckReport]) -> Group:
    """Render one paragraph for each check: status, reason, and one line for each fix command."""
    return Group(*(part for report in reports for part in _render_report(report)))


def print_reports(reports: Sequence[CheckReport]) -> None:
    """Print the reports. Fix commands are never wrapped, so that a user can copy them from a terminal of any width."""
    terminal = tables.create_console(sys.stdout)
    terminal.print(render_reports(reports), soft_wrap=True)


def _render_report(report: CheckReport) -> Iterator[RenderableType]:
    result = report.result
    status = (f"{result.status:<{_STATUS_WIDTH}}", _STYLES[result.status])
    yield Text.assemble(status, (f"{report.name:<{_NAME_WIDTH}}", "bold"), escape_control(result.reason))
    for command in result.fix_commands:
        yield Text(f"{_INDENT}$ {escape_control(command)}")


def format_summary(reports: Sequence[CheckReport]) -> str:
    """Return the number of checks and the count of each status."""
    counts = Counter(report.result.status for report in reports)
    counts_text = ", ".join(f"{counts[status]} {status}" for status in reversed(CheckStatus) if counts[status])
    return f"{len(reports)} checks: {counts_text}"


def convert_reports(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """Convert reports to JSON values."""
    counts = Counter(report.result.status for report in reports)
    return {
        "summary": {str(status): counts[status] for status in CheckStatus},
        "checks": [
            {
                "check": result.name,
                "title": result.title,
                "result": str(result.result.status),
                "reason": result.result.reason,
                "fix": list(result.result.fix_commands),
            }
            for result in reports
        ],
    }


@click.command(
    cls=Command,
    examples=(
        ("tallygate doctor", "the gate in the cluster of your kubeconfig"),
        ("tallygate doctor --policies policies/", "... with these policies, not those that the gate mounts"),
        ("tallygate doctor --monitor http://127.0.0.1:9090", "a gate that is called by URL and runs elsewhere"),
        ("tallygate doctor --strict -o json", "for a program; what is not PASS is exit code 1"),
    ),
)
@click.option(
    "--name", metavar="NAME", default=CONFIGURATION_NAME, show_default=True, help="The webhook configurations' name."
)
@namespace_option("Where the gate runs. Default: where the Service is by which it is called, else tallygate-system.")
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file, or a folder of them; may be given several times. Default: those in the ConfigMap that the "
    "gate's Deployment mounts.",
)
@click.option(
    "--monitor",
    "monitors",
    metavar="URL",
    multiple=True,
    help="The monitor port of a replica that is no pod of this cluster, as in http://127.0.0.1:9090; may be given "
    "several times.",
)
@click.option("--strict", is_flag=True, help="Let WARN and UNKNOWN fail too.")
@connection_options
@click.option("-o", "--output", type=click.Choice(DATA_FORMATS), default="table", help="How to print it.")
@click.pass_context
def doctor(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    name: str,
    namespace: str | None,
    policies: tuple[Path, ...],
    monitors: tuple[str, ...],
    strict: bool,
    connection: Connection,
    output: str,
) -> None:
    """Read a cluster and say of each point PASS, WARN, FAIL or UNKNOWN: why, with figures, and what to type to mend it.

    Nothing is changed. Two pods, tallygate-doctor-refused and tallygate-doctor-let-in, are sent as a dry run: that is
    how it is seen whether the API server reaches the gate. Health and metrics of each replica come through the API
    server. What you may not read is UNKNOWN, and never taken for good.

    Exit codes: 0 nothing is FAIL, 1 something is (with --strict: something is not PASS), 2 misuse, or the cluster
    cannot be reached.
    """
    _check_urls(monitors)
    given = load_usable_policies(policies) if policies else None
    require_one_source(connection)
    reports = run_checks(
        gather_facts(
            connection.load(),
            DoctorRequest(name, namespace, given, monitors, connection.list_options()),
        )
    )
    if output == "table":
        print_reports(reports)
        click.echo(format_summary(reports), err=True)
    else:
        tables.print_object("DoctorReport", convert_reports(reports), output)
    statuses = {report.result.status for report in reports}
    ctx.exit(EXIT_FINDINGS if CheckStatus.FAIL in statuses or (strict and statuses != {CheckStatus.PASS}) else 0)


def _check_urls(monitors: tuple[str, ...]) -> None:
    """Check that every monitor is a URL.

    Raises:
        UsageError: if a monitor is not a URL.
    """
    for url in monitors:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--monitor {url}: write a URL, as in http://127.0.0.1:9090")
