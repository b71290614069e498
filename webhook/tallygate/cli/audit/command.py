"""The command `tallygate audit`: the evaluation of stored objects as if they were created now.

The output of an audit: findings and summary in every format.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.progress import TextColumn

from tallygate.admission.kinds import list_review_targets
from tallygate.admission.rule_index import RuleIndex
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.answers import columns
from tallygate.audit.audit import Audit, AuditResult, AuditScope
from tallygate.audit.audit_findings import AuditFinding
from tallygate.audit.policy_report import ReportApi
from tallygate.audit.report_writer import ReportCounts, ReportsError, ReportWriter, require_api
from tallygate.cli import framework
from tallygate.cli.audit import audit_source
from tallygate.cli.audit.audit_source import AuditSource, ClusterNeeds
from tallygate.cli.connection import Connection
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.output import tables
from tallygate.cli.progress import display_progress
from tallygate.cli.sources.options import load_usable_policies, require_one_source, snapshot_option
from tallygate.kube.client import ClientConfig
from tallygate.manifests.findings import Finding, FindingSeverity, FindingSubject
from tallygate.policy.model import Enforcement, PolicySet

FORMATS = ("table", "json", "yaml", "sarif")
_LEVELS = {
    Enforcement.DENY: FindingSeverity.ERROR,
    Enforcement.WARN: FindingSeverity.WARNING,
    Enforcement.AUDIT: FindingSeverity.NOTE,
}
_FILE_FIELDS = frozenset({"file", "line", "column", "document", "source"})
_FINDINGS = columns.Columns(
    *(
        replace(column, is_named_once=False)
        for column in columns.FINDINGS.columns
        if column.heading != "WHERE" and column.key not in _FILE_FIELDS
    )
)
"""The findings about objects of a cluster, which are in no file."""


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """The summary of an audit, with the remarks of its source and the numbers of written reports, if any were."""

    result: AuditResult
    remarks: Sequence[str]
    report_counts: ReportCounts | None

    def list_lines(self, _findings: Sequence[Finding]) -> list[str]:
        """Return the lines of the summary: the findings first, then the skipped objects."""
        counts, coverage = self.result.findings.count_by_enforcement(), self.result.coverage
        counts_text = ", ".join(
            _format_count(counts[enforcement], level.value)
            for enforcement, level in _LEVELS.items()
            if counts[enforcement]
        )
        objects = _format_count(coverage.evaluated.total(), "object")
        namespaces = _format_count(self.result.namespace_count, "namespace")
        lines = [f"{objects} in {namespaces}: {counts_text or 'nothing found'}"]
        if hidden := _count_hidden(self.result):
            lines.append(f"{hidden} more are counted and not shown: narrow the audit with --namespace")
        if coverage.excluded:
            names = ", ".join(sorted(coverage.excluded))
            lines.append(
                f"{_format_count(coverage.excluded.total(), 'object')} not evaluated in excluded namespaces: {names}"
            )
        skipped = [(coverage.ended, "pod that has ended", "pods that have ended")]
        skipped.append(
            (coverage.idle, "ReplicaSet or Job that creates no pods", "ReplicaSets and Jobs that create no pods")
        )
        skipped_texts = [
            f"{number} {singular if number == 1 else plural}" for number, singular, plural in skipped if number
        ]
        if skipped_texts:
            lines.append(f"skipped: {', '.join(skipped_texts)}")
        if coverage.unreadable:
            lines.append(f"{_format_count(coverage.unreadable, 'object')} could not be read")
        return [
            *lines,
            *self.remarks,
            *coverage.remarks,
            *(_list_report_lines(self.report_counts) if self.report_counts is not None else ()),
        ]

    def to_dict(self, _findings: Sequence[Finding]) -> dict[str, Any]:
        """Return the summary as plain data."""
        counts, coverage = self.result.findings.count_by_enforcement(), self.result.coverage
        summary: dict[str, Any] = {
            "objects": dict(sorted(coverage.evaluated.items())),
            "namespaces": self.result.namespace_count,
            **{f"{level.value}s": counts[enforcement] for enforcement, level in _LEVELS.items()},
            "notShown": _count_hidden(self.result),
            "excluded": dict(sorted(coverage.excluded.items())),
            "ended": coverage.ended,
            "idle": coverage.idle,
            "unreadable": coverage.unreadable,
            "remarks": [*self.remarks, *coverage.remarks],
        }
        if self.report_counts is not None:
            summary["reports"] = asdict(self.report_counts)
        return summary


def _list_report_lines(report_counts: ReportCounts) -> list[str]:
    parts = (
        f"{report_counts.written} written",
        f"{report_counts.unchanged} unchanged",
        f"{report_counts.removed} removed",
    )
    summary = f"reports ({report_counts.api}): {', '.join(parts)}"
    unlisted = report_counts.failed - len(report_counts.failures)
    tail = [f"{unlisted} more could not be written"] if unlisted else []
    return [
        f"{summary}, {report_counts.failed} failed" if report_counts.failed else summary,
        *report_counts.failures,
        *tail,
    ]


def _count_hidden(result: AuditResult) -> int:
    return result.findings.count_by_enforcement().total() - len(result.findings.list_all())


def _convert_finding(audit_finding: AuditFinding) -> Finding:
    subject, problem = audit_finding.subject, audit_finding.problem
    return Finding(
        "",
        0,
        0,
        _LEVELS[audit_finding.enforcement],
        problem.code,
        audit_finding.message,
        f"{problem.policy_kind} {problem.rule}".rstrip(),
        problem.field,
        FindingSubject(0, subject.kind, subject.namespace, subject.name),
        audit_finding.policy_reason,
    )


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_PROGRESS_INTERVAL = 100  # objects: no user could read more frequent updates
_EXCLUDED_NAMESPACES = frozenset({"kube-system", DEFAULT_NAMESPACE})


@click.command(
    cls=framework.Command,
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
    "or else the shipped ones.",
)
@framework.namespace_option("Only this namespace; may be given several times. Default: all namespaces.", multiple=True)
@framework.all_namespaces_option("All namespaces, even with -n. This is the default.")
@framework.connection_options
@snapshot_option(
    "A file of `tallygate snapshot`, or of `kubectl get pods,namespaces,… -A -o json`, instead of a cluster."
)
@click.option("--report", is_flag=True, help="Write the findings into the cluster, as policy reports.")
@framework.strict_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
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

    An object that a policy denies today may have been stored before the policy, or while no gate answered. A problem of
    objects that a controller created is reported once, at their owner. Pods that have ended, and the excluded
    namespaces kube-system and tallygate-system, are skipped. Needed rights: list on namespaces and on all kinds that
    the gate evaluates; with --report also get, list, create, update and delete on reports.

    Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 a usage error, or a failed read or write.
    """
    require_one_source(connection, snapshot)
    if report and snapshot:
        raise framework.UsageError("--report needs a cluster: nothing is written into a snapshot")
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
    findings = list(map(_convert_finding, result.findings.list_all()))
    summary = AuditSummary(result, [*policies_remark, *remarks], report_counts)
    tables.print_findings("AuditReport", findings, summary, output, _FINDINGS)
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
        *loaded.state.list_unread(loaded.state.index_caps(policies, loaded.audit_input.now)),
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
        needs = ClusterNeeds(check_nodes, bool(policies.caps), slices, policies.needs_nodes)
        return audit_source.read_cluster(connection, scope, time.sleep, needs)
    if snapshot is None:
        raise framework.UsageError("name a cluster or a snapshot")
    return audit_source.read_snapshot(snapshot, scope, check_nodes=check_nodes)


def _choose_exit_code(result: AuditResult, report_counts: ReportCounts | None, *, strict: bool) -> int:
    counts = result.findings.count_by_enforcement()
    if result.coverage.unreadable or (report_counts is not None and report_counts.failed):
        return framework.EXIT_USAGE_ERROR
    return framework.EXIT_FINDINGS if counts[Enforcement.DENY] or (strict and counts[Enforcement.WARN]) else 0
