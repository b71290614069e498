"""The amounts that the pods and the claims for devices of a snapshot use under caps, before a manifest is charged.

A claim that kube-scheduler made for a pod counts nothing besides its pod, but for devices that the pod does not count.
Devices count by their attributes and capacities as the slices of the snapshot publish them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import has_ended
from tallygate.accounting.devices.device_meter import AllocatedAmounts, count_devices
from tallygate.accounting.devices.slice_devices import PublishedSlice
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cli.sources.snapshot_reader import SnapshotContents, SnapshotError
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.kube.resource_codec import Replaced
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.review.charged_requests import list_counted_devices
from tallygate.state.informers.claim_records import find_pod_uid
from tallygate.state.informers.device_store import DeviceStore, create_slice_record
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey


class SnapshotUsage:
    """The used amounts by ledger; `ledgers` are without reservations."""

    def __init__(self, index: CapIndex, snapshot: SnapshotContents) -> None:
        """Count the pods and claims.

        Raises:
            SnapshotError: if a pod or slice is not as an API server would have stored it.
        """
        self._has_slices = {"ResourceSlice", "ResourceClaim"} <= snapshot.device_kinds
        self._devices = store_devices(snapshot)
        self._pods_by_uid = {get_metadata(pod).uid: pod for pod in snapshot.pods}
        self._unknown: dict[LedgerKey, set[str]] = {}
        used_by_key: dict[LedgerKey, tuple[ActiveCap, Amounts]] = {}
        consumers: list[Pod | ResourceClaim] = [*snapshot.pods, *snapshot.claims]
        for consumer in consumers:
            namespace = get_metadata(consumer).namespace or ""
            for cap in index.find_matching(namespace, snapshot.labels_by_namespace.get(namespace)).caps:
                key = get_ledger_key(cap, namespace)
                previous = used_by_key.get(key, (cap, NO_AMOUNTS))[1]
                used_by_key[key] = (cap, previous + self._compute_used(cap, key, consumer))
        self.ledgers = {key: Ledger(cap.hard, used) for key, (cap, used) in used_by_key.items()}

    def list_slices(self) -> Sequence[PublishedSlice] | None:
        """Return the slices of devices; None if the snapshot lacks some, or the claims that have devices."""
        return self._devices.list_slices() if self._has_slices else None

    def mark_counted(self, cap: ActiveCap, namespace: str, ledger: Ledger) -> Ledger:
        """Return the ledger with the names that it counts: not those of which a used amount is unknown."""
        unknown: Collection[str] = cap.device_meters.keys()
        if self._has_slices:
            unknown = self._unknown.get(get_ledger_key(cap, namespace), frozenset())
        return msgspec.structs.replace(ledger, resources=cap.counted - cap.list_sources(unknown))

    def describe_allocated(self, cap: ActiveCap, key: LedgerKey, names: Iterable[str]) -> str:
        """Return the used amounts under these names that count allocated devices, and what is not known of them."""
        if not self._has_slices:
            return "what is used under them is unknown, without the ResourceSlices and claims of a snapshot"
        ledger = self.ledgers.get(key)
        unknown: Collection[str] = self._unknown.get(key, ())
        used = NO_AMOUNTS if ledger is None else ledger.used
        return f"used {', '.join(_list_amounts(cap, names, used, unknown))}"

    def _compute_used(self, cap: ActiveCap, key: LedgerKey, consumer: Pod | ResourceClaim) -> Amounts:
        if isinstance(consumer, Pod):
            return compute_used_by_pod(cap, consumer)
        used = self._compute_used_by_claim(cap, consumer)
        if not cap.device_meters or not self._has_slices:
            return used
        found = self._count_devices(cap, consumer)
        if found.unknown:
            self._unknown.setdefault(key, set()).update(found.unknown)
        return used + found.amounts

    def _compute_used_by_claim(self, cap: ActiveCap, claim: ResourceClaim) -> Amounts:
        """Return what a claim counts besides its pod, if kube-scheduler made it (`cluster.counted_claims`)."""
        charge, pod = cap.compute_claim_charge(claim), _find_pod(claim, self._pods_by_uid)
        if pod is None:
            return charge
        return NO_AMOUNTS if cap.is_selective else charge.find_shortfall(compute_used_by_pod(cap, pod))

    def _count_devices(self, cap: ActiveCap, claim: ResourceClaim) -> AllocatedAmounts:
        devices = list_counted_devices(cap, claim)
        return count_devices(devices, cap.device_meters, self._devices.find_device, NO_AMOUNTS)


def compute_used_by_pod(cap: ActiveCap, pod: Pod) -> Amounts:
    """Return what a pod of the snapshot uses under a cap.

    Raises:
        SnapshotError: if the pod has an invalid quantity.
    """
    try:
        return cap.compute_charge(pod).amounts
    except QuantityError as error:
        name = f"{get_metadata(pod).namespace}/{get_metadata(pod).name}"
        raise SnapshotError(
            f"the snapshot's pod {name} has a quantity that no API server would have stored: {error}"
        ) from error


def get_metadata(obj: Pod | ResourceClaim) -> ObjectMeta:
    """Return the metadata of an object, empty without any."""
    return obj.metadata or ObjectMeta()


def store_devices(snapshot: SnapshotContents) -> DeviceStore:
    """Return the devices that the slices of a snapshot publish.

    Raises:
        SnapshotError: if a slice is not as an API server would have stored it.
    """
    store = DeviceStore()
    try:
        store.apply(Replaced([create_slice_record(resource_slice) for resource_slice in snapshot.slices], 1))
    except ValueError as error:
        raise SnapshotError(f"a ResourceSlice of the snapshot is not as an API server stores it: {error}") from error
    return store


def _list_amounts(cap: ActiveCap, names: Iterable[str], used: Amounts, unknown: Collection[str]) -> Iterator[str]:
    for name in sorted(names):
        amount = "unknown" if name in unknown else format_amount(name, used.get(name, 0))
        limit = f" of {format_amount(name, cap.hard[name])}" if name in cap.hard else ""
        yield f"{amount}{limit} {name}"


def _find_pod(claim: ResourceClaim, pods_by_uid: Mapping[str | None, Pod]) -> Pod | None:
    """Return the pod that counts for a claim of kube-scheduler: by the status of both, and not ended."""
    uid = find_pod_uid(get_metadata(claim))
    reserved_for = (claim.status.reserved_for if claim.status else None) or ()
    pod = pods_by_uid.get(uid) if uid and any(consumer.uid == uid for consumer in reserved_for) else None
    status = pod.status if pod is not None else None
    named = status.extended_resource_claim_status if status is not None else None
    if pod is None or named is None or has_ended(pod):
        return None
    is_named = get_metadata(claim).name == named.resource_claim_name
    return pod if is_named and get_metadata(claim).namespace == get_metadata(pod).namespace else None
