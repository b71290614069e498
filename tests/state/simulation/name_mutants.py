"""The mutants of what the counted pod of a name covers (rule 13): a few lines each, which look reasonable."""

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger, Reservation
from tallygate.state.ledger.recount import (
    NO_POD,
    CountedPod,
    PodName,
    StaleSnapshot,
    UsageSnapshot,
    recount,
)
from tallygate.state.ledger.reserve import ReservationRequest, Reserved, reserve
from tests.schedules import Mutant
from tests.state.simulation.mutant_rules import Result
from tests.state.simulation.runner import mutate
from tests.state.simulation.scenarios import SCENARIOS

_NAMES = SCENARIOS["names are created again"]
_OWN_NAMES = SCENARIOS["the scheduler's claims, names"]
_OWN_NAMED = replace(
    _OWN_NAMES,
    weights={
        **_OWN_NAMES.weights,
        "delete": 1,
        "allocate": 14,
        "deallocate": 0,
        "delete_claim": 0.2,
        "name": 20,
        "watch_claims": 16,
        "recount": 10,
    },
)
"""The scheduler's claims get their devices, and the statuses of their pods name them, while names are created again."""


def _list_attempts(ledger: Ledger) -> Mapping[str, Reservation]:
    """Return the reservations of pods that may share a name."""
    return {uid: each for uid, each in ledger.reservations.items() if each.kind is ConsumerKind.POD}


def _cover(ledger: Ledger, parts: Mapping[str, CountedPod]) -> Ledger:
    covered = {
        uid: structs.replace(ledger.reservations[uid], counted=pod.part, pod_uid=pod.uid)
        for uid, pod in parts.items()
        if uid in ledger.reservations
    }
    return ledger.with_changes(covered)


def _recount_without_holders(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(ledger, structs.replace(snapshot, holders={}))


def _find_no_holder(*_: object) -> CountedPod:
    return NO_POD


def _recount_beside_reserved(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Cover the attempts of a name although a claim for its pod has a reservation."""
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot):
        return after
    holders = {
        uid: snapshot.find_holder((each.namespace, each.name), uid) for uid, each in _list_attempts(after).items()
    }
    return _cover(after, {uid: pod for uid, pod in holders.items() if pod.part})


def _reserve_beside_reserved(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(ledger, request)
    if not request.holder.part or not isinstance(result, Reserved) or result.needs_no_write:
        return result
    return Reserved(_cover(result.ledger, {request.uid: request.holder}), needs_no_write=False)


def _recount_beside_counted(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Cover the attempts of a name although a claim for its pod is counted."""
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot):
        return after
    unserved = structs.replace(snapshot, served=frozenset())
    holders = {
        uid: unserved.find_holder((each.namespace, each.name), uid) for uid, each in _list_attempts(after).items()
    }
    in_flight = {each.pod_uid for each in after.reservations.values() if each.is_of_pod}
    return _cover(after, {uid: pod for uid, pod in holders.items() if pod.part and pod.uid not in in_flight})


def _find_served_holder(
    recounted: Ledger | StaleSnapshot, snapshot: UsageSnapshot, name: PodName, uid: str
) -> CountedPod:
    if isinstance(recounted, StaleSnapshot):
        return NO_POD
    return structs.replace(snapshot, served=frozenset()).find_holder(name, uid)


def _leave_part(ledger: Ledger, request: ReservationRequest) -> Result:
    """Leave the part of a pod to the attempts of its name when a claim for it gets the part, too."""
    result = reserve(ledger, request)
    if not request.devices.pod_uid or not isinstance(result, Reserved) or result.needs_no_write:
        return result
    before = {uid: CountedPod(each.pod_uid, each.counted) for uid, each in _list_attempts(ledger).items()}
    return Reserved(_cover(result.ledger, before), needs_no_write=False)


def _stay_covered(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Renew nothing in a recount: the attempts of a name keep the part of a pod that was deleted."""
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot):
        return after
    before = {uid: CountedPod(each.pod_uid, each.counted) for uid, each in _list_attempts(ledger).items()}
    return _cover(after, {uid: pod for uid, pod in before.items() if pod.uid and uid not in snapshot.used_by_consumer})


def _find_stale_holder(_: object, snapshot: UsageSnapshot, name: PodName, uid: str) -> CountedPod:
    return snapshot.find_holder(name, uid)


NAME_MUTANTS: Mapping[str, Mutant] = {
    "names_beside_counted": mutate(
        13,
        "adds the attempts of a name to the counted pod of that name",
        _NAMES,
        6,
        recount=_recount_without_holders,
        find_holder=_find_no_holder,
    ),
    "names_cover_reserved": mutate(
        13,
        "lets a pod cover the attempts of its name although a claim of the scheduler for it has a reservation",
        _OWN_NAMES,
        16,
        recount=_recount_beside_reserved,
        reserve=_reserve_beside_reserved,
    ),
    "names_cover_counted": mutate(
        13,
        "lets a pod cover the attempts of its name although a claim of the scheduler for it is counted",
        _OWN_NAMED,
        71,
        recount=_recount_beside_counted,
        find_holder=_find_served_holder,
    ),
    "names_keep_part": mutate(
        13,
        "lets a pod cover a claim of the scheduler, and the attempts of its name as before",
        _OWN_NAMES,
        183,
        reserve=_leave_part,
    ),
    "names_stay_covered": mutate(
        13,
        "lets a pod that a recount does not find cover the attempts of its name as before",
        _NAMES,
        30,
        recount=_stay_covered,
    ),
    "names_covered_by_stale": mutate(
        13,
        "lets a pod cover a creation of its name by a snapshot that is older than the ledger",
        _NAMES,
        215,
        find_holder=_find_stale_holder,
    ),
}
