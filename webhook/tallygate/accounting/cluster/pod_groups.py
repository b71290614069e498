"""The PodGroups of a cluster, with the pods that name them.

Source: podGroupStateData in pkg/scheduler/backend/cache/podgroupstate.go, v1.37.
"""

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from tallygate.accounting.charge import has_ended
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup, PodGroupStatus, SchedulingPod, SchedulingPodSpec

GATE = "GenericWorkload"
"""The feature gate with which kube-scheduler places the pods of a PodGroup together."""

CLAIM_GATE = "DRAWorkloadResourceClaims"
"""The feature gate with which a PodGroup has claims of its own, which kube-scheduler reserves for it."""

JOB_GATE = "WorkloadWithJob"
"""The feature gate with which the Job controller makes a PodGroup for each Job."""

GATES = (GATE, CLAIM_GATE, JOB_GATE)
"""The feature gates on which predictions depend, and that no API reports."""

_GATE_VALUES = {"true": True, "false": False}

API_GROUP = "scheduling.k8s.io"
RESOURCE = "podgroups"

_SCHEDULED = "PodGroupInitiallyScheduled"  # kube-scheduler alone writes this condition


def parse_feature_gates(text: str) -> frozenset[str]:
    """Return the feature gates that a text such as `GenericWorkload=true,WorkloadWithJob=false` turns on.

    Raises:
        ValueError: if it is about a gate on which no prediction depends.
    """
    gates = dict[str, bool]()
    for part in text.split(","):
        name, value = part.strip().partition("=")[::2]
        if name not in GATES or value not in _GATE_VALUES:
            raise ValueError(f"{part!r} is not one of {', '.join(GATES)} with =true or =false")
        gates[name] = _GATE_VALUES[value]
    return frozenset(name for name, is_on in gates.items() if is_on)


class PodGroups:
    """The PodGroups and their pods, by namespace and name.

    `are_known` is set if all PodGroups of the cluster are here. `has_gate` is set if kube-scheduler is known to have
    the gate: an API server serves PodGroups whether or not it has. `has_claim_gate` is set if it is known to reserve
    claims for PodGroups, and `has_job_gate` if the Job controller is known to make PodGroups.
    """

    def __init__(self) -> None:
        self.are_known = False
        self.has_gate = False
        self.has_claim_gate = False
        self.has_job_gate = False
        self._groups: dict[tuple[str, str], PodGroup] = {}
        self._placed: dict[tuple[str, str], dict[str, SchedulingPod]] = {}  # by UID
        self._pending: dict[tuple[str, str], dict[str, SchedulingPod]] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def turn_on(self, gates: Collection[str]) -> None:
        """Count these feature gates as on."""
        self.has_gate = self.has_gate or GATE in gates
        self.has_claim_gate = self.has_claim_gate or CLAIM_GATE in gates
        self.has_job_gate = self.has_job_gate or JOB_GATE in gates

    def put(self, group: PodGroup) -> None:
        """Add a PodGroup, or replace its previous version; a condition and an owner show two of the gates.

        A manifest of a stored group, which has no UID, leaves its status.
        """
        meta = group.metadata or ObjectMeta()
        key = meta.namespace or "default", meta.name or ""
        stored = self._groups.get(key)
        if stored is not None and not meta.uid:
            group = replace(group, metadata=stored.metadata, status=stored.status)
        self._groups[key] = group
        conditions = (group.status or PodGroupStatus()).conditions or ()
        self.has_gate = self.has_gate or any(condition.type == _SCHEDULED for condition in conditions)

        owners = meta.owner_references or ()
        self.has_job_gate = self.has_job_gate or any(owner.controller and owner.kind == "Job" for owner in owners)

    def replace_all(self, groups: Iterable[PodGroup]) -> None:
        """Have these stored PodGroups and no others; what the earlier ones showed of the gates stays known."""
        self._groups = {}
        for group in groups:
            self.put(group)

    @contextmanager
    def apply(self, groups: Collection[PodGroup]) -> Generator[None]:
        """Have these PodGroups as if they were stored now; at the end there are those that were there before."""
        before = dict(self._groups) if groups else self._groups
        gates = self.has_gate, self.has_claim_gate, self.has_job_gate
        try:
            for group in groups:
                self.put(group)
            yield
        finally:
            self._groups = before
            self.has_gate, self.has_claim_gate, self.has_job_gate = gates

    def remove(self, group: PodGroup) -> None:
        """Remove a PodGroup; only its namespace and name matter."""
        meta = group.metadata or ObjectMeta()
        self._groups.pop((meta.namespace or "default", meta.name or ""), None)

    def put_pod(self, pod: SchedulingPod) -> None:
        """Add a stored pod, if it names a PodGroup and has not ended, in place of its previous version."""
        key, meta = find_group_key(pod), pod.metadata or ObjectMeta()
        uid = meta.uid or f"{meta.namespace or 'default'}/{meta.name or ''}"
        self.remove_pod(uid)
        if key is None or has_ended(pod):
            return
        is_placed = bool(pod.spec and pod.spec.node_name)
        if is_placed or meta.deletion_timestamp is None:
            self._keys[uid] = key
            (self._placed if is_placed else self._pending).setdefault(key, {})[uid] = pod

    def remove_pod(self, uid: str) -> None:
        """Remove a pod, if it is here."""
        key = self._keys.pop(uid, None)
        if key is None:
            return
        for pods_by_key in (self._placed, self._pending):
            pods = pods_by_key.get(key, {})
            if pods.pop(uid, None) is not None and not pods:
                del pods_by_key[key]

    def list_pod_uids(self) -> Collection[str]:
        """Return the UIDs of all pods that are here."""
        return self._keys.keys()

    def put_claim(self, claim: ResourceClaim) -> None:
        """Read a claim: kube-scheduler, nearly alone, reserves one for a PodGroup, which shows its gate."""
        consumers = (claim.status.reserved_for if claim.status else None) or ()
        self.has_claim_gate = self.has_claim_gate or any(
            consumer.api_group == API_GROUP and consumer.resource == RESOURCE for consumer in consumers
        )

    def find(self, key: tuple[str, str]) -> PodGroup | None:
        """Return a PodGroup; None if it is not here."""
        return self._groups.get(key)

    def get_uid(self, key: tuple[str, str]) -> str:
        """Return the UID of a PodGroup, empty for one that is not stored."""
        group = self._groups.get(key)
        return (group.metadata.uid if group is not None and group.metadata is not None else None) or ""

    def list_placed(self, key: tuple[str, str]) -> Sequence[SchedulingPod]:
        """Return the pods of a PodGroup that have a node."""
        return (*self._placed.get(key, {}).values(),)

    def list_pending(self, key: tuple[str, str]) -> Sequence[SchedulingPod]:
        """Return the stored pods of a PodGroup that wait for a node."""
        return (*self._pending.get(key, {}).values(),)


def find_group_key(pod: SchedulingPod) -> tuple[str, str] | None:
    """Return the namespace and the name of the PodGroup of a pod; None if it names none."""
    spec = pod.spec or SchedulingPodSpec()
    name = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    return ((pod.metadata or ObjectMeta()).namespace or "default", name) if name else None
