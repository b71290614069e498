"""A store of the claims for devices of a cluster, with their charges under caps.

A claim that kube-scheduler made for a pod costs nothing while its pod counts. The store can tell it only together with
the pods: the status of the claim reserves it for the UID of the pod, and the status of the pod names the claim. No
tenant can write either. Between its creation and the status of the pod a claim counts besides its pod; its amounts are
then unconfirmed for a while.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.devices.device_meter import AllocatedDevice, DeviceId
from tallygate.kube.resource_codec import Bookmark, Replaced, WatchEvent
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord, create_claim_codec
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.consumer_store import ChargeableCap, ConsumerStore, ConsumerUsage, GroupCharges
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord
from tallygate.state.informers.pod_store import ClaimPod

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


ClaimName = tuple[str, str]
"""The namespace and the name of a claim."""

ClaimListener = Callable[[Collection[ClaimName] | None], None]
"""A callback for the claims that were created, changed or deleted; None for all. It must return soon and not raise."""


class ClaimStore(ConsumerStore):
    """Claims, updated by the events of a reflector that decodes them with `codec`. `monotonic` is in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(ChargeGroupInterner(ClaimGroup))
        self.codec = create_claim_codec(self._interner)
        self._monotonic = monotonic
        self._scheduler_claims: dict[str, _SchedulerClaim] = {}
        self._records: dict[str, dict[str, ClaimRecord]] = {}  # by namespace and name
        self._claim_listeners: list[ClaimListener] = []

    def choose_revision(self, preferred: int) -> int:
        """Return the lowest revision from which no claim was stored: `preferred`, where that is one.

        The revisions of idle replicas differ by lists and bookmarks only.
        """
        return max(self._last_change, min(preferred, self._revision or 0))

    def apply(self, event: WatchEvent[PodRecord]) -> None:
        """Apply an event; ignore an event that is not newer than `revision`."""
        super().apply(event)
        if not isinstance(event, Bookmark):
            names = None if isinstance(event, Replaced) else ((event.item.namespace, event.item.name),)
            for listener in self._claim_listeners:
                listener(names)

    def add_claim_listener(self, listener: ClaimListener) -> None:
        """Add a listener. The thread that applies an event calls it."""
        self._claim_listeners.append(listener)

    def find_record(self, namespace: str, name: str) -> ClaimRecord | None:
        """Return the claim of this name, or None."""
        return self._records.get(namespace, {}).get(name)

    def list_names(self) -> list[ClaimName]:
        with self._lock:
            return [(namespace, name) for namespace, by_name in self._records.items() for name in by_name]

    def list_allocated(self, namespaces: Iterable[str]) -> list[ClaimRecord]:
        with self._lock:
            records = [record for namespace in namespaces for record in self._records.get(namespace, {}).values()]
        return [record for record in records if record.devices]

    def list_devices(self) -> Iterator[DeviceId]:
        with self._lock:
            claims = [record for by_name in self._records.values() for record in by_name.values()]
        return (device.id for claim in claims for device in claim.devices)

    def list_owned(self, cap: ChargeableCap, namespaces: Iterable[str]) -> dict[str, OwnedClaim]:
        """Return the claims of these namespaces that the scheduler seems to have made, by UID.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        with self._lock:
            self._require_revision()
            charges = self._charges_cache.get_charges(cap)
            claims = self._list_scheduler_claims(frozenset(namespaces))
        return dict(self._charge_owned(claims, charges))

    def compute_usage_and_owned(
        self, cap: ChargeableCap, namespaces: Iterable[str], uids: Iterable[str], separate: Collection[str] = ()
    ) -> tuple[ConsumerUsage, dict[str, OwnedClaim]]:
        """Return the results of `compute_usage` and `list_owned` as of one moment.

        Raises:
            NotSyncedError: if there was no complete list yet.
        """
        members = frozenset(namespaces)
        with self._lock:
            inputs = self._read_usage_inputs(cap, members, uids, separate=separate)
            claims = self._list_scheduler_claims(members)
        return self._sum_usage(inputs), dict(self._charge_owned(claims, inputs.charges))

    def _list_scheduler_claims(self, namespaces: frozenset[str]) -> list[tuple[str, _SchedulerClaim, StoredConsumer]]:
        """Return the claims of these namespaces that the scheduler seems to have made. Hold the lock."""
        return [
            (uid, claim, stored)
            for uid, claim in self._scheduler_claims.items()
            if claim.owner.namespace in namespaces and (stored := self._columns.find(uid)) is not None
        ]

    def _charge_owned(
        self, claims: Iterable[tuple[str, _SchedulerClaim, StoredConsumer]], charges: GroupCharges
    ) -> Iterator[tuple[str, OwnedClaim]]:
        now = self._monotonic()
        for uid, record, stored in claims:
            if amounts := charges.get_amounts(stored.group):
                is_young = now - record.first_seen < _UNCONFIRMED_SECONDS
                yield uid, OwnedClaim(record.owner, amounts, record.is_reserved, is_young)

    def _track(self, record: PodRecord, *, is_deleted: bool) -> bool:
        if is_deleted:
            self._scheduler_claims.pop(record.uid, None)
        elif isinstance(record, ClaimRecord) and record.pod_uid:
            self._put_scheduler_claim(record)
        return self._put_record(record, is_deleted=is_deleted)

    def _track_list(self, records: Iterable[PodRecord]) -> None:
        before, self._scheduler_claims = self._scheduler_claims, {}
        self._records = {}
        for record in records:
            self._put_record(record)
            if isinstance(record, ClaimRecord) and record.pod_uid:
                self._put_scheduler_claim(record, before.get(record.uid))

    def _put_record(self, record: PodRecord, *, is_deleted: bool = False) -> bool:
        """Store a claim, or remove it; return whether its devices have changed."""
        by_name = self._records.get(record.namespace, {})
        before = by_name.pop(record.name, None)
        devices: tuple[AllocatedDevice, ...] = ()
        if isinstance(record, ClaimRecord) and not is_deleted:
            by_name[record.name] = record
            devices = record.devices
        if by_name:
            self._records[record.namespace] = by_name
        else:
            self._records.pop(record.namespace, None)
        return devices != (before.devices if before else ())

    def _put_scheduler_claim(self, record: ClaimRecord, before: _SchedulerClaim | None = None) -> None:
        before = before or self._scheduler_claims.get(record.uid)
        owner = ClaimPod(record.pod_uid, record.namespace, record.name)
        first_seen = self._monotonic() if before is None else before.first_seen
        self._scheduler_claims[record.uid] = _SchedulerClaim(owner, record.is_reserved, first_seen)
