"""A store of the pods of a cluster, with the devices that the scheduler's claims have for them.

kube-scheduler serves the extended resources of a pod by a claim of its own where a DeviceClass provides them. The
status of the pod names that claim. While the pod counts, its claim does not (docs/design/caps.md, rule 10).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.objects.core import Pod
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.consumer_store import ChargeableCap, ConsumerStore
from tallygate.state.informers.pod_records import ChargeGroup, ChargeGroupInterner, PodRecord, create_pod_codec


class ClaimPod(NamedTuple):
    """The pod that a claim seems to belong to, and the claim's namespace and name."""

    pod_uid: str
    namespace: str
    claim_name: str


class PodStore(ConsumerStore):
    """Pods, updated by the events of a reflector that decodes them with `codec`."""

    def __init__(self) -> None:
        super().__init__(ChargeGroupInterner())
        self.codec = create_pod_codec(self._interner)
        self._group_names: WeakKeyDictionary[ChargeGroup, str] = WeakKeyDictionary()  # of PodGroups
        self._claim_names: dict[str, str] = {}  # by UID: the scheduler's claim of each pod that has not ended

    def find_owned_claims(self, cap: ChargeableCap, owners: Mapping[str, ClaimPod]) -> dict[str, Amounts]:
        """Return the claims, by UID, whose pods have not ended and name them in their status.

        The amounts are those of the pods under the cap.
        """
        with self._lock:
            charges = self._charges_cache.get_charges(cap)
            pods = {uid: pod for uid, owner in owners.items() if (pod := self._find_owner(owner)) is not None}
        return {uid: charges.get_amounts(pod.group) or NO_AMOUNTS for uid, pod in pods.items()}

    def list_pods_of_group(self, namespace: str, group_name: str) -> list[tuple[Pod, int]]:
        """Return the fields that equal pods of a PodGroup have in common, with their number.

        Pods that have ended or are being deleted are left out.
        """
        with self._lock:
            counts = list(self._columns.count_groups_by_state(namespace))
        return [
            (group.to_pod(), number)
            for group, is_terminating, number in counts
            if not is_terminating and self._find_group_name(group) == group_name
        ]

    def _find_group_name(self, group: ChargeGroup) -> str:
        """Return the name of the PodGroup of pods, empty without one."""
        name = self._group_names.get(group)
        if name is None:
            name = self._group_names[group] = group.to_pod().group_name
        return name

    def _find_owner(self, owner: ClaimPod) -> StoredConsumer | None:
        if self._claim_names.get(owner.pod_uid) != owner.claim_name:
            return None
        pod = self._columns.find(owner.pod_uid)
        return pod if pod is not None and pod.namespace == owner.namespace else None

    def _track(self, record: PodRecord, *, is_deleted: bool) -> bool:
        if is_deleted or record.has_ended:
            self._claim_names.pop(record.uid, None)
        elif record.claim_name:
            self._claim_names[record.uid] = record.claim_name
        return False

    def _track_list(self, records: Iterable[PodRecord]) -> None:
        self._claim_names = {
            record.uid: record.claim_name for record in records if record.claim_name and not record.has_ended
        }
