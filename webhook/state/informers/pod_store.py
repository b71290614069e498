"""A store of the pods of a cluster, with the devices that the scheduler's claims have for them.

kube-scheduler serves the extended resources of a pod by a claim of its own where a DeviceClass provides them. The
status of the pod names that claim. While the pod counts, its claim does not. The claim has its devices for a while
longer than the pod runs. So a pod that has ended or was deleted counts until the claims are known as of its end: from
then on its claim counts by itself (docs/design/caps.md, rule 10).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.objects.core import Pod
from tallygate.webhook.state.informers.consumer_columns import StoredConsumer
from tallygate.webhook.state.informers.consumer_store import NO_AMOUNTS, ChargeableCap, ConsumerStore
from tallygate.webhook.state.informers.pod_records import (
    ChargeGroup,
    ChargeGroupInterner,
    PodRecord,
    create_pod_codec,
    create_pod_record,
)


class _EndedPod(NamedTuple):
    """A pod with a claim of the scheduler that ended at `revision`."""

    namespace: str
    group: ChargeGroup
    revision: int


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
        self._claim_names: dict[str, str] = {}  # by UID: the scheduler's claim of each pod that has not ended
        self._ended_pods: dict[str, _EndedPod] = {}
        self._listed_at = 0

    def create_record(self, pod: Pod) -> PodRecord:
        """Create the record of a stored pod, for a codec that decodes more fields than `codec`.

        Raises:
            ValueError: if the pod lacks a field that every stored pod has.
        """
        return create_pod_record(pod, self._interner)

    @property
    def listed_at(self) -> int:
        """Revision of the last list. Claims as of an earlier revision may lack those of pods that ended before it."""
        return self._listed_at

    def find_owned_claims(self, cap: ChargeableCap, owners: Mapping[str, ClaimPod]) -> dict[str, Amounts]:
        """Return the claims, by UID, whose pods have not ended and name them in their status.

        The amounts are those of the pods under the cap.
        """
        with self._lock:
            charges = self._charges_cache.get_charges(cap)
            pods = {uid: pod for uid, owner in owners.items() if (pod := self._find_owner(owner)) is not None}
        return {uid: charges.get_amounts(pod.group) or NO_AMOUNTS for uid, pod in pods.items()}

    def drop_ended(self, claims_revision: int) -> None:
        """Drop the ended pods whose claims are known as of their end."""
        with self._lock:
            self._ended_pods = {uid: pod for uid, pod in self._ended_pods.items() if pod.revision > claims_revision}

    def _find_owner(self, owner: ClaimPod) -> StoredConsumer | None:
        if self._claim_names.get(owner.pod_uid) != owner.claim_name:
            return None
        pod = self._columns.find(owner.pod_uid)
        return pod if pod is not None and pod.namespace == owner.namespace else None

    def _count_groups(self, namespaces: frozenset[str]) -> Counter[ChargeGroup]:
        """Count the pods that have not ended, and those whose claims are not known as of their end."""
        counts = super()._count_groups(namespaces)
        counts.update(pod.group for pod in self._ended_pods.values() if pod.namespace in namespaces)
        return counts

    def _track(self, record: PodRecord, revision: int, *, is_deleted: bool) -> None:
        if not is_deleted and not record.has_ended:
            if record.claim_name:
                self._claim_names[record.uid] = record.claim_name
            return
        before = self._columns.find(record.uid)
        is_end = before is None or not before.has_ended
        if self._claim_names.pop(record.uid, record.claim_name) and is_end:
            group = record.group if before is None else before.group
            self._ended_pods[record.uid] = _EndedPod(record.namespace, group, revision)

    def _track_list(self, records: Iterable[PodRecord], revision: int) -> None:
        self._claim_names = {each.uid: each.claim_name for each in records if each.claim_name and not each.has_ended}
        self._ended_pods, self._listed_at = {}, revision
