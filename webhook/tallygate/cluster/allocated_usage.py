"""The amounts of allocated devices under a cap that counts them by their attributes or capacities, for a recount.

A device keeps its last known amount while a claim has it, though no slice publishes it now. Replicas remember such
devices, and the ledger has the amounts of their claims for replicas that start later. If both are missing, a count of
devices takes an unknown one for a selected one. A sum of capacities cannot be counted then: nothing is charged under
its name until the device is known or the claim is deleted.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.devices.device_meter import AllocatedAmounts, count_devices
from tallygate.admission.cap_index import ActiveCap
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.ledger.ledger import Ledger

_MAX_UNPUBLISHED = 1000  # claims in a ledger, of some 100 bytes each


class AllocatedUsage(NamedTuple):
    """The used amounts, in all and by UID of the claim, as in a `UsageSnapshot`.

    It `is_behind` if a device is unknown to this replica because its slices are older than the claim.
    """

    used: Amounts = NO_AMOUNTS
    by_uid: Mapping[str, Amounts] = {}
    unpublished: Mapping[str, Amounts] = {}
    uncounted: frozenset[str] = frozenset()
    is_behind: bool = False


def count_allocated(
    cap: ActiveCap, claims: ClaimStore, devices: DeviceStore, namespaces: Collection[str], ledger: Ledger
) -> AllocatedUsage:
    """Return the amounts of the devices that claims of these namespaces have, under a cap.

    `ledger` has the amounts of claims whose devices were not published at the last recount.
    """
    total: dict[str, int] = {}
    by_uid, unpublished, uncounted, is_behind = {}, {}, set[str](), False
    for claim, found, kept in list_allocated(cap, claims, devices, namespaces, ledger):
        uncounted |= found.unknown
        if (devices.revision or 0) < claim.revision:
            is_behind |= bool(found.unknown) or not (found.is_published or kept or _knows_devices(devices, claim))
        for name, amount in found.amounts.items():
            total[name] = total.get(name, 0) + amount
        if not found.is_published:
            unpublished[claim.uid] = Amounts(found.amounts)
        if amounts := {name: amount for name, amount in found.amounts.items() if amount}:
            by_uid[claim.uid] = Amounts(amounts)
    used = Amounts({name: amount for name, amount in total.items() if amount and name not in uncounted})
    kept_claims = dict(islice(sorted(unpublished.items()), _MAX_UNPUBLISHED))
    return AllocatedUsage(used, by_uid, kept_claims, frozenset(uncounted), is_behind)


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
