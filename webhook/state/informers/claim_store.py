"""A store of the claims for devices of a cluster, with their charges under caps.

A claim that kube-scheduler made for a pod costs nothing while its pod counts. The store can tell it only together with
the pods: the status of the claim reserves it for the UID of the pod, and the status of the pod names the claim. No
tenant can write either. Between its creation and the status of the pod a claim counts beside its pod; its amounts are
then unconfirmed for a while.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.state.informers.claim_records import ClaimGroup, ClaimRecord, create_claim_codec
from tallygate.webhook.state.informers.consumer_store import ChargeableCap, ConsumerStore, ConsumerUsage
from tallygate.webhook.state.informers.pod_records import ChargeGroupInterner, PodRecord
from tallygate.webhook.state.informers.pod_store import ClaimPod

_UNCONFIRMED_SECONDS = 30.0  # the scheduler writes the claim, its status and the status of the pod in one cycle


class _SchedulerClaim(NamedTuple):
    owner: ClaimPod
    is_reserved: bool
    first_seen: float


class OwnedClaim(NamedTuple):
    """A claim that kube-scheduler seems to have made for a pod.

    `amounts` is its charge as a claim. It can belong to the pod if its devices `is_reserved` for that. It `is_young` in
    its first seconds.
    """

    owner: ClaimPod
    amounts: Amounts
    is_reserved: bool
    is_young: bool


class ClaimsUsage(NamedTuple):
    """The usage of claims of one moment, and those by UID that kube-scheduler seems to have made.

    `revision` is the lowest one to record for it.
    """

    revision: int
    usage: ConsumerUsage
    owned: Mapping[str, OwnedClaim]


class ClaimStore(ConsumerStore):
    """Claims, updated by the events of a reflector that decodes them with `codec`. `monotonic` is in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(ChargeGroupInterner(ClaimGroup))
        self.codec = create_claim_codec(self._interner)
        self._monotonic = monotonic
        self._scheduler_claims: dict[str, _SchedulerClaim] = {}

    def choose_revision(self, preferred: int) -> int:
        """Return the lowest revision at which the claims were as they are now: `preferred`, where that is one.

        The revisions of idle replicas differ by bookmarks only.
        """
        return max(self._last_change, min(preferred, self._revision or 0))

    def compute_claims_usage(
        self, cap: ChargeableCap, namespaces: Iterable[str], uids: Iterable[str], preferred_revision: int
    ) -> ClaimsUsage:
        """Compute the used amounts of these namespaces, as `compute_usage`, and the scheduler's claims among them.

        Both are of one moment, and `choose_revision` chooses its revision.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        members, now = frozenset(namespaces), self._monotonic()
        with self._lock:
            reading = self._read(cap, members, uids)
            revision = self.choose_revision(preferred_revision)
            claims = [
                (uid, each, self._columns.find(uid))
                for uid, each in self._scheduler_claims.items()
                if each.owner.namespace in members
            ]
        owned = {
            uid: OwnedClaim(each.owner, amounts, each.is_reserved, now - each.first_seen < _UNCONFIRMED_SECONDS)
            for uid, each, stored in claims
            if stored is not None and (amounts := reading.charges.get_amounts(stored.group))
        }
        return ClaimsUsage(revision, self._sum(reading, members), owned)

    def _track(self, record: PodRecord, *, is_deleted: bool) -> None:
        if is_deleted:
            self._scheduler_claims.pop(record.uid, None)
        elif isinstance(record, ClaimRecord) and record.pod_uid:
            self._put_scheduler_claim(record)

    def _track_list(self, records: Iterable[PodRecord]) -> None:
        before, self._scheduler_claims = self._scheduler_claims, {}
        for record in records:
            if isinstance(record, ClaimRecord) and record.pod_uid:
                self._put_scheduler_claim(record, before.get(record.uid))

    def _put_scheduler_claim(self, record: ClaimRecord, before: _SchedulerClaim | None = None) -> None:
        before = before or self._scheduler_claims.get(record.uid)
        owner = ClaimPod(record.pod_uid, record.namespace, record.name)
        first_seen = self._monotonic() if before is None else before.first_seen
        self._scheduler_claims[record.uid] = _SchedulerClaim(owner, record.is_reserved, first_seen)
