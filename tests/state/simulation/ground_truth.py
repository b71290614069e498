"""The ground truth: stored pods, claims and labels, the transactions that wait inside etcd, and the ledgers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger
from tests.state.simulation.annotation_rules import Annotations, Override
from tests.state.simulation.claim_rules import belongs_to_pod, count_claim, count_rest
from tests.state.simulation.class_rules import MAPPED
from tests.state.simulation.rules import UsedByPod
from tests.state.simulation.scenario import UNITS, Cap, Scenario
from tests.state.simulation.stored_objects import Claim, Pod

Labels = tuple[frozenset[int], ...]
"""For each namespace, the caps that select it by its labels."""


class NamespaceVersion(NamedTuple):
    """The namespaces as of a revision."""

    revision: int
    labels: Labels
    annotations: Annotations


class Key(NamedTuple):
    """The key of a ledger: a cap and a namespace, which is -1 if the cap is shared."""

    cap: int
    namespace: int


class StoredLedger(NamedTuple):
    """A ledger in etcd, or none, with its version and the part of each pod in its used amounts."""

    ledger: Ledger | None
    version: int
    used_by_pod: UsedByPod


class Reserving(NamedTuple):
    """The part of a write that reserves, for the invariants of surges.

    If it `needs_surge`, `attempted_at` is the time of the attempt, and `ticks` are what its policy lets a surge last.
    The ledger `was_above` its limit before, and may have been recounted in the same write.
    """

    needs_surge: bool
    was_above: bool
    is_recounted: bool
    attempted_at: int
    ticks: int


@dataclass(eq=False)
class Write:
    """A write of a ledger in flight: computed from one version, without effect on any other."""

    key: Key
    ledger: Ledger
    used_by_pod: UsedByPod
    version: int
    name: str
    is_recount: bool = False
    is_limits: bool = False
    is_unchanged: bool = False
    reserving: Reserving | None = None
    token: int = 0
    answer: Callable[[bool], None] = lambda _: None


@cache
def amounts(size: int, resources: frozenset[str]) -> Amounts:
    """Return the amounts of these resources for a size in units, without zeros; ways to a device have none."""
    return Amounts({name: size * UNITS[name] for name in resources if size and name in UNITS})


@dataclass
class GroundTruth:
    """API server and etcd, with the one revision counter of etcd.

    `entered` has the revision at which a namespace last entered a cap by its labels. etcd commits `waiting`
    transactions in their order, whether or not their senders still wait. `pods_of_claims` has the pod of each claim
    that the scheduler ever wanted to create. `names_by_uid` has the namespace, whether it is a claim, and the name of
    everything that was ever requested. `surges` are the largest ones that a policy has had, by cap, and
    `surges_began` the times at which those of the ledgers began. `rolling` are the ledgers and pods for which a replica
    saw that the controller rolls. `class_states` are those of the class of all claims, the last one is that of now.
    `recorded` are the caps that were active, as the leader records them, and `loaded_at` has the time since which every
    replica has a new cap. `enforced` are the caps that are recorded, or of which a ledger was active.
    """

    scenario: Scenario
    now: int = 0
    revision: int = 1
    is_stalled: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    log: list[tuple[int, str, Pod | None]] = field(default_factory=list)
    names: dict[tuple[int, str], str] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    claim_log: list[tuple[int, str, Claim | None]] = field(default_factory=list)
    claim_names: dict[tuple[int, str], str] = field(default_factory=dict)
    pods_of_claims: dict[str, str] = field(default_factory=dict)
    namespace_log: list[NamespaceVersion] = field(default_factory=list)
    entered: dict[tuple[int, int], int] = field(default_factory=dict)
    ledgers: dict[Key, StoredLedger] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    names_by_uid: dict[str, tuple[int, bool, str]] = field(default_factory=dict)
    surges: dict[int, int] = field(default_factory=dict)
    surges_began: dict[Key, int] = field(default_factory=dict)
    rolling: set[tuple[Key, str]] = field(default_factory=set)
    class_states: list[str] = field(default_factory=lambda: [MAPPED])
    recorded: set[int] = field(default_factory=set)
    loaded_at: dict[int, int] = field(default_factory=dict)
    enforced: set[int] = field(default_factory=set)

    @property
    def labels(self) -> Labels:
        """The current labels of the namespaces."""
        return self.namespace_log[-1].labels

    @property
    def annotations(self) -> Annotations:
        """The current annotations of the namespaces."""
        return self.namespace_log[-1].annotations

    def cap(self, key: Key) -> Cap:
        """Return the cap of a ledger."""
        return self.scenario.caps[key.cap]

    def pick_key(self, number: int) -> Key:
        """Return the key of a ledger by its number."""
        return list(self.ledgers)[number % len(self.ledgers)]

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
        self.names[pod.namespace, pod.name] = pod.uid
        self.log.append((self.revision, pod.uid, stored))

    def delete(self, uid: str) -> None:
        """Delete a pod at the next revision."""
        self.revision += 1
        pod = self.pods.pop(uid)
        del self.names[pod.namespace, pod.name]
        self.log.append((self.revision, uid, None))

    def put_claim(self, claim: Claim) -> None:
        """Store a claim at the next revision."""
        self.revision += 1
        stored = claim._replace(revision=self.revision)
        self.claims[claim.uid] = stored
        self.claim_names[claim.namespace, claim.name] = claim.uid
        self.claim_log.append((self.revision, claim.uid, stored))

    def delete_claim(self, uid: str) -> None:
        """Delete a claim at the next revision."""
        self.revision += 1
        claim = self.claims.pop(uid)
        del self.claim_names[claim.namespace, claim.name]
        self.claim_log.append((self.revision, uid, None))

    def relabel(self, labels: Labels) -> None:
        """Replace the labels of the namespaces at the next revision."""
        self.revision += 1
        before = self.labels
        self.namespace_log.append(NamespaceVersion(self.revision, labels, self.annotations))
        for namespace, caps in enumerate(labels):
            self.entered |= {(namespace, cap): self.revision for cap in caps - before[namespace]}

    def annotate(self, namespace: int, override: Override | None) -> None:
        """Replace the annotation of a namespace at the next revision; None removes it."""
        self.revision += 1
        annotations = (*self.annotations[:namespace], override, *self.annotations[namespace + 1 :])
        self.namespace_log.append(NamespaceVersion(self.revision, self.labels, annotations))

    def find_annotations(self, revision: int) -> Annotations:
        """Return the annotations as of a revision of the namespaces."""
        return next(each.annotations for each in reversed(self.namespace_log) if each.revision <= revision)

    def size_under(self, key: Key, pod: Pod | None) -> int:
        """Return the units of a pod that a cap must count under the current labels."""
        if pod is None or pod.ended or not is_under(self.scenario, self.labels, key, pod):
            return 0
        return 0 if self.cap(key).by_allocation else pod.size

    def count_under(self, key: Key, claim: Claim) -> int:
        """Return the units that a claim counts under a cap in the end, beside its pod if it belongs to one."""
        ledger = self.ledgers[key].ledger
        if not is_under(self.scenario, self.labels, key, claim):
            return 0
        if self.scenario.has_classes and not (ledger is not None and ledger.mappings):
            return 0
        cap = self.cap(key)
        if cap.by_allocation or not belongs_to_pod(claim, self.pods):
            return count_claim(claim, cap)
        return count_rest(count_claim(claim, cap), self.size_under(key, self.pods[claim.reserved_for]))


def list_keys(scenario: Scenario, labels: Labels, namespace: int) -> list[Key]:
    """Return the ledgers of a namespace under these labels, in the order of their writes."""
    return [
        Key(number, -1 if cap.is_shared else namespace)
        for number, cap in enumerate(scenario.caps)
        if number in labels[namespace]
    ]


def hash_members(scenario: Scenario, labels: Labels, key: Key) -> str:
    """Return a stand-in for the hash of the member namespaces of a ledger under these labels."""
    if scenario.caps[key.cap].is_shared:
        return ",".join(str(number) for number, caps in enumerate(labels) if key.cap in caps)
    return str(key.namespace) if key.cap in labels[key.namespace] else ""


def is_under(scenario: Scenario, labels: Labels, key: Key, pod: Pod | Claim) -> bool:
    """Return whether a cap counts a pod or claim under these labels: by its namespace and by the cap's filter."""
    if key.cap not in labels[pod.namespace] or key.namespace not in {-1, pod.namespace}:
        return False
    return pod.classed or not scenario.caps[key.cap].is_filtered
