"""One audit: objects go through it, then pods as they are seen, then caps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from webhook.audit.audit_evaluation import POD_BATCH_SIZE, AuditEvaluator
from webhook.audit.audit_findings import AuditCoverage, AuditFindings
from webhook.audit.cap_audit import CapAudit
from webhook.audit.listing import KINDS_IN_ORDER, NODE, PageReader, create_list_path
from webhook.gate.scheduling_snapshot import SnapshotProvider
from webhook.gate.usage_lister import UsageLister
from webhook.policy.model import PolicySet
from webhook.state.watch.columns import Place
from webhook.state.watch.namespaces import NamespaceView
from webhook.state.watch.view import PodView

ListedObject = tuple[str, str, msgspec.Raw]
"""API group, kind and JSON."""


Throttle = Callable[[int], None]
"""Is told that so many more objects are done, and says by when it returns how fast it goes on; may raise, to end it."""


@dataclass(frozen=True, slots=True)
class AuditInput:
    """A cluster as it is seen: its pods and namespaces, which have been listed, and its nodes where those are known.

    `placing` says nothing of what is on nodes: what is stored has its place, or waits for one, which `tallygate
    predict` explains.
    """

    pods: PodView
    namespaces: NamespaceView
    usage_lister: UsageLister
    snapshots: SnapshotProvider | None = None


@dataclass(frozen=True, slots=True)
class AuditScope:
    """What is audited: these namespaces, or the whole cluster with its nodes and shared caps (None).

    `spared` are the namespaces that the gate is not asked about.
    """

    excluded_namespaces: frozenset[str]
    included_namespaces: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit has found, and in how many namespaces it looked."""

    findings: AuditFindings
    coverage: AuditCoverage
    namespace_count: int


class Audit:
    """An audit by one policy set of one world."""

    def __init__(self, policies: PolicySet, audit_input: AuditInput, scope: AuditScope, throttle: Throttle) -> None:
        self._input = audit_input
        self._scope = scope
        self._throttle = throttle
        self._evaluator = AuditEvaluator(
            policies, audit_input.namespaces.labels, scope.excluded_namespaces, audit_input.snapshots
        )

    def run(self, objects: Iterable[ListedObject]) -> AuditResult:
        """Judge these objects, which come in the order of `kinds.ORDER`, then pods and caps.

        Raises:
            AuditError: they cannot be listed.
            NotListedError: the pods are not known yet.
        """
        for group, kind, item in objects:
            self._evaluator.evaluate_object(group, kind, item)
            self._throttle(1)
        names = sorted(self._list_namespaces())
        for name in names:
            pods = sorted(self._input.pods.within(name), key=_get_name)  # so that the first of many stays the first
            self._evaluator.evaluate_pods(name, pods, self._throttle)
            self._throttle(len(pods) % POD_BATCH_SIZE)
        self._audit_caps(frozenset(names))
        return AuditResult(self._evaluator.findings, self._evaluator.coverage, len(names))

    def _list_namespaces(self) -> Iterable[str]:
        """The namespaces that are audited, those that are passed over among them."""
        names = (row.name for row in self._input.namespaces.rows())
        return names if self._scope.included_namespaces is None else self._scope.included_namespaces

    def _audit_caps(self, names: frozenset[str]) -> None:
        cap_audit = CapAudit(self._evaluator.caps, self._input.usage_lister, self._input.pods)
        includes_shared = self._scope.included_namespaces is None
        for finding in cap_audit.find_excess(names - self._scope.excluded_namespaces, includes_shared=includes_shared):
            self._evaluator.findings.add(finding)
            self._throttle(0)
        skipped = [cap.definition.name for cap in self._evaluator.caps.list_caps() if cap.definition.shared]
        if not includes_shared and skipped:
            self._evaluator.coverage.add_remark(
                f"shared caps are added up over all their namespaces, and were not asked: {', '.join(skipped)}"
            )


def _get_name(pod: Place) -> str:
    return pod.name


def list_objects(pages: PageReader, scope: AuditScope) -> Iterator[ListedObject]:
    """Everything but pods that a cluster stores of what the gate judges, in order.

    Raises:
        AuditError: something cannot be listed.
    """
    for key in KINDS_IN_ORDER:
        group, kind = key
        for path in _list_paths(key, scope):
            for items in pages.list_pages(path):
                for item in items:
                    yield group, kind, item


def _list_paths(key: tuple[str, str], scope: AuditScope) -> list[str]:
    if scope.included_namespaces is None:
        return [create_list_path(key)]
    return [] if key == NODE else [create_list_path(key, name) for name in sorted(scope.included_namespaces)]


def sort_objects(objects: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ListedObject]:
    """Objects that were taken from a file, with their kinds, brought into order; those of other kinds are left out."""
    by_kind: dict[str, list[msgspec.Raw]] = {}
    for kind, item in objects:
        by_kind.setdefault(kind, []).append(item)
    for group, kind in KINDS_IN_ORDER:
        for item in by_kind.get(kind, ()):
            yield group, kind, item
