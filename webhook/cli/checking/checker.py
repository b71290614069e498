"""The checker: one object after another, everything that would be said of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from webhook.admission.rule_index import Labels
from webhook.cli.checking import api_server, writing
from webhook.cli.checking.capping import CapChecker, CapCheckResult
from webhook.cli.checking.known import TypedObject, create_subject, parse_object
from webhook.cli.checking.merging import ACCEPTED_BY_KUBERNETES, API_SERVER, ReportedProblem
from webhook.cli.checking.placing import create_findings
from webhook.cli.checking.rules import RuleChecker, RuleResult
from webhook.cli.checking.snapshot import SnapshotContents
from webhook.cli.intake import create_document_finding
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Mapping as MappingNode
from webhook.cli.manifest.nodes import Scalar
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Finding, FindingSeverity
from webhook.gate.scheduling_snapshot import FixedSnapshot
from webhook.policy.model import PolicySet


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is known around the manifests: the policies, a snapshot if any, and the namespace of objects without one."""

    policies: PolicySet
    snapshot: SnapshotContents | None
    namespace: str
    limits: Bounds


class ManifestChecker:
    """Checks manifests in order: what earlier ones would take from a cap, later ones do not find there."""

    def __init__(self, context: CheckContext, manifests: Iterable[Manifest]) -> None:
        self._context = context
        self._rule_checker = RuleChecker(context.policies)
        self._cap_checker = CapChecker(context.policies, context.snapshot) if context.snapshot else None
        snapshot_labels = context.snapshot.labels_by_namespace if context.snapshot else {}
        self._labels_by_namespace: dict[str, Labels] = {**snapshot_labels, **_collect_labels(manifests)}
        self._reported_messages: set[str] = set()

    def check(self, manifest: Manifest) -> list[Finding] | None:
        """Everything about one object, in the order of its lines; None when its kind asks for nothing."""
        subject = create_subject(manifest, self._context.namespace)
        try:
            typed = parse_object(manifest, self._context.namespace, self._context.limits)
            return None if typed is None else list(self._check_object(typed))
        except Fault as error:
            return [create_document_finding(manifest.file, error, subject)]

    def _check_object(self, typed: TypedObject) -> Iterator[Finding]:
        manifest, subject = typed.manifest, typed.subject
        for error in (*writing.find_duplicate_keys(manifest), *writing.find_misread_numbers(typed)):
            yield create_document_finding(manifest.file, error, subject, FindingSeverity.WARNING)
        labels = self._labels_by_namespace.get(subject.namespace)
        rule_result = self._rule_checker.evaluate(typed, labels)
        problems = [*rule_result.problems, *_validate(rule_result.typed)]
        schedulability = self._check_schedulability(rule_result.typed, labels, problems)
        problems += schedulability.problems
        cap_result = CapCheckResult()
        if self._cap_checker is not None and not any(each.severity is FindingSeverity.ERROR for each in problems):
            cap_result = self._cap_checker.charge(rule_result.typed, labels)
        yield from create_findings(manifest, subject, [*problems, *cap_result.problems])
        for message in (*rule_result.not_evaluated, *schedulability.not_evaluated, *cap_result.not_evaluated):
            yield from self._report_once(typed, message)

    def _check_schedulability(
        self, typed: TypedObject, labels: Labels | None, problems: Iterable[ReportedProblem]
    ) -> RuleResult:
        """What the nodes of the snapshot say; whose pods run already is not asked whether they have room."""
        cluster = self._context.snapshot.cluster if self._context.snapshot else None
        if (
            cluster is None
            or self._cap_checker is None
            or any(each.severity is FindingSeverity.ERROR for each in problems)
        ):
            return RuleResult(typed, (), ())
        return self._rule_checker.check_schedulability(
            typed, labels, FixedSnapshot(cluster, has_pods=not self._cap_checker.has_existing_pods(typed))
        )

    def _report_once(self, typed: TypedObject, message: str) -> Iterator[Finding]:
        """What could not be judged, said at the first object that it was so for."""
        if message not in self._reported_messages:
            self._reported_messages.add(message)
            error = Fault("TG408", typed.manifest.node.place, message)
            yield create_document_finding(typed.manifest.file, error, typed.subject, FindingSeverity.NOTE)


def _validate(typed: TypedObject) -> Iterator[ReportedProblem]:
    """What the API server refuses, and what it lets through though it should not."""
    for problem in api_server.validate_object(typed.content, typed.view):
        yield ReportedProblem(problem, API_SERVER, FindingSeverity.ERROR)
    for problem in api_server.find_accepted_problems(typed.content, typed.view):
        yield ReportedProblem(problem, ACCEPTED_BY_KUBERNETES, FindingSeverity.WARNING)


def _collect_labels(manifests: Iterable[Manifest]) -> Mapping[str, Labels]:
    """The labels of the namespaces that are among the manifests."""
    labels_by_namespace: dict[str, Labels] = {}
    for manifest in manifests:
        if manifest.kind == "Namespace" and not manifest.group:
            metadata = manifest.node.get("metadata")
            labels = metadata.get("labels") if isinstance(metadata, MappingNode) else None
            entries = labels.entries if isinstance(labels, MappingNode) else []
            labels_by_namespace[manifest.name] = {entry.name: _get_text(entry.value) for entry in entries}
    return labels_by_namespace


def _get_text(node: object) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
