"""The ground truth: pods, claims, slices, namespaces and ledgers as etcd stores them, at every revision."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import CapacityRecord, LedgerKey
from tests.gate.simulation.cluster_objects import (
    CAP_NAMES,
    OTHER_GROUP,
    Claim,
    Device,
    Group,
    Limit,
    Namespace,
    Pod,
    Slice,
    Workload,
    create_device_id,
    name_cap,
)
from tests.gate.simulation.device_policies import MAPPED
from tests.gate.simulation.histories import History
from tests.gate.simulation.node_views import RecordedView
from tests.gate.simulation.percent_policies import FIRST_NODES
from tests.gate.simulation.rollout_objects import PodSet, RolloutObjects

_FIRST_GROUP = CAP_NAMES[1]


@dataclass
class GroundTruth:
    """API server and etcd. While etcd stalls, transactions wait, and are committed in their order.

    `class_states` are those of the class of claims, the last one is that of now.
    `entered` has the revision at which a namespace last returned to a cap by its labels, by the names of both, and
    `relabelled` the time and the revision of the last change of the label by which that cap selects it.
    `workloads` are the stored workloads whose pods start together, `groups` the stored PodGroups, `pods_of_workloads`
    the UIDs of all pods that were ever stored for each of both, `rollouts` the controllers that roll, and others.
    `pods_of_claims` has the pod of each claim that the scheduler ever wanted to create, `published` every content of
    each device in any slice.
    """

    now: float = 0.0
    revision: int = 10
    class_states: list[str] = field(default_factory=lambda: [MAPPED])
    is_stalled: bool = False
    nonces: int = 0
    pod_history: History[Pod] = field(default_factory=History)
    claim_history: History[Claim] = field(default_factory=History)
    slice_history: History[Slice] = field(default_factory=History)
    pods_of_claims: dict[str, str] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    pods_of_workloads: dict[str, set[str]] = field(default_factory=dict)
    rollouts: RolloutObjects = field(default_factory=RolloutObjects)
    published: dict[DeviceId, list[Device]] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    namespace_events: list[Namespace] = field(default_factory=list)
    memberships: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    entered: dict[tuple[str, str], int] = field(default_factory=dict)
    relabelled: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    ledgers: dict[LedgerKey, tuple[Ledger, int]] = field(default_factory=dict)
    deleted_ledgers: set[LedgerKey] = field(default_factory=set)
    """The ledgers that were ever deleted."""
    recorded: set[str] = field(default_factory=set)
    """The keys of the caps in the record of those that were active (rule 7)."""
    loaded_at: dict[str, float] = field(default_factory=dict)
    """By the key of a new cap, the time since which every replica has had it."""
    enforced: dict[str, float] = field(default_factory=dict)
    """By the key of a cap, the time at which it was recorded, or a ledger of it was active."""
    nodes: list[Mapping[str, int]] = field(default_factory=lambda: [FIRST_NODES])
    """The GPUs of nodes by name, in every version."""
    node_record: tuple[CapacityRecord, RecordedView] | None = None
    """The capacities that a leader has recorded, and what it had seen then."""
    limits: set[tuple[str, int]] = field(default_factory=set)
    """The limits by which a replica ever decided, or reconciled a ledger, by the key of the cap."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    late: list[Callable[[], None]] = field(default_factory=list)
    _reads: int = 0

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The stored pods by UID."""
        return self.pod_history.stored

    @property
    def claims(self) -> Mapping[str, Claim]:
        """The stored claims by UID."""
        return self.claim_history.stored

    @property
    def slices(self) -> Mapping[str, Slice]:
        """The stored slices by pool."""
        return self.slice_history.stored

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

    def delete_ledger(self, key: LedgerKey) -> None:
        """Delete a ledger."""
        del self.ledgers[key]
        self.deleted_ledgers.add(key)

    def put(self, pod: Pod) -> None:
        """Store a pod at the next revision."""
        self.revision += 1
        self.pod_history.put(pod._replace(revision=self.revision), self.revision)

    def delete(self, uid: str) -> None:
        """Delete a pod at the next revision."""
        self.revision += 1
        self.pod_history.delete(self.pods[uid]._replace(revision=self.revision), self.revision)

    def put_workload(self, workload: Workload) -> None:
        """Store a workload at the next revision."""
        self.revision += 1
        self.workloads[workload.uid] = workload._replace(revision=self.revision)

    def delete_workload(self, uid: str) -> None:
        """Delete a workload at the next revision."""
        self.revision += 1
        del self.workloads[uid]

    def has_pod_named(self, namespace: str, name: str) -> bool:
        """Return whether a pod with this name is stored."""
        return any((each.namespace, each.name) == (namespace, name) for each in self.pods.values())

    def find_workload(self, namespace: str, name: str) -> Workload | None:
        """Return the stored workload with a name, or None."""
        found = (each for each in self.workloads.values() if (each.namespace, each.name) == (namespace, name))
        return next(found, None)

    def find_group(self, namespace: str, name: str) -> Group | None:
        """Return the stored PodGroup with a name, or None."""
        found = (each for each in self.groups.values() if (each.namespace, each.name) == (namespace, name))
        return next(found, None)

    def find_object(self, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the stored workload, PodGroup or set of pods of a name as the API server sends it, or None."""
        found: Workload | Group | PodSet | None
        if plural == "jobs":
            found = self.find_workload(namespace, name)
        elif plural == "podgroups":
            found = self.find_group(namespace, name)
        else:
            found = self.rollouts.sets.get((plural, namespace, name))
        return None if found is None else found.to_object()

    def put_claim(self, claim: Claim) -> None:
        """Store a claim at the next revision."""
        self.revision += 1
        self.claim_history.put(claim._replace(revision=self.revision), self.revision)

    def delete_claim(self, uid: str) -> None:
        """Delete a claim at the next revision."""
        self.revision += 1
        self.claim_history.delete(self.claims[uid]._replace(revision=self.revision), self.revision)

    def put_slice(self, resource_slice: Slice) -> None:
        """Store a slice at the next revision."""
        self.revision += 1
        self.slice_history.put(resource_slice._replace(revision=self.revision), self.revision)
        for device in resource_slice.devices:
            contents = self.published.setdefault(create_device_id(resource_slice.pool, device.name), [])
            if device not in contents:
                contents.append(device)

    def delete_slice(self, pool: str) -> None:
        """Delete the slice of a pool at the next revision."""
        self.revision += 1
        self.slice_history.delete(self.slices[pool]._replace(revision=self.revision), self.revision)

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace that every cap selects."""
        self.revision += 1
        self.namespaces[namespace] = Namespace(self.revision, namespace, f"{namespace}-{self.revision}")
        self._record_namespace(self.namespaces[namespace])

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace, after all that is in it, as the namespace controller does."""
        self.rollouts.delete_namespace(namespace)
        for uid in [uid for uid, pod in self.pods.items() if pod.namespace == namespace]:
            self.delete(uid)
        for uid in [uid for uid, claim in self.claims.items() if claim.namespace == namespace]:
            self.delete_claim(uid)
        self.revision += 1
        self._record_namespace(self.namespaces.pop(namespace)._replace(revision=self.revision, is_deleted=True))

    def relabel(self, namespace: str, cap: str) -> bool:
        """Change the label that a cap selects by; return whether the namespace is now a member of the cap."""
        self.revision += 1
        before = self.namespaces[namespace]
        after = before._replace(revision=self.revision, caps=before.caps ^ {cap})
        self.namespaces[namespace] = after
        self._record_namespace(after)
        self.relabelled[namespace, cap] = self.now, self.revision
        if cap in after.caps:
            self.entered[namespace, cap] = self.revision
        return cap in after.caps

    def annotate(self, namespace: str, limit: Limit | None) -> None:
        """Change the annotation that gives a namespace a limit, or remove it."""
        self.revision += 1
        self.namespaces[namespace] = self.namespaces[namespace]._replace(revision=self.revision, limit=limit)
        self._record_namespace(self.namespaces[namespace])

    def find_limit(self, namespace: str, revision: int) -> Limit | None:
        """Return the limit of the annotation of a namespace, as of a revision."""
        versions = (each for each in reversed(self.namespace_events) if each.name == namespace)
        return next((each.limit for each in versions if each.revision <= revision), None)

    def move(self, namespace: str) -> str:
        """Change the value of the label of groups; return the name of the group that the namespace enters."""
        self.revision += 1
        before = self.namespaces[namespace]
        left, entered = (OTHER_GROUP, _FIRST_GROUP) if OTHER_GROUP in before.caps else (_FIRST_GROUP, OTHER_GROUP)
        after = before._replace(revision=self.revision, caps=before.caps - {left} | {entered})
        self.namespaces[namespace] = after
        self._record_namespace(after)
        self.entered[namespace, entered] = self.revision
        return entered

    def is_member_before(self, key: LedgerKey, namespace: str, lag: float) -> tuple[bool, int]:
        """Return whether a namespace is a member by labels that are late by `lag` seconds, and their revision."""
        changed_at, revision = self.relabelled.get((namespace, name_cap(key.cap)), (-lag, 0))
        if self.now < changed_at + lag:
            return not self.is_member(key, namespace), revision - 1
        return self.is_member(key, namespace), self.revision

    def is_member(self, key: LedgerKey, namespace: str) -> bool:
        """Return whether a namespace exists and its labels make it a member of the ledger's cap."""
        found = self.namespaces.get(namespace)
        return found is not None and name_cap(key.cap) in found.caps

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

    def list_claims(self, key: LedgerKey) -> list[Claim]:
        """Return the claims that a ledger must count now, by themselves or with their pods."""
        members = self.list_members(key)
        return [claim for claim in self.claims.values() if claim.namespace in members]

    def list_pods_at(self, revision: int) -> Mapping[str, Pod]:
        """Return the pods that were stored at a revision, by UID."""
        return self.pod_history.list_at(revision)

    def _record_namespace(self, event: Namespace) -> None:
        self.namespace_events.append(event)
        for cap in (*CAP_NAMES, OTHER_GROUP):
            self.memberships.append(frozenset(each.name for each in self.namespaces.values() if cap in each.caps))


def hash_members(names: Collection[str]) -> str:
    """Return the hash of member namespaces as a ledger has it (`tallygate.cluster.usage_lister`)."""
    return sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]
