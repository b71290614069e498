"""The mutants of PodGroups that are admitted as a whole (rule 11); `mutants` has the others, and the program."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.gate import charge_transitions
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.review import pod_groups
from tallygate.review.cap_charge import CapCharge, GangNeed
from tallygate.review.pod_groups import Gang, read_gang
from tallygate.review.scale_requests import WorkloadReader
from tallygate.state.ledger.gangs import NO_GANG
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import Deferred, Exceeded, ReservationRequest, Reserved, reserve
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_MIX = "pod groups"
_Attempted = charge_transitions._Attempted  # noqa: SLF001  # a wrong method returns it
_reserve = ReserveTransition._reserve  # noqa: SLF001  # as above


def _needs_gang_at_each_pod(ledger: Ledger, request: ReservationRequest) -> bool:
    return request.workload.gang is not NO_GANG and request.uid not in ledger.reservations


def _reserve_more(ledger: Ledger, request: ReservationRequest) -> Reserved | Exceeded | Deferred:
    reservation = ledger.reservations.get(request.uid)
    if reservation is not None and request.workload.kind:
        request = replace(request, requested=reservation.requested + request.requested)
    return reserve(ledger, request)


def _know_by_name(_reader: WorkloadReader, namespace: str, name: str) -> Gang | None:
    gang = read_gang(_reader, namespace, name)
    return None if gang is None else replace(gang, uid=name)


def _know_by_names(_reader: WorkloadReader, namespace: str, name: str) -> Gang | None:
    gang = read_gang(_reader, namespace, name)
    return None if gang is None else replace(gang, uid=f"{namespace}/{name}")


def _need_all_pods(need: Any, cap: ActiveCap) -> GangNeed:
    count = need.gang.min_count
    amounts = need.compute_each(cap, need.pod)
    return GangNeed(count, Amounts({name: amount * count for name, amount in amounts.items()}))


def _fall_back(
    transition: ReserveTransition, ledger: Ledger, request: ReservationRequest, charge: CapCharge
) -> _Attempted:
    attempted = _reserve(transition, ledger, request, charge)
    if isinstance(attempted.outcome, Reserved):
        return attempted
    return _Attempted(reserve(ledger, request), charge, request)


def _create(description: str, replacement: Any, seed: int = 0) -> Mutant:
    return create_mutant(11, description, replacement, _MIX, seed)


GROUP_MUTANTS: Mapping[str, Mutant] = {
    "reserves_more": _create(
        "reserves for a PodGroup once more at each of its pods",
        patch.multiple(charge_transitions, needs_gang=_needs_gang_at_each_pod, reserve=_reserve_more),
        seed=2,
    ),
    "joins_other_namespaces": _create(
        "lets a pod take over amounts of a PodGroup of the same name in another namespace",
        patch.object(pod_groups, "read_gang", _know_by_name),
    ),
    "takes_over_by_name": _create(
        "lets a pod take over amounts of a deleted PodGroup of the same name",
        patch.object(pod_groups, "read_gang", _know_by_names),
    ),
    "reserves_again": _create(
        "reserves for a PodGroup that has started again, as a pod of it is replaced",
        patch.object(pod_groups._Need, "__call__", _need_all_pods),  # noqa: SLF001  # the replaced class is private
    ),
    "starts_in_part": _create(
        "admits the first pod of a PodGroup that has no room for all of them",
        patch.object(ReserveTransition, "_reserve", _fall_back),
        seed=1,
    ),
}
