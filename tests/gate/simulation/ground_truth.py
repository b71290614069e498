"""The ground truth: pods, namespaces and ledgers as etcd stores them, at every revision, and the caps over them."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from tallygate.webhook.admission.cap_index import CapIndex, get_cap_name
from tallygate.webhook.state.ledger.ledger import Ledger
from tallygate.webhook.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.state.informers.pods import pod as stored_pod

CAP_NAMES = ("each", "together")
_EACH, _TOGETHER = 4, 9
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{include: ["team-*"], selector: {{matchLabels: {{{name}: "yes"}}}}}}
  shared: {shared}
  hard: {{nvidia.com/gpu: {hard}}}
"""
_CAP_OF_EACH = _CAP.format(name="each", shared="false", hard=_EACH)
_SHARED_CAP = _CAP.format(name="together", shared="true", hard=_TOGETHER)
ALL_CAPS, WITHOUT_SHARED = (
    CapIndex(parse_policies(f"{_CAP_OF_EACH}---{_SHARED_CAP}")),
    CapIndex(parse_policies(_CAP_OF_EACH)),
)
"""A cap of each namespace and one that all share; the first alone. Each selects namespaces by a label of its name."""


class Pod(NamedTuple):
    """A stored pod of `size` GPUs."""

    uid: str
    namespace: str
    size: int
    ended: bool = False
    revision: int = 0

    @property
    def used(self) -> int:
        """The GPUs that a cap must count."""
        return 0 if self.ended else self.size

    def to_object(self) -> dict[str, Any]:
        """Return the pod as the API server sends it."""
        phase = {"status": {"phase": "Succeeded" if self.ended else "Running"}}
        return stored_pod(self.uid, self.revision, str(self.size), self.namespace, **phase)


class Namespace(NamedTuple):
    """A namespace in a watch event, with the names of the caps that select it by its labels."""

    revision: int
    name: str
    uid: str
    is_deleted: bool = False
    caps: frozenset[str] = frozenset(CAP_NAMES)


class PodEvent(NamedTuple):
    """A watch event of a pod."""

    revision: int
    kind: str
    pod: Pod


@dataclass
class GroundTruth:
    """API server and etcd. While etcd stalls, transactions wait, and are committed in their order.

    `entered` has the revision at which a namespace last returned to a cap by its labels, by the names of both.
    """

    now: float = 0.0
    revision: int = 10
    is_stalled: bool = False
    nonces: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    pod_events: list[PodEvent] = field(default_factory=list)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    namespace_events: list[Namespace] = field(default_factory=list)
    memberships: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    entered: dict[tuple[str, str], int] = field(default_factory=dict)
    ledgers: dict[LedgerKey, tuple[Ledger, int]] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    late: list[Callable[[], None]] = field(default_factory=list)
    _history: list[tuple[int, Mapping[str, Pod]]] = field(default_factory=lambda: [(0, {})])
    _reads: int = 0

    def clock(self) -> float:
        """Return the time in seconds; no two readings are equal."""
        self._reads += 1
        return self.now + self._reads * 1e-6

    def commit(self, transaction: Callable[[], None]) -> None:
        """Commit a transaction now, or after those that wait."""
        if self.is_stalled or self.waiting:
            self.waiting.append(transaction)
        else:
            transaction()

    def put(self, pod: Pod) -> None:
        """Store a pod at the next revision."""
        self.revision += 1
        stored = pod._replace(revision=self.revision)
        self.pods[pod.uid] = stored
        self._record(PodEvent(self.revision, "MODIFIED", stored))

    def delete(self, uid: str) -> None:
        """Delete a pod at the next revision."""
        self.revision += 1
        deleted = self.pods.pop(uid)._replace(revision=self.revision)
        self._record(PodEvent(self.revision, "DELETED", deleted))

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace that every cap selects."""
        self.revision += 1
        self.namespaces[namespace] = Namespace(self.revision, namespace, f"{namespace}-{self.revision}")
        self._record_namespace(self.namespaces[namespace])

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace, after its pods, as the namespace controller does."""
        for uid in [uid for uid, pod in self.pods.items() if pod.namespace == namespace]:
            self.delete(uid)
        self.revision += 1
        self._record_namespace(self.namespaces.pop(namespace)._replace(revision=self.revision, is_deleted=True))

    def relabel(self, namespace: str, cap: str) -> bool:
        """Change the label that a cap selects by; return whether the namespace is now a member of the cap."""
        self.revision += 1
        before = self.namespaces[namespace]
        after = before._replace(revision=self.revision, caps=before.caps ^ {cap})
        self.namespaces[namespace] = after
        self._record_namespace(after)
        if cap in after.caps:
            self.entered[namespace, cap] = self.revision
        return cap in after.caps

    def is_member(self, key: LedgerKey, namespace: str) -> bool:
        """Return whether a namespace exists and its labels make it a member of the ledger's cap."""
        found = self.namespaces.get(namespace)
        return found is not None and get_cap_name(key.cap) in found.caps

    def list_members(self, key: LedgerKey) -> list[str]:
        """Return the namespaces whose pods a ledger must count now."""
        return [name for name in self.namespaces if key.namespace in {"", name} and self.is_member(key, name)]

    def has_left(self, key: LedgerKey, namespace: str) -> bool:
        """Return whether a namespace exists and its labels do not make it a member of the ledger's cap."""
        return namespace in self.namespaces and not self.is_member(key, namespace)

    def list_pods(self, key: LedgerKey) -> list[Pod]:
        """Return the pods that a ledger must count now."""
        members = self.list_members(key)
        return [pod for pod in self.pods.values() if pod.namespace in members]

    def list_pods_at(self, revision: int) -> Mapping[str, Pod]:
        """Return the pods that were stored at a revision, by UID."""
        return self._history[bisect_right(self._history, revision, key=lambda moment: moment[0]) - 1][1]

    def _record(self, event: PodEvent) -> None:
        self.pod_events.append(event)
        self._history.append((self.revision, dict(self.pods)))

    def _record_namespace(self, event: Namespace) -> None:
        self.namespace_events.append(event)
        for cap in CAP_NAMES:
            self.memberships.append(frozenset(each.name for each in self.namespaces.values() if cap in each.caps))


def hash_members(names: Collection[str]) -> str:
    """Return the hash of member namespaces as a ledger has it (`webhook.gate.usage_lister`)."""
    return sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]
