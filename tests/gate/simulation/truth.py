"""What is so: pods and namespaces as etcd has stored them, revision by revision, and the ledgers."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from tests.gate.simulation.caps import NAMES
from tests.state.informers.pods import pod as stored_pod
from webhook.admission.cap_index import get_cap_name
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey


class Pod(NamedTuple):
    """A stored pod that holds `size` GPUs, unless it has ended."""

    uid: str
    namespace: str
    size: int
    ended: bool = False
    revision: int = 0

    @property
    def holds(self) -> int:
        """What it costs."""
        return 0 if self.ended else self.size

    def body(self) -> dict[str, Any]:
        """As the API server sends it."""
        phase = {"status": {"phase": "Succeeded" if self.ended else "Running"}}
        return stored_pod(self.uid, self.revision, str(self.size), self.namespace, **phase)


class Namespace(NamedTuple):
    """What a watch of namespaces tells: one is there, or `gone`; another of the same name has another uid.

    `caps` are the names of the caps that its labels select.
    """

    revision: int
    name: str
    uid: str
    gone: bool = False
    caps: frozenset[str] = frozenset(NAMES)


class Told(NamedTuple):
    """What a watch of pods tells."""

    revision: int
    kind: str
    pod: Pod


@dataclass
class Truth:
    """API server and etcd, which may stall: what has come to it then waits, and commits in the order of its coming."""

    now: float = 0.0
    revision: int = 10
    stalled: bool = False
    nonces: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    told_namespaces: list[Namespace] = field(default_factory=list)
    memberships: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    entered: dict[tuple[str, str], int] = field(default_factory=dict)
    """The revision at which a namespace last returned to a cap by its labels, by the names of both."""
    books: dict[LedgerKey, tuple[Ledger, int]] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    late: list[Callable[[], None]] = field(default_factory=list)
    _moments: list[tuple[int, Mapping[str, Pod]]] = field(default_factory=lambda: [(0, {})])
    _reads: int = 0

    def clock(self) -> float:
        """Seconds; no two readings are the same."""
        self._reads += 1
        return self.now + self._reads * 1e-6

    def commit(self, transaction: Callable[[], None]) -> None:
        """Hand a transaction to etcd."""
        if self.stalled or self.waiting:
            self.waiting.append(transaction)
        else:
            transaction()

    def put(self, pod: Pod) -> Pod:
        """Store a pod."""
        self.revision += 1
        stored = pod._replace(revision=self.revision)
        self._tell("MODIFIED", stored)
        self.pods[pod.uid] = stored
        return self._moved(stored)

    def remove(self, uid: str) -> None:
        """Delete a pod."""
        self.revision += 1
        gone = self.pods.pop(uid)._replace(revision=self.revision)
        self._tell("DELETED", gone)
        self._moved(gone)

    def bear(self, namespace: str) -> None:
        """Make a namespace."""
        self.revision += 1
        self.namespaces[namespace] = Namespace(self.revision, namespace, f"{namespace}-{self.revision}")
        self._tell_namespace(self.namespaces[namespace])

    def bury(self, namespace: str) -> None:
        """Delete a namespace: first its pods, as the namespace controller does."""
        for uid in [uid for uid, pod in self.pods.items() if pod.namespace == namespace]:
            self.remove(uid)
        self.revision += 1
        self._tell_namespace(self.namespaces.pop(namespace)._replace(revision=self.revision, gone=True))

    def relabel(self, namespace: str, cap: str) -> bool:
        """Change the label that a cap selects by, and return whether the namespace is a member of the cap then."""
        self.revision += 1
        before = self.namespaces[namespace]
        after = before._replace(revision=self.revision, caps=before.caps ^ {cap})
        self.namespaces[namespace] = after
        self._tell_namespace(after)
        if cap in after.caps:
            self.entered[namespace, cap] = self.revision
        return cap in after.caps

    def is_member(self, key: LedgerKey, namespace: str) -> bool:
        """Return whether a namespace exists and its labels make it a member of the ledger's cap."""
        found = self.namespaces.get(namespace)
        return found is not None and get_cap_name(key.cap) in found.caps

    def members(self, key: LedgerKey) -> list[str]:
        """Return the namespaces whose pods a ledger is to count now."""
        return [name for name in self.namespaces if key.namespace in {"", name} and self.is_member(key, name)]

    def has_left(self, key: LedgerKey, namespace: str) -> bool:
        """Return whether a namespace exists and its labels do not make it a member of the ledger's cap."""
        return namespace in self.namespaces and not self.is_member(key, namespace)

    def pods_under(self, key: LedgerKey) -> list[Pod]:
        """Return the pods that a ledger is to count now."""
        members = self.members(key)
        return [pod for pod in self.pods.values() if pod.namespace in members]

    def pods_at(self, revision: int) -> Mapping[str, Pod]:
        """The pods as they were then."""
        return self._moments[bisect_right(self._moments, revision, key=lambda moment: moment[0]) - 1][1]

    def _tell_namespace(self, told: Namespace) -> None:
        self.told_namespaces.append(told)
        for cap in NAMES:
            self.memberships.append(frozenset(each.name for each in self.namespaces.values() if cap in each.caps))

    def _tell(self, kind: str, pod: Pod) -> None:
        self.told.append(Told(self.revision, kind, pod))

    def _moved(self, pod: Pod) -> Pod:
        self._moments.append((self.revision, dict(self.pods)))
        return pod


def under(key: LedgerKey, pod: Pod) -> bool:
    """Return whether a ledger counts a pod as long as the pod's namespace is a member of the ledger's cap."""
    return key.namespace in {"", pod.namespace}


def membership(names: Collection[str]) -> str:
    """What a ledger says of the namespaces that it was counted with (`webhook.gate.sight`)."""
    return sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]
