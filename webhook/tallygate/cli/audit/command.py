"""The command `tallygate audit`: the evaluation of stored objects as if they were created now."""

import time
from pathlib import Path

import click
from rich.progress import TextColumn

from tallygate.admission.kinds import list_review_targets
from tallygate.admission.rule_index import RuleIndex
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.audit.audit import Audit, AuditResult, AuditScope
from tallygate.audit.policy_report import ReportApi
from tallygate.audit.report_writer import ReportCounts, ReportsError, ReportWriter, require_api
from tallygate.cli.audit import audit_source, finding_table
from tallygate.cli.audit.audit_source import AuditSource, ClusterNeeds
from tallygate.cli.connection import Connection
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.framework import (
    EXIT_FINDINGS,
    EXIT_USAGE_ERROR,
    Command,
    UsageError,
    all_namespaces_option,
    connection_options,
    namespace_option,
    strict_option,
)
from tallygate.cli.progress import display_progress
from tallygate.cli.sources.options import load_usable_policies, require_one_source, snapshot_option
from tallygate.kube.client import ClientConfig
from tallygate.policy.model import Enforcement, PolicySet

_PROGRESS_INTERVAL = 100  # objects: no user could read more frequent updates
_EXCLUDED_NAMESPACES = frozenset({"kube-system", DEFAULT_NAMESPACE})


@click.command(
    cls=Command,
    examples=(
        ("tallygate audit --policies policies/", "the stored objects that these policies would deny"),
        ("tallygate audit --policies policies/ -n team-a -o json", "one namespace, for a program"),
        ("tallygate audit --policies policies/ --report", "... and write a policy report into each namespace"),
        ("tallygate audit --policies policies/ --snapshot now.json", "a file, before a policy is rolled out"),
    ),
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file, or a folder of them; may be given several times. Default: those of the gate in the cluster, "
    "else the shipped ones.",
)
@namespace_option("Only this namespace; may be given several times. Default: all namespaces.", multiple=True)
@all_namespaces_option("All namespaces, whatever -n names. This is the default.")
@connection_options
@snapshot_option(
    "Not a cluster, but what `tallygate snapshot` wrote of one, or `kubectl get pods,namespaces,… -A -o json`."
)
@click.option("--report", is_flag=True, help="Write what was found into the cluster, as policy reports.")
@strict_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(finding_table.FORMATS),
    default="table",
    show_default=True,
    help="How to print findings: for people, programs, or code scanners.",
)
@click.pass_context
def audit(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    policies: tuple[Path, ...],
    namespace: tuple[str, ...],
    all_namespaces: bool,
    connection: Connection,
    snapshot: Path | None,
    report: bool,
    strict: bool,
    output: str,
) -> None:
    """Evaluate every stored object as the gate would if it were created now, and every cap by the stored pods.

    An object that a policy denies today may have been stored before the policy, or while no gate was running. A problem
    of objects that a controller created is reported once, at their owner. Pods that have ended are skipped, and so are
    the namespaces kube-system and tallygate-system, which are excluded from the gate. Needed rights: list on namespaces
    and on all kinds that the gate evaluates; with --report also get, list, create, update and delete on reports.

    Exit codes: 0 clean, 1 errors (with --strict warnings too), 2 a usage error, or a failed read or write.
    """
    require_one_source(connection, snapshot)
    if report and snapshot:
        raise UsageError("--report needs a cluster: nothing is written into a snapshot")
    client_config = None if snapshot else connection.load()
    policy_set, policies_remark = _choose_policies(policies, client_config)
    included = None if all_namespaces else frozenset(namespace) or None
    scope = AuditScope(_EXCLUDED_NAMESPACES, included, list_review_targets(policy_set))
    reports = ReportWriter(client_config, time.time, time.sleep) if report and client_config is not None else None
    api = require_api(reports) if reports is not None else None
    result, remarks = _run_audit(policy_set, scope, client_config, snapshot)
    report_counts: ReportCounts | None = None
    if reports is not None and api is not None:
        report_counts = _write_reports(reports, api, result, scope)
    finding_table.print_findings(result, [*policies_remark, *remarks], report_counts, output)
    ctx.exit(_choose_exit_code(result, report_counts, strict=strict))


def _choose_policies(paths: tuple[Path, ...], client_config: ClientConfig | None) -> tuple[PolicySet, list[str]]:
    """Return the policies at the paths, else those of the gate in the cluster, else the shipped ones with a remark.

    Raises:
        UsageError: if the policies at the paths are not usable.
    """
    if paths or client_config is None:
        return load_usable_policies(paths), []
    policy_set = read_gate_policies(client_config)
    if isinstance(policy_set, Unavailable):
        reason = f"the policies of the gate are unknown: {policy_set.reason}"
    elif policy_set.count_documents():
        return policy_set, []
    else:
        reason = "no gate with policies is installed here"
    return load_usable_policies(()), [f"{reason}; the shipped policies are applied: name others with --policies"]


def _run_audit(
    policies: PolicySet, scope: AuditScope, connection: ClientConfig | None, snapshot: Path | None
) -> tuple[AuditResult, list[str]]:
    """Run the audit, and return its result with the remarks of its source."""
    with display_progress((TextColumn("judging objects"), TextColumn("{task.completed:.0f}")), None) as update:
        completed = 0

        def report_progress(count: int) -> None:
            nonlocal completed
            previous, completed = completed, completed + count
            if previous // _PROGRESS_INTERVAL != completed // _PROGRESS_INTERVAL:
                update(completed)

        loaded = _read_source(policies, scope, connection, snapshot)
        result = Audit(policies, loaded.audit_input, scope, report_progress).run(loaded.objects)
    return result, [
        *loaded.remarks,
        *loaded.stores.list_unread(loaded.stores.index_caps(policies, loaded.audit_input.now)),
    ]


def _write_reports(reports: ReportWriter, api: ReportApi, result: AuditResult, scope: AuditScope) -> ReportCounts:
    """Write the reports and return their numbers; if they cannot be listed, the findings are still printed."""
    try:
        return reports.write_reports(api, result.findings, scope.included_namespaces)
    except ReportsError as error:
        report_counts = ReportCounts(api.name)
        report_counts.add_failure(str(error))
        return report_counts


def _read_source(
    policies: PolicySet, scope: AuditScope, connection: ClientConfig | None, snapshot: Path | None
) -> AuditSource:
    check_nodes = RuleIndex(policies).has_node_rules
    compares_devices = scope.included_namespaces is None and any(rule.checks.advertised for rule in policies.rules)
    slices = policies.needs_slices or compares_devices
    if connection is not None:
        needs = ClusterNeeds(check_nodes, bool(policies.caps), slices)
        return audit_source.read_cluster(connection, scope, time.sleep, needs)
    if snapshot is None:
        raise UsageError("name a cluster or a snapshot")
    return audit_source.read_snapshot(snapshot, scope, check_nodes=check_nodes)


def _choose_exit_code(result: AuditResult, report_counts: ReportCounts | None, *, strict: bool) -> int:
    counts = result.findings.count_by_enforcement()
    if result.coverage.unreadable or (report_counts is not None and report_counts.failed):
        return EXIT_USAGE_ERROR
    return EXIT_FINDINGS if counts[Enforcement.DENY] or (strict and counts[Enforcement.WARN]) else 0
