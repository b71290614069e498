"""`tallygate audit`: what is stored already, judged as if it came now."""

import time
from pathlib import Path

import click
from rich.progress import TextColumn

from webhook.admission.registration import DEFAULT_NAMESPACE
from webhook.admission.selection import RuleIndex
from webhook.audit.audit import Audit, AuditResult, AuditScope
from webhook.audit.report import ReportApi
from webhook.audit.reports import ReportWriter, ReportsError, ReportCounts, require_api
from webhook.cli.auditing import showing, source
from webhook.cli.auditing.source import Audited
from webhook.cli.cluster.options import connection_options, snapshot_option
from webhook.cli.cluster.source import Source
from webhook.cli.command import EXIT_FINDINGS, EXIT_MISUSE, Command, Misuse
from webhook.cli.options import strict_option
from webhook.cli.policies import usable
from webhook.cli.progress import telling
from webhook.policy.model import Enforcement, PolicySet
from webhook.state.watch.connect import Connection

_TOLD_EACH = 100  # objects: more often nobody could read it
_SPARED = frozenset({"kube-system", DEFAULT_NAMESPACE})


@click.command(
    cls=Command,
    examples=(
        ("tallygate audit --policies policies/", "what a cluster holds that these policies would refuse"),
        ("tallygate audit --policies policies/ --namespace team-a -o json", "of one namespace, for a program"),
        ("tallygate audit --policies policies/ --report", "... and write a policy report into each namespace"),
        ("tallygate audit --policies policies/ --snapshot now.json", "of a file: before a policy is rolled out"),
    ),
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file, or a folder of them; may be given several times. Without it the shipped policies count.",
)
@click.option(
    "-n", "--namespace", "namespaces", metavar="NAME", multiple=True, help="Only this one; may be given several times."
)
@connection_options
@snapshot_option(
    "Not a cluster, but what `tallygate snapshot` wrote of one, or `kubectl get pods,namespaces,… -A -o json`."
)
@click.option("--report", is_flag=True, help="Write what was found into the cluster, as policy reports.")
@strict_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(showing.FORMATS),
    default="table",
    show_default=True,
    help="How to print findings: for people, programs, or code scanners.",
)
@click.pass_context
def audit(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    policies: tuple[Path, ...],
    namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    snapshot: Path | None,
    report: bool,
    strict: bool,
    output: str,
) -> None:
    """Judge every stored object as the gate would if it were created now, and every cap by the pods that there are.

    What a policy refuses today may have been stored before it was written, or while the gate was away. What was made by
    a controller is told of once, at its owner. Pods that have ended are left out, and so is what lies in kube-system
    and tallygate-system, where the gate is not asked. Needed rights: list on all kinds that the gate judges, and on
    namespaces; with --report also on reports, and to get, create, update and delete them.

    Exit codes: 0 clean, 1 errors (with --strict warnings too), 2 misuse, or something cannot be read or written.
    """
    whence = Source(kubeconfig, context, in_cluster, snapshot)
    if report and snapshot:
        raise Misuse("--report goes with a cluster: into a snapshot nothing is written")
    chosen = usable(policies)
    scope = AuditScope(_SPARED, frozenset(namespaces) or None)
    access = None if snapshot else whence.connection()
    reports = ReportWriter(access, time.time, time.sleep) if report and access is not None else None
    api = require_api(reports) if reports is not None else None
    outcome, remarks = _audited(chosen, scope, access, snapshot)
    written: ReportCounts | None = None
    if reports is not None and api is not None:
        written = _reported(reports, api, outcome, scope)
    showing.show(outcome, remarks, written, output)
    ctx.exit(_code(outcome, written, strict=strict))


def _audited(
    policies: PolicySet, scope: AuditScope, access: Connection | None, snapshot: Path | None
) -> tuple[AuditResult, list[str]]:
    """What is found, and what is to be said of how."""
    with telling((TextColumn("judging objects"), TextColumn("{task.completed:.0f}")), None) as tell:
        come = 0

        def pace(done: int) -> None:
            nonlocal come
            before, come = come, come + done
            if before // _TOLD_EACH != come // _TOLD_EACH:
                tell(come)

        audited = _source(scope, access, snapshot, places=RuleIndex(policies).has_node_rules)
        outcome = Audit(policies, audited.world, scope, pace).run(audited.objects)
    return outcome, list(audited.remarks)


def _reported(reports: ReportWriter, api: ReportApi, outcome: AuditResult, scope: AuditScope) -> ReportCounts:
    """What became of reports; where they cannot even be listed, what was found is still to be shown."""
    try:
        return reports.write_reports(api, outcome.findings, scope.included_namespaces)
    except ReportsError as error:
        written = ReportCounts(api.name)
        written.add_failure(str(error))
        return written


def _source(scope: AuditScope, access: Connection | None, snapshot: Path | None, *, places: bool) -> Audited:
    if access is not None:
        return source.live(access, scope, time.sleep, places=places)
    if snapshot is None:
        raise Misuse("name a cluster or a snapshot")
    return source.stored(snapshot, scope, places=places)


def _code(outcome: AuditResult, written: ReportCounts | None, *, strict: bool) -> int:
    counts = outcome.findings.count_by_enforcement()
    if outcome.coverage.unreadable or (written is not None and written.failed):
        return EXIT_MISUSE
    return EXIT_FINDINGS if counts[Enforcement.DENY] or (strict and counts[Enforcement.WARN]) else 0
