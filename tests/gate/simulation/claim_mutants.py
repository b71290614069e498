"""The mutants of the callers in worlds with claims and devices; `mutants` has the others, and the program."""
# ruff: noqa: SLF001  # the replaced functions are private to the modules and classes of the product

import copy
from collections.abc import Collection, Mapping
from typing import Any
from unittest.mock import patch

from tallygate.accounting import claim_charge
from tallygate.accounting.amounts import Amounts
from tallygate.accounting.claim_charge import DeviceSources
from tallygate.accounting.devices.device_meter import (
    AllocatedAmounts,
    AllocatedDevice,
    DeviceFinder,
    DeviceMeter,
    count_devices,
)
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster import consumers, usage_lister
from tallygate.cluster.consumers import AllocatedUsage, ClaimSources
from tallygate.cluster.usage_lister import ClaimsUsage, UsageLister
from tallygate.gate import charge_transitions, ledger_reconciler
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.objects.devices import DeviceRequest
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.pod_store import ClaimPod, PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ports import LedgerKey, TransitionResult
from tests.gate.simulation.runner import create_mutant
from tests.gate.simulation.wrong_claim_transitions import expire_as_pods, settle_allowed
from tests.schedules import Mutant

_apply = ReserveTransition._apply
_count_allocated = consumers.count_allocated
_take_snapshot = UsageLister.take_snapshot


def _count_no_pod(_transition: ReserveTransition, ledger: Ledger) -> tuple[Ledger, Amounts]:
    return ledger, Amounts()


def _apply_without_count(transition: ReserveTransition, stored: Ledger | None) -> TransitionResult[Any]:
    result = _apply(transition, stored)
    if transition.consumer.allocates_at and result.ledger is not None and not transition.is_stored_in(result.ledger):
        return TransitionResult(result.outcome)
    return result


def _find_any_owner(store: PodStore, owner: ClaimPod) -> StoredConsumer | None:
    pod = store._columns.find(owner.pod_uid)
    return None if pod is None or pod.has_ended else pod


def _find_no_owner(_store: PodStore, _owner: ClaimPod) -> None:
    return None


def _count_first(request: DeviceRequest, sources: DeviceSources) -> int:
    alternatives = request.first_available or (request.exactly,)
    return claim_charge._count_alternative(alternatives[0], sources) if alternatives[0] else 0


def _count_claims_once(
    cap: ActiveCap, namespaces: frozenset[str], ledger: Ledger, sources: ClaimSources, separate: Collection[str]
) -> ClaimsUsage | None:
    usage = sources.claims.compute_usage_and_owned(cap, namespaces, ledger.reservations, separate)
    allocated = _count_allocated(cap, sources.claims, sources.devices, namespaces, ledger)
    return None if allocated.is_behind else usage_lister._sum_claims(cap, ledger, sources.pods, usage, allocated)


def _count_with_old_slices(*arguments: Any) -> AllocatedUsage:
    return _count_allocated(*arguments)._replace(is_behind=False)


def _count_published(
    devices: tuple[AllocatedDevice, ...],
    meters: Mapping[str, DeviceMeter],
    find_device: DeviceFinder,
    kept: Mapping[str, int],
) -> AllocatedAmounts:
    found = {each: find_device(each.id) for each in devices}
    published = tuple(each for each, known in found.items() if known is not None and known.is_published)
    return count_devices(published, meters, find_device, kept)


def _take_with_earlier_claims(
    lister: UsageLister, cap: ActiveCap, key: LedgerKey, ledger: Ledger, *pods: Any
) -> UsageSnapshot | None:
    membership = lister.find_membership(cap, key)
    if membership is None:
        return None
    claims, copied = lister._count_claims(cap, membership.names, ledger), copy.copy(lister)
    vars(copied)["_count_claims"] = lambda *_: claims
    return _take_snapshot(copied, cap, key, ledger, *pods)


CLAIM_MUTANTS: Mapping[str, Mutant] = {
    "ignores_newer_claims": create_mutant(
        5,
        "reserves by a count of the current namespaces and of claims from before one of them returned",
        patch.object(UsageLister, "_has_newer_claims", lambda *_: False),
        "claims of relabelled namespaces",
        seed=55,
    ),
    "ignores_its_pod": create_mutant(
        10,
        "charges the scheduler's claim without the part of its pod",
        patch.object(ReserveTransition, "_count_pod", _count_no_pod),
        "the scheduler's claims",
    ),
    "charges_claim_and_pod": create_mutant(
        10,
        "counts the scheduler's claim beside its pod",
        patch.object(PodStore, "_find_owner", _find_no_owner),
        "the scheduler's claims",
    ),
    "finds_by_owner": create_mutant(
        10,
        "takes a claim for that of the pod which its metadata names as the owner",
        patch.object(PodStore, "_find_owner", _find_any_owner),
        "the scheduler's claims",
        seed=4,
    ),
    "counts_claims_first": create_mutant(
        10,
        "counts the claims before the pods, so that it may count neither a claim nor its pod, which ends in between",
        patch.object(UsageLister, "take_snapshot", _take_with_earlier_claims),
        "pods of claims end",
        seed=39,
    ),
    "keeps_its_count": create_mutant(
        10,
        "decides on an allocation by a recount that it does not store",
        patch.object(ReserveTransition, "_apply", _apply_without_count),
        "allocations end",
        seed=4,
    ),
    "settles_at_once": create_mutant(
        10,
        "counts the devices of an allocation as soon as it is admitted",
        patch.object(charge_transitions, "reserve", settle_allowed),
        "claims",
    ),
    "takes_the_first": create_mutant(
        10,
        "counts a claim without devices as its first alternative",
        patch.object(claim_charge, "_count_requested", _count_first),
        "claims",
    ),
    "expires_as_pods": create_mutant(
        10,
        "expires the reservation of a claim by the revision of pods",
        patch.object(ledger_reconciler, "expire", expire_as_pods),
        "old reservations of claims",
        seed=7,
    ),
    "counts_two_moments": create_mutant(
        10,
        "counts the claims at one moment and their devices at another",
        patch.object(usage_lister, "count_claims", _count_claims_once),
        "devices",
        seed=50,
    ),
    "counts_by_old_slices": create_mutant(
        10,
        "counts the devices of claims by slices that are older than the claims",
        patch.object(usage_lister, "count_allocated", _count_with_old_slices),
        "devices",
        seed=50,
    ),
    "forgets_unpublished": create_mutant(
        10,
        "counts nothing for a device that no slice publishes any more",
        patch.object(consumers, "count_devices", _count_published),
        "devices",
        seed=11,
    ),
}
