"""`tallygate doctor`: whether the gate does in a cluster what it is there for, point by point."""

from pathlib import Path

import click

from webhook.admission.cap_index import CapIndex
from webhook.admission.webhook_configuration import CONFIGURATION_NAME
from webhook.cli.cluster.options import connection_options
from webhook.cli.cluster.source import ClusterSource
from webhook.cli.command import EXIT_FINDINGS, Command, UsageError
from webhook.cli.doctoring import lines
from webhook.cli.doctoring.checks import run_checks
from webhook.cli.doctoring.gathering import DoctorRequest, gather_facts
from webhook.cli.doctoring.verdict import CheckStatus
from webhook.cli.policies import load_usable_policies
from webhook.cli.report import write


@click.command(
    cls=Command,
    examples=(
        ("tallygate doctor", "the gate in the cluster of your kubeconfig"),
        ("tallygate doctor --policies policies/", "... and whether ResourceQuotas contradict these caps"),
        ("tallygate doctor --monitor http://127.0.0.1:9090", "a gate that is called by URL and runs elsewhere"),
        ("tallygate doctor --strict -o json", "for a program; what is not PASS is exit code 1"),
    ),
)
@click.option(
    "--name", metavar="NAME", default=CONFIGURATION_NAME, show_default=True, help="The webhook configurations' name."
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="Where the gate runs. Default: where the Service is by which it is called, else tallygate-system.",
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file with caps, or a folder of them; may be given several times. Without it ResourceQuotas are "
    "compared with what the CapLedgers of the cluster say.",
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
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
@click.pass_context
def doctor(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    name: str,
    namespace: str | None,
    policies: tuple[Path, ...],
    monitors: tuple[str, ...],
    strict: bool,
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
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
    caps = CapIndex(load_usable_policies(policies)) if policies else None
    source = ClusterSource(kubeconfig, context, in_cluster)
    reports = run_checks(
        gather_facts(
            source.connect(),
            DoctorRequest(name, namespace, caps, monitors, _format_cluster_options(kubeconfig, context)),
        )
    )
    if output == "table":
        lines.print_reports(reports)
        click.echo(lines.format_summary(reports), err=True)
    else:
        write.print_data(lines.convert_reports(reports), output)
    statuses = {report.result.status for report in reports}
    ctx.exit(EXIT_FINDINGS if CheckStatus.FAIL in statuses or (strict and statuses != {CheckStatus.PASS}) else 0)


def _check_urls(monitors: tuple[str, ...]) -> None:
    """Check them.

    Raises:
        Misuse: one is no URL.
    """
    for url in monitors:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--monitor {url}: write a URL, as in http://127.0.0.1:9090")


def _format_cluster_options(kubeconfig: Path | None, context: str | None) -> tuple[str, ...]:
    """What a command needs so that it means the same cluster."""
    options = () if kubeconfig is None else (f"--kubeconfig={kubeconfig}",)
    return options if context is None else (*options, f"--context={context}")
