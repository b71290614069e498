"""The consumers under a cap with their amounts, one by one: stored pods, claims for devices, and reservations.

`list_consumers` is the one iterator of them: the used amounts of a ledger, the top consumers of a cap, the explanation
of a number, and the comparison of a ledger with the cluster are reductions of it. A recount sums the same amounts by
groups of equal pods and claims (`tallygate.cluster.usage_lister`), since it looks at every ledger after each change.

A claim that kube-scheduler made for a pod counts nothing besides its pod, but for devices that the pod does not count.
Under names that count devices by attributes or capacities every claim counts: a pod has nothing under these.

A device keeps its last known amount while a claim has it, though no slice publishes it now. Replicas remember such
devices, and the ledger has the amounts of their claims for replicas that start later. If both are missing, a count of
devices takes an unknown one for a selected one. A sum of capacities cannot be counted then: nothing is charged under
its name until the device is known or the claim is deleted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.devices.device_meter import AllocatedAmounts, AllocatedDevice, DeviceId, count_devices
from tallygate.admission.cap_index import ActiveCap
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord
from tallygate.state.informers.claim_store import ClaimStore, OwnedClaim
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.usage_sums import GroupUsage
from tallygate.state.ledger.ledger import Ledger, Reservation

_MAX_NAMED = 10


class ClaimSources(NamedTuple):
    """The stores that watches update."""

    pods: PodStore
    claims: ClaimStore
    devices: DeviceStore


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


class ConsumerState(StrEnum):
    """The state of a consumer: an ended pod counts nothing, nor does one with a quantity that cannot be read."""

    COUNTED = "counted"
    TERMINATING = "terminating"
    RESERVED = "reserved"
    ENDED = "ended"
    INVALID = "invalid"


class ConsumerAmounts(NamedTuple):
    """A consumer and the amounts that it has used or reserved, or `number` equal pods and the amounts of each.

    `origin` is what uses or reserves them; equal pods have no name. An ended pod has the amounts that it would use.
    """

    origin: GroupUsage | StoredConsumer | CountedClaim | Reservation
    kind: ConsumerKind
    namespace: str
    name: str
    uid: str
    state: ConsumerState
    amounts: Amounts
    number: int = 1


_STATES = (ConsumerState.COUNTED, ConsumerState.TERMINATING)
"""By whether the consumer is being deleted."""


class CountedUsage(NamedTuple):
    """The amounts that pods and claims use under a ledger, and the part of those that are being deleted.

    `invalid` are the pods with an invalid quantity, which count nothing. `uncounted` are the names whose used amounts
    are unknown.
    """

    used: Amounts
    terminating: Amounts
    invalid: tuple[GroupUsage, ...]
    uncounted: frozenset[str] = frozenset()


def list_consumers(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger, *, by_pod: bool = False
) -> Iterator[ConsumerAmounts]:
    """Yield the consumers of these namespaces under a cap: the pods, then the claims, then the reservations.

    Equal pods are one item, without those that have ended or count nothing; `by_pod`, every pod is one.

    Raises:
        NotSyncedError: if pods or claims are not listed yet.
    """
    pod = ConsumerKind.POD
    if by_pod:
        for stored, amounts in sources.pods.list_amounts(cap, namespaces):
            state, used = (
                ConsumerState.ENDED if stored.has_ended else _STATES[stored.is_terminating],
                amounts or NO_AMOUNTS,
            )
            yield ConsumerAmounts(stored, pod, stored.namespace, stored.name, stored.uid, state, used)
    else:
        for group in sources.pods.list_groups(cap, namespaces):
            namespace, _, is_terminating, number, used, is_valid = group
            state = _STATES[is_terminating] if is_valid else ConsumerState.INVALID
            yield ConsumerAmounts(group, pod, namespace, "", "", state, used, number)
    yield from _list_claims(cap, namespaces, sources, ledger)
    yield from list_reserved(ledger)


def list_reserved(ledger: Ledger) -> Iterator[ConsumerAmounts]:
    """Yield the consumers with a reservation; several attempts of one name are one consumer (rule 13)."""
    for uid, amounts in ledger.list_reserved():
        reserved, state = ledger.reservations[uid], ConsumerState.RESERVED
        yield ConsumerAmounts(reserved, reserved.kind, reserved.namespace, reserved.name, uid, state, amounts)


def sum_used(consumers: Iterable[ConsumerAmounts]) -> CountedUsage:
    """Return the sums of what groups of pods and claims use, without reservations."""
    used, terminating = dict[str, int](), dict[str, int]()
    invalid, unknown = list[GroupUsage](), set[str]()
    reserved, being_deleted = ConsumerState.RESERVED, ConsumerState.TERMINATING  # an enum looks its members up
    for origin, _, _, _, _, state, amounts, number in consumers:
        if state is reserved:
            continue
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount * number
        if state is being_deleted:
            for name, amount in amounts.items():
                terminating[name] = terminating.get(name, 0) + amount * number
        if type(origin) is CountedClaim:
            unknown |= origin.allocated.unknown
        elif not amounts and isinstance(origin, GroupUsage):
            invalid.append(origin)
    return CountedUsage(Amounts(used), Amounts(terminating), tuple(invalid), frozenset(unknown))


def count_used(cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger) -> CountedUsage:
    """Return the sums of what `list_consumers` yields, without reservations.

    The sums of pods are kept for the next call with the same namespaces.

    Raises:
        NotSyncedError: if pods or claims are not listed yet.
    """
    pods = sources.pods.sum_groups(cap, namespaces)
    claims = sum_used(_list_claims(cap, namespaces, sources, ledger))
    return CountedUsage(pods.used + claims.used, pods.terminating + claims.terminating, pods.invalid, claims.uncounted)


def count_used_by_namespace(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger
) -> dict[str, Amounts]:
    """Return what the pods and claims of each of these namespaces use under a cap.

    Raises:
        NotSyncedError: if pods or claims are not listed yet.
    """
    used = {namespace: sums.used for namespace, sums in sources.pods.list_sums(cap, namespaces)}
    for claim in _list_claims(cap, namespaces, sources, ledger):
        used[claim.namespace] += claim.amounts
    return used


def _list_claims(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger
) -> Iterator[ConsumerAmounts]:
    for counted in list_counted_claims(cap, namespaces, sources, ledger):
        claim, state = counted.claim, _STATES[counted.claim.is_terminating]
        yield ConsumerAmounts(
            counted, ConsumerKind.CLAIM, claim.namespace, claim.name, claim.uid, state, counted.counted
        )


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
    allocated, pod_uids = (
        dict[str, CountedDevices](),
        {uid: owned_claim.owner.pod_uid for uid, owned_claim in owned.items()},
    )
    for listed_claim, devices in _list_devices(cap, namespaces, sources, ledger):
        allocated[listed_claim.uid] = devices
        pod_uids[listed_claim.uid] = listed_claim.pod_uid
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
    confirmed = pods.find_owned_claims(
        cap, {uid: owned_claim.owner for uid, owned_claim in owned.items() if owned_claim.is_reserved}
    )
    if cap.is_selective:
        return dict.fromkeys(confirmed, NO_AMOUNTS)
    return {uid: owned[uid].amounts.find_shortfall(used) for uid, used in confirmed.items()}


def _list_devices(
    cap: ActiveCap, namespaces: Collection[str], sources: ClaimSources, ledger: Ledger
) -> Iterator[tuple[ClaimRecord, CountedDevices]]:
    """Yield the claims whose devices count by attributes and capacities, or may count."""
    _, claims, store = sources
    if not cap.device_meters or store.revision is None:
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


_MAX_UNPUBLISHED = 1000  # claims in a ledger, of some 100 bytes each


class AllocatedUsage(NamedTuple):
    """The used amounts, in all and by UID of the claim, as in a `UsageSnapshot`.

    It `is_behind` if a device is unknown to this replica because its slices are older than the claim. `namespaces` are
    those of the claims in `by_uid`.
    """

    used: Amounts = NO_AMOUNTS
    by_uid: Mapping[str, Amounts] = {}
    unpublished: Mapping[str, Amounts] = {}
    uncounted: frozenset[str] = frozenset()
    is_behind: bool = False
    namespaces: Mapping[str, str] = {}


def count_allocated(
    cap: ActiveCap, claims: ClaimStore, devices: DeviceStore, namespaces: Collection[str], ledger: Ledger
) -> AllocatedUsage:
    """Return the amounts of the devices that claims of these namespaces have, under a cap.

    `ledger` has the amounts of claims whose devices were not published at the last recount.
    """
    total: dict[str, int] = {}
    by_uid, unpublished, uncounted, is_behind = {}, {}, set[str](), False
    namespaces_by_uid: dict[str, str] = {}
    for claim, found, kept in list_allocated(cap, claims, devices, namespaces, ledger):
        uncounted |= found.unknown
        if (devices.revision or 0) < claim.revision:
            is_behind |= bool(found.unknown) or not (found.is_published or kept or _knows_devices(devices, claim))
        for name, amount in found.amounts.items():
            total[name] = total.get(name, 0) + amount
        if not found.is_published:
            unpublished[claim.uid] = Amounts(found.amounts)
        if amounts := {name: amount for name, amount in found.amounts.items() if amount}:
            by_uid[claim.uid], namespaces_by_uid[claim.uid] = Amounts(amounts), claim.namespace
    used = Amounts({name: amount for name, amount in total.items() if amount and name not in uncounted})
    kept_claims = dict(islice(sorted(unpublished.items()), _MAX_UNPUBLISHED))
    return AllocatedUsage(used, by_uid, kept_claims, frozenset(uncounted), is_behind, namespaces_by_uid)


def _knows_devices(devices: DeviceStore, claim: ClaimRecord) -> bool:
    return all(devices.find_device(device.id) is not None for device in claim.devices)


def list_allocated(
    cap: ActiveCap, claims: ClaimStore, devices: DeviceStore, namespaces: Collection[str], ledger: Ledger
) -> Iterator[tuple[ClaimRecord, AllocatedAmounts, Amounts]]:
    """Yield the claims of these namespaces whose devices count under a cap, each with the amounts of its devices.

    The last item are the amounts that the ledger keeps for a claim with unpublished devices, by unchanged definitions.
    """
    for claim in claims.list_allocated(namespaces):
        if _is_counted(cap, claim):
            kept = ledger.unpublished.get(claim.uid, NO_AMOUNTS)
            if kept:
                kept = Amounts({name: kept[name] for name in kept if ledger.resources >= cap.list_sources((name,))})
            yield claim, count_devices(claim.devices, cap.device_meters, devices.find_device, kept), kept


def _is_counted(cap: ActiveCap, claim: ClaimRecord) -> bool:
    if claim.pod_uid or not cap.is_selective:
        return True
    return isinstance(claim.group, ClaimGroup) and cap.counts_allocation(claim.group.to_claim(), is_owned=False)
