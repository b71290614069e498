"""The checker: one object after another, everything that would be said of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from webhook.admission.selection import Labels
from webhook.cli.checking import api_server, writing
from webhook.cli.checking.capping import Capped, Caps
from webhook.cli.checking.known import Known, known, subject_of
from webhook.cli.checking.merging import API_SERVER, LETS_THROUGH, Said
from webhook.cli.checking.placing import placed
from webhook.cli.checking.rules import Judged, Rules
from webhook.cli.checking.snapshot import Snapshot
from webhook.cli.intake import fault_finding
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Mapping as MappingNode
from webhook.cli.manifest.nodes import Scalar
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Finding, Level
from webhook.gate.scheduling_snapshot import FixedSnapshot
from webhook.policy.model import PolicySet


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around the manifests: the policies, a snapshot if any, and the namespace of objects without one."""

    policies: PolicySet
    snapshot: Snapshot | None
    namespace: str
    bounds: Bounds


class Checker:
    """Checks manifests in order: what earlier ones would take from a cap, later ones do not find there."""

    def __init__(self, surroundings: Surroundings, manifests: Iterable[Manifest]) -> None:
        self._around = surroundings
        self._rules = Rules(surroundings.policies)
        self._caps = Caps(surroundings.policies, surroundings.snapshot) if surroundings.snapshot else None
        listed = surroundings.snapshot.labels if surroundings.snapshot else {}
        self._labels: dict[str, Labels] = {**listed, **_written_labels(manifests)}
        self._unjudged: set[str] = set()

    def check(self, manifest: Manifest) -> list[Finding] | None:
        """Everything about one object, in the order of its lines; None when its kind asks for nothing."""
        subject = subject_of(manifest, self._around.namespace)
        try:
            found = known(manifest, self._around.namespace, self._around.bounds)
            return None if found is None else list(self._findings(found))
        except Fault as fault:
            return [fault_finding(manifest.file, fault, subject)]

    def _findings(self, found: Known) -> Iterator[Finding]:
        manifest, subject = found.manifest, found.subject
        for fault in (*writing.doubled(manifest), *writing.misread(found)):
            yield fault_finding(manifest.file, fault, subject, Level.WARNING)
        labels = self._labels.get(subject.namespace)
        judged = self._rules.judge(found, labels)
        said = [*judged.said, *_by_kubernetes(judged.known)]
        on_nodes = self._unplaced(judged.known, labels, said)
        said += on_nodes.said
        capped = Capped()
        if self._caps is not None and not any(each.level is Level.ERROR for each in said):
            capped = self._caps.charge(judged.known, labels)
        yield from placed(manifest, subject, [*said, *capped.said])
        for message in (*judged.unknown, *on_nodes.unknown, *capped.unknown):
            yield from self._once(found, message)

    def _unplaced(self, found: Known, labels: Labels | None, said: Iterable[Said]) -> Judged:
        """What the nodes of the snapshot say; whose pods run already is not asked whether they have room."""
        cluster = self._around.snapshot.cluster if self._around.snapshot else None
        if cluster is None or self._caps is None or any(each.level is Level.ERROR for each in said):
            return Judged(found, (), ())
        return self._rules.place(found, labels, FixedSnapshot(cluster, has_pods=not self._caps.has_own(found)))

    def _once(self, found: Known, message: str) -> Iterator[Finding]:
        """What could not be judged, said at the first object that it was so for."""
        if message not in self._unjudged:
            self._unjudged.add(message)
            fault = Fault("TG408", found.manifest.node.place, message)
            yield fault_finding(found.manifest.file, fault, found.subject, Level.NOTE)


def _by_kubernetes(found: Known) -> Iterator[Said]:
    """What the API server refuses, and what it lets through though it should not."""
    for problem in api_server.refusals(found.judged, found.view):
        yield Said(problem, API_SERVER, Level.ERROR)
    for problem in api_server.lets_through(found.judged, found.view):
        yield Said(problem, LETS_THROUGH, Level.WARNING)


def _written_labels(manifests: Iterable[Manifest]) -> Mapping[str, Labels]:
    """The labels of the namespaces that are among the manifests."""
    found: dict[str, Labels] = {}
    for manifest in manifests:
        if manifest.kind == "Namespace" and not manifest.group:
            metadata = manifest.node.get("metadata")
            labels = metadata.get("labels") if isinstance(metadata, MappingNode) else None
            entries = labels.entries if isinstance(labels, MappingNode) else []
            found[manifest.name] = {entry.name: _text(entry.value) for entry in entries}
    return found


def _text(node: object) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
