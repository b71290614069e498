"""The claims for devices that count under a cap, one by one, as `tallygate.cluster.usage_lister` sums them.

A claim that kube-scheduler made for a pod counts nothing besides its pod, but for devices that the pod does not count.
Under names that count devices by attributes or capacities every claim counts: a pod has nothing under these.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.devices.device_meter import AllocatedAmounts, AllocatedDevice, DeviceId
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster.allocated_usage import list_allocated
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord
from tallygate.state.informers.claim_store import ClaimStore, OwnedClaim
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger

_MAX_NAMED = 10


class ClaimSources(NamedTuple):
    """The stores that watches update."""

    pods: PodStore
    claims: ClaimStore
    devices: DeviceStore | None


class CountedDevices(NamedTuple):
    """The devices of a claim under names by attributes and capacities, and their amounts.

    `unknown` are the names under which the amount cannot be known. No slice publishes the devices in `unpublished`; it
    `is_kept` if the ledger or the store knows what these counted before. `undecided` has a text for each device on
    which an expression fails.
    """

    devices: tuple[AllocatedDevice, ...] = ()
    amounts: Amounts = NO_AMOUNTS
    unknown: frozenset[str] = frozenset()
    unpublished: tuple[DeviceId, ...] = ()
    is_kept: bool = False
    undecided: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether slices show the amounts."""
        return not (self.unknown or self.unpublished or self.undecided)


_NO_DEVICES = CountedDevices()


class CountedClaim(NamedTuple):
    """A claim with its charge under a cap, and the amounts that count besides its pod.

    `pod_uid` is the UID of the pod for which kube-scheduler seems to have made it, or empty; `pod` is that pod if it is
    stored, and `is_confirmed` if its status names the claim. `charge` is without `allocated`, and `counted` has both.
    """

    claim: StoredConsumer
    charge: Amounts
    counted: Amounts
    pod_uid: str = ""
    pod: StoredConsumer | None = None
    is_confirmed: bool = False
    allocated: CountedDevices = _NO_DEVICES

    def decode(self) -> ResourceClaim:
        """Return the fields of the claim that decide its charge."""
        group = self.claim.group
        assert isinstance(group, ClaimGroup)  # noqa: S101  # a store of claims has no others
        return group.to_claim()


def list_counted_claims(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger
) -> list[CountedClaim]:
    """Return the claims of these namespaces that have a charge under a cap, or devices whose amounts are unknown.

    Without a list of slices, no devices are counted by their attributes and capacities. `ledger` has the amounts of
    claims whose devices were not published at its last recount.

    Raises:
        NotSyncedError: if pods or claims are not listed yet.
    """
    if not cap.counts_claims:
        return []
    pods, claims, _ = sources
    charges = claims.compute_used_by_consumer(cap, namespaces) if cap.device_sources else {}
    owned = claims.list_owned(cap, namespaces)
    remainders = compute_remainders(cap, owned, pods)
    allocated, pod_uids = dict[str, CountedDevices](), {uid: each.owner.pod_uid for uid, each in owned.items()}
    for each, devices in _list_devices(cap, namespaces, sources, ledger):
        allocated[each.uid] = devices
        pod_uids[each.uid] = each.pod_uid
    counted_claims: list[CountedClaim] = []
    for uid in dict.fromkeys((*charges, *allocated)):
        claim = claims.find(uid)
        if claim is None:
            continue
        charge, devices, pod_uid = charges.get(uid, NO_AMOUNTS), allocated.get(uid, _NO_DEVICES), pod_uids.get(uid, "")
        counted = remainders.get(uid, charge) + devices.amounts
        pod = pods.find(pod_uid) if pod_uid else None
        counted_claims.append(CountedClaim(claim, charge, counted, pod_uid, pod, uid in remainders, devices))
    return counted_claims


def compute_remainders(cap: ActiveCap, owned: Mapping[str, OwnedClaim], pods: PodStore) -> dict[str, Amounts]:
    """Return what claims of kube-scheduler count besides their pods, by UID, without those whose pods do not count.

    The classes of a resource may have changed since the scheduler made a claim, so it may be larger than its pod.
    """
    confirmed = pods.find_owned_claims(cap, {uid: each.owner for uid, each in owned.items() if each.is_reserved})
    if cap.is_selective:
        return dict.fromkeys(confirmed, NO_AMOUNTS)
    return {uid: owned[uid].amounts.find_shortfall(used) for uid, used in confirmed.items()}


def _list_devices(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger
) -> Iterator[tuple[ClaimRecord, CountedDevices]]:
    """Yield the claims whose devices count by attributes and capacities, or may count."""
    _, claims, store = sources
    if not cap.device_meters or store is None or store.revision is None:
        return
    for claim, found, kept in list_allocated(cap, claims, store, namespaces, ledger):
        devices = _describe_devices(cap, claim.devices, found, store, is_kept=bool(kept))
        if devices.amounts or not devices.is_certain:
            yield claim, devices


def _describe_devices(
    cap: ActiveCap, devices: tuple[AllocatedDevice, ...], found: AllocatedAmounts, store: DeviceStore, *, is_kept: bool
) -> CountedDevices:
    amounts = Amounts({name: amount for name, amount in found.amounts.items() if amount})
    known = [(device, store.find_device(device.id)) for device in devices]
    unpublished = tuple(each.id for each, seen in known if seen is None or not seen.is_published)
    problems = (
        (each.id, name, meter.find_problem(each, seen))
        for each, seen in known
        if seen is not None
        for name, meter in cap.device_meters.items()
    )
    undecided = tuple(
        f"device {each} is undecided under {name}, and counts as if it were selected: {text}"
        for each, name, text in problems
        if text
    )
    is_kept = is_kept or all(seen is not None for _, seen in known)
    return CountedDevices(devices, amounts, found.unknown, unpublished, is_kept, undecided)


def describe_uncertain(cap: ActiveCap, claims: Iterable[CountedClaim]) -> Iterator[str]:
    """Yield a text for the devices whose amounts under a cap no ResourceSlice shows: which they are, how they count."""
    uncertain = [claim for claim in claims if not claim.allocated.is_certain]
    kept = [claim for claim in uncertain if claim.allocated.is_kept]
    others = [claim for claim in uncertain if not claim.allocated.is_kept]
    if names := _name_unpublished(kept):
        yield f"{names}: they count what they counted when they were published"
    if names := _name_unpublished(others):
        yield f"{names}: {_explain_unpublished(cap)}"
    undecided = list(dict.fromkeys(text for claim in uncertain for text in claim.allocated.undecided))
    yield from undecided[:_MAX_NAMED]
    if len(undecided) > _MAX_NAMED:
        yield f"{len(undecided) - _MAX_NAMED} more devices are undecided"


def _name_unpublished(claims: Iterable[CountedClaim]) -> str:
    names = sorted(
        f"{device} of resourceclaim {claim.claim.namespace}/{claim.claim.name}"
        for claim in claims
        for device in claim.allocated.unpublished
    )
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (
        f"no ResourceSlice publishes devices that claims have, {', '.join(names[:_MAX_NAMED])}{more}" if names else ""
    )


def _explain_unpublished(cap: ActiveCap) -> str:
    """Return how devices count that neither a slice nor the ledger knows."""
    counts = sorted(name for name, meter in cap.device_meters.items() if not meter.is_sum)
    sums = sorted(name for name, meter in cap.device_meters.items() if meter.is_sum)
    texts = [f"each counts 1 under {', '.join(counts)}, the most that it can count"] if counts else []
    texts += [f"the used amount under {', '.join(sums)} is unknown"] if sums else []
    return ", and ".join(texts)
