"""The command `tallygate doctor`: checks of the gate in a cluster.

Each check is a pure function from the gathered facts to a result. The results are printed as text or as JSON or YAML.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from tallygate.answers.columns import escape_control
from tallygate.cli import framework
from tallygate.cli.connection import Connection
from tallygate.cli.doctor.check_result import Check, CheckReport, CheckResult, CheckStatus
from tallygate.cli.doctor.checks import availability, cluster, registration, replicas, stored_policies
from tallygate.cli.doctor.facts import GateFacts
from tallygate.cli.doctor.gather import DoctorRequest, gather_facts
from tallygate.cli.output import tables
from tallygate.cli.sources.options import load_usable_policies, require_one_source

CHECKS = tuple(
    value
    for module in (registration, availability, replicas, stored_policies, cluster)
    for value in vars(module).values()
    if isinstance(value, Check)
)
"""All checks in the order of their output: file by file, each in the order of its lines."""

_STYLES = {
    CheckStatus.PASS: "green",
    CheckStatus.UNKNOWN: "cyan",
    CheckStatus.WARN: "yellow",
    CheckStatus.FAIL: "bold red",
}


def run_checks(facts: GateFacts) -> list[CheckReport]:
    """Run every check and return the reports in the order of `CHECKS`."""
    return [CheckReport(check.name, check.title, collapse_whitespace(check.run(facts))) for check in CHECKS]


def collapse_whitespace(result: CheckResult) -> CheckResult:
    """Collapse the whitespace of a reason, which may contain text from the cluster."""
    return replace(result, reason=" ".join(result.reason.split()))


_STATUS_WIDTH = max(map(len, CheckStatus)) + 2
_NAME_WIDTH = max(len(check.name) for check in CHECKS) + 2
_INDENT = " " * _STATUS_WIDTH
_MAX_WIDTH = 80  # characters, also in a pipe
_MIN_REASON_WIDTH = 30
_DECISIVE_CHECKS = frozenset({"registered", "reachable"})
"""The checks without which nothing is known of the gate, so that UNKNOWN is a finding."""


def render_reports(reports: Sequence[CheckReport], width: int) -> Group:
    """Render one paragraph for each check: status, reason in lines of this width, and one line for each fix command."""
    return Group(*(part for report in reports for part in _render_report(report, width)))


def print_reports(reports: Sequence[CheckReport]) -> None:
    """Print the reports, and the counts on stderr.

    Fix commands are never wrapped, so that a user can copy them from a terminal of any width.
    """
    terminal = tables.create_console(sys.stdout)
    width = min(terminal.width, _MAX_WIDTH)
    terminal.print(render_reports(reports, width), soft_wrap=True)
    click.echo(format_summary(reports), err=True)


def _render_report(report: CheckReport, width: int) -> Iterator[RenderableType]:
    result = report.result
    status = (f"{result.status:<{_STATUS_WIDTH}}", _STYLES[result.status])
    indent = _STATUS_WIDTH + _NAME_WIDTH
    first, *rest = wrap(
        escape_control(result.reason),
        max(width - indent, _MIN_REASON_WIDTH),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    yield Text.assemble(status, (f"{report.name:<{_NAME_WIDTH}}", "bold"), first)
    for line in rest:
        yield Text(f"{'':<{indent}}{line}")
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
    cls=framework.Command,
    examples=(
        ("tallygate doctor", "the gate in the cluster of your kubeconfig"),
        ("tallygate doctor --policies policies/", "the same with these policies, not those that the gate mounts"),
        ("tallygate doctor --monitor http://127.0.0.1:9090", "a gate that is called by URL and runs elsewhere"),
        ("tallygate doctor --strict -o json", "for a program; exit code 1 if a check is not PASS"),
    ),
)
@framework.namespace_option(
    "The gate's namespace. Default: that of the Service in the webhook configurations, or else tallygate-system."
)
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
    help="The monitor port of a replica outside this cluster, as in http://127.0.0.1:9090; may be given several times.",
)
@click.option("--strict", is_flag=True, help="Also fail on WARN and UNKNOWN.")
@framework.connection_options
@framework.data_option
@click.pass_context
def doctor(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    namespace: str | None,
    policies: tuple[Path, ...],
    monitors: tuple[str, ...],
    strict: bool,
    connection: Connection,
    output: str,
) -> None:
    """Check the gate in a cluster. Each check prints PASS, WARN, FAIL or UNKNOWN, the reason, and commands that help.

    The command changes nothing. It sends two pods, tallygate-doctor-rejected and tallygate-doctor-accepted, as a dry
    run, which shows whether the API server reaches the gate. It reads health and metrics of each replica through the
    API server. A check is UNKNOWN if you may not read what it needs.

    Exit codes: 0 no check is FAIL, 1 a check is FAIL, or `registered` or `reachable` is UNKNOWN (with --strict: a check
    is not PASS), 2 a usage error, or the cluster cannot be reached.
    """
    _check_urls(monitors)
    given = load_usable_policies(policies) if policies else None
    require_one_source(connection)
    reports = run_checks(
        gather_facts(connection.load(), DoctorRequest(namespace, given, monitors, connection.list_options()))
    )
    tables.print_object("DoctorReport", lambda: convert_reports(reports), output, lambda: print_reports(reports))
    ctx.exit(framework.EXIT_FINDINGS if any(_is_finding(report, strict=strict) for report in reports) else 0)


def _is_finding(report: CheckReport, *, strict: bool) -> bool:
    status = report.result.status
    if strict:
        return status is not CheckStatus.PASS
    return status is CheckStatus.FAIL or (status is CheckStatus.UNKNOWN and report.name in _DECISIVE_CHECKS)


def _check_urls(monitors: tuple[str, ...]) -> None:
    """Check that every monitor is a URL.

    Raises:
        UsageError: if a monitor is not a URL.
    """
    for url in monitors:
        if not url.startswith(("http://", "https://")):
            raise framework.UsageError(f"--monitor {url}: write a URL, as in http://127.0.0.1:9090")
