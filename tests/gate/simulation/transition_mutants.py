"""The mutants of the transitions of ledgers, and of what their callers take from snapshots, watches and stores."""
# ruff: noqa: SLF001  # the replaced functions are private to the classes of the product

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from types import TracebackType
from typing import Any
from unittest.mock import patch

from msgspec import structs

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster import usage_lister
from tallygate.cluster.consumers import compute_remainders
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate import charge_transitions, ledger_reconciler
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.gate.rolling_pods import Revision, _identify, _RevisionFinder
from tallygate.objects.meta import ObjectMeta
from tallygate.review import charged_requests
from tallygate.review.cap_charge import CapCharge, FixedAmounts
from tallygate.review.charged_requests import RequestCharges
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.pod_store import ClaimPod, PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tests.gate.simulation import replica, wrong_claim_transitions, wrong_surge_transitions
from tests.gate.simulation import wrong_transitions as wrong
from tests.gate.simulation.histories import Watch
from tests.gate.simulation.replica import Replica
from tests.gate.simulation.runner import create_mutant
from tests.gate.simulation.store import Store
from tests.schedules import Mutant

_REVISIONS_BACK = 4
_MAX_READ_CONTROLLERS = 16
_create_nonce = Replica.create_nonce
_recount = ReserveTransition._recount
_compute_charges = charged_requests.compute_request_charges
_compute_remainders = compute_remainders
_list_groups_in = UsageLister.list_groups_in
_CALLERS = {
    "reserve": (charge_transitions,),
    "release": (charge_transitions,),
    "recount": (charge_transitions, ledger_reconciler),
    "expire": (ledger_reconciler,),
    "activate": (ledger_reconciler,),
    "apply_limits": (ledger_reconciler,),
    "ReservationAges": (ledger_reconciler,),
}
"""The modules that call each transition."""


class _Together(AbstractContextManager[None]):
    """Several replacements at once; they can be made again."""

    def __init__(self, *replacements: AbstractContextManager[Any]) -> None:
        self._replacements = replacements
        self._stack = ExitStack()

    def __enter__(self) -> None:
        for replacement in self._replacements:
            self._stack.enter_context(replacement)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def replace_transition(name: str, transition: Callable[..., Any], *more: AbstractContextManager[Any]) -> _Together:
    """Return the replacement of a transition where it is called."""
    return _Together(*(patch.object(module, name, transition) for module in _CALLERS[name]), *more)


def _create_nonce_with_time(replica: Replica) -> str:
    return f"{_create_nonce(replica)}@{replica.clock()}"


def _list_two_moments(watch: Watch[Any, Any]) -> None:
    """List one half of the objects as they are, and the other one as they were."""
    started_at, revision, history = watch._clock(), watch._get_revision(), watch._history
    before = history.list_at(revision - _REVISIONS_BACK)
    second = sorted(history.stored.keys() | before.keys())[1::2]
    listed = {uid: item for uid, item in history.stored.items() if uid not in second}
    listed |= {uid: before[uid] for uid in second if uid in before}
    watch._store(watch._page(revision, *(item.to_object() for item in listed.values())))
    watch._position = len(history.events)
    watch._freshness.record_list(revision, started_at)


def _fix_all(charge: CapCharge, _old: object) -> CapCharge:
    fixed = FixedAmounts(charge.current, charge.requested)
    return structs.replace(charge, current=NO_AMOUNTS, requested=NO_AMOUNTS, fixed=fixed)


def _find_by_reservation(store: PodStore, owner: ClaimPod) -> StoredConsumer | None:
    pod = store._columns.find(owner.pod_uid)
    return None if pod is None or pod.has_ended or pod.namespace != owner.namespace else pod


def _charge_no_own_claim(*arguments: Any) -> RequestCharges | None:
    charges = _compute_charges(*arguments)
    return None if charges is not None and charges.consumer.pod_uid else charges


def _find_any_part(snapshot: UsageSnapshot, pod_uid: str) -> Amounts:
    return snapshot.used_by_consumer.get(pod_uid, NO_AMOUNTS)


def _cover_by_reservation(transition: ReserveTransition, ledger: Ledger) -> tuple[Ledger, Amounts]:
    counted, pod_uid = _recount(transition, ledger), transition.consumer.pod_uid
    reservation = ledger.reservations.get(pod_uid)
    requested = NO_AMOUNTS if reservation is None else reservation.requested
    if counted is None:
        return ledger, requested
    return counted.ledger, counted.snapshot.find_covering_part(pod_uid).merge_max(requested)


def _cover_by_stale(transition: ReserveTransition, ledger: Ledger) -> tuple[Ledger, Amounts]:
    counted, pod_uid = _recount(transition, ledger), transition.consumer.pod_uid
    if counted is not None:
        return counted.ledger, counted.snapshot.find_covering_part(pod_uid)
    if ledger.initializer or transition.usage_lister is None:
        return ledger, NO_AMOUNTS
    snapshot = transition.usage_lister.take_snapshot(transition.charge.cap, transition.key, ledger, pod_uid)
    return ledger, NO_AMOUNTS if snapshot is None else snapshot.find_covering_part(pod_uid)


def _count_no_rest(*arguments: Any) -> dict[str, Amounts]:
    return dict.fromkeys(_compute_remainders(*arguments), NO_AMOUNTS)


def _has_earlier_revision(
    finder: _RevisionFinder, own: Revision, _metadata: ObjectMeta, others: Iterator[ObjectMeta]
) -> bool:
    by_controller = {_identify(other): other for other in others}
    revisions = map(finder.find_revision, islice(by_controller.values(), _MAX_READ_CONTROLLERS))
    return any(
        revision is not None and revision.workload == own.workload and _get_number(revision) < _get_number(own)
        for revision in revisions
    )


def _get_number(revision: Revision) -> int:
    return int("".join(filter(str.isdigit, revision.name)) or 0)


def _list_with_ended(lister: UsageLister, cap: ActiveCap, namespace: str) -> Iterator[Any]:
    groups = list(_list_groups_in(lister, cap, namespace))
    yield from groups
    charges = lister._pods._charges_cache.get_charges(cap)
    for pod in lister._pods._columns.list_all(namespace):
        if pod.has_ended and groups:
            used = charges.get_amounts(pod.group) or NO_AMOUNTS
            yield groups[0]._replace(group=pod.group, used_per_pod=used)


TRANSITION_MUTANTS: Mapping[str, Mutant] = {
    "no_compare": create_mutant(
        1, "writes without comparing the version", patch.object(Store, "_is_current", lambda *_: True)
    ),
    "retry_without_write": create_mutant(
        2,
        "allows a retry without a write if a reservation exists",
        replace_transition("reserve", wrong.retry_without_write),
        "late changes",
        seed=6,
    ),
    "change_first_wins": create_mutant(
        2,
        "takes a second change for a retry of the first",
        replace_transition("reserve", wrong.keep_first_change),
        seed=1,
    ),
    "change_replaces": create_mutant(
        2,
        "replaces the earlier reservation by that of a change",
        replace_transition("reserve", wrong.replace_by_change),
        seed=1,
    ),
    "merge_keeps_base": create_mutant(
        2,
        "keeps the counted amounts of the earlier reservation",
        replace_transition(
            "reserve", wrong.replace_merge(lambda before, after: structs.replace(after, counted=before.counted))
        ),
        "names",
        seed=69,
    ),
    "merge_keeps_create": create_mutant(
        2,
        "keeps the reservation of a creation as such when a change follows",
        replace_transition(
            "reserve", wrong.replace_merge(lambda before, after: structs.replace(after, operation=before.operation))
        ),
        seed=7,
    ),
    "no_guard": create_mutant(
        2, "reserves without checking the limits", replace_transition("reserve", wrong.ignore_limits)
    ),
    "release_by_last": create_mutant(
        3,
        "releases its reservation although other attempts wrote it too",
        replace_transition("release", wrong.release_by_last),
        seed=20,
    ),
    "no_as_of": create_mutant(
        4,
        "recounts from snapshots older than the last",
        replace_transition("recount", wrong.accept_older_snapshot),
        "old reservations",
        seed=9,
    ),
    "settle_on_sight": create_mutant(
        4,
        "removes the reservation of a change once its pod is seen",
        replace_transition("recount", wrong.replace_remaining(lambda _reservation, _used: None)),
        seed=1,
    ),
    "settle_by_size": create_mutant(
        4,
        "removes the reservation of a change once its pod is as large",
        replace_transition("recount", wrong.replace_remaining(wrong.settle_by_size)),
        "changes",
        seed=36,
    ),
    "no_rebase": create_mutant(
        4,
        "keeps the counted amounts of a change that a recount has counted",
        replace_transition("recount", wrong.replace_remaining(lambda reservation, _used: reservation)),
    ),
    "settle_one_by_one": create_mutant(
        4, "turns reservations into used amounts pod by pod", replace_transition("recount", wrong.settle_one)
    ),
    "torn_list": create_mutant(
        4, "recounts from a list of two moments", patch.object(Watch, "relist", _list_two_moments), seed=5
    ),
    "no_ns_guard": create_mutant(
        5,
        "charges by any member namespaces that the writer knows",
        replace_transition(
            "reserve",
            wrong.accept_any_namespaces,
            *(
                patch.object(module, "recount", wrong.recount_old_namespaces)
                for module in (charge_transitions, ledger_reconciler)
            ),
        ),
        "groups",
        seed=52,
    ),
    "age_by_uid": create_mutant(
        6,
        "counts the age of a reservation from the first attempt of its pod",
        replace_transition("ReservationAges", wrong.AgesByUid),
        "late changes",
    ),
    "age_by_stamp": create_mutant(
        6,
        "counts the age of a reservation by the clock of its writer",
        replace_transition(
            "ReservationAges", wrong.AgesByStamp, patch.object(Replica, "create_nonce", _create_nonce_with_time)
        ),
        "late stores",
    ),
    "short_bound": create_mutant(
        6,
        "waits for less than the in-flight bound",
        replace_transition("ReservationAges", wrong.ShortAges),
        "late stores",
    ),
    "no_live_read": create_mutant(
        6,
        "expires old reservations without a live read",
        replace_transition("expire", wrong.expire_without_read),
        "late stores",
        seed=3,
    ),
    "expire_needs_absence": create_mutant(
        6, "keeps old reservations whose pod is stored", replace_transition("expire", wrong.expire_absent_only), seed=2
    ),
    "expire_change_by_get": create_mutant(
        6,
        "expires an old reservation of a stored pod whether or not its revision is counted",
        replace_transition("expire", wrong.expire_uncounted),
        "late stores",
        seed=3,
    ),
    "read_then_drop": create_mutant(
        6,
        "reads without a write before it",
        replace_transition("ReservationAges", wrong.UnconfirmedAges),
        "old reservations",
        seed=52,
    ),
    "opens_at_once": create_mutant(
        7, "activates a lost ledger at once", replace_transition("activate", wrong.activate_at_once), "lost ledgers"
    ),
    "list_then_wait": create_mutant(
        7,
        "lists, waits, and activates by that list",
        replace_transition("activate", wrong.activate_by_old_list),
        "lost ledgers and late watches",
    ),
    "own_bound_only": create_mutant(
        8,
        "uses its own limit if that of the ledger is smaller",
        replace_transition("reserve", wrong.ignore_ledger_limit),
        "rollouts, gangs and limits that end",
    ),
    "ledger_bound_only": create_mutant(
        8,
        "uses the limit of the ledger if its own is smaller",
        replace_transition("reserve", wrong.ignore_own_limit),
        "rollouts, gangs and limits that end",
        seed=2,
    ),
    "allocation_unchecked": create_mutant(
        10,
        "decides on no allocation of a claim that was charged at its creation",
        patch.object(charged_requests, "_select_undecided", _fix_all),
        "allocations end",
        seed=4,
    ),
    "larger_only": create_mutant(
        10,
        "decides on an allocation only if it counts more than the claim without devices",
        replace_transition("reserve", wrong_claim_transitions.check_larger_only),
        "allocations end",
        seed=5,
    ),
    "older_count": create_mutant(
        10,
        "decides on an allocation by a count from before the claim was stored as it is",
        replace_transition("reserve", wrong_claim_transitions.check_by_older_count),
        "allocations end",
        seed=5,
    ),
    "used_only": create_mutant(
        10,
        "decides on an allocation by the used amounts without the reservations",
        replace_transition("reserve", wrong_claim_transitions.check_used_only),
        "claims",
        seed=3,
    ),
    "no_claims_as_of": create_mutant(
        10,
        "recounts from claims older than the last",
        replace_transition("recount", wrong_claim_transitions.accept_older_claims),
        "old reservations of claims",
        seed=5,
    ),
    "unseen_is_deleted": create_mutant(
        10,
        "takes a claim that the watch has not shown for deleted",
        replace_transition("recount", wrong_claim_transitions.remove_unseen_claims),
        "allocations end",
    ),
    "trusts_reservation": create_mutant(
        10,
        "takes a claim for that of the pod for which its status reserves it",
        patch.object(PodStore, "_find_owner", _find_by_reservation),
        "the scheduler's claims",
        seed=4,
    ),
    "own_uncharged": create_mutant(
        10,
        "charges nothing for the creation of the scheduler's claim",
        patch.object(replica, "compute_request_charges", _charge_no_own_claim),
        "the scheduler's claims",
    ),
    "own_unchecked": create_mutant(
        10,
        "reserves the scheduler's claim without a check although its pod is not counted",
        replace_transition("reserve", wrong_claim_transitions.reserve_unchecked),
        "the scheduler's claims",
    ),
    "own_stays_covered": create_mutant(
        10,
        "keeps the part of the pod in the scheduler's claim after a recount without the pod",
        replace_transition("recount", wrong_claim_transitions.keep_counted),
        "pods of claims end",
        seed=2,
    ),
    "covers_twice": create_mutant(
        10,
        "lets the part of a pod cover a second claim that the scheduler makes for it",
        replace_transition("reserve", wrong_claim_transitions.cover_twice),
        "the scheduler's claims, names",
        seed=1,
    ),
    "recount_covers_twice": create_mutant(
        10,
        "lets a recount cover each claim of the scheduler for a pod by the same part",
        replace_transition("recount", wrong_claim_transitions.cover_each),
        "the scheduler's claims, names",
        seed=4,
    ),
    "covers_beside_counted": create_mutant(
        10,
        "lets the part of a pod cover a claim although another one for it is counted",
        patch.object(UsageSnapshot, "find_covering_part", _find_any_part),
        "the scheduler's claims, names",
        seed=4,
    ),
    "covered_by_reservation": create_mutant(
        10,
        "takes the reservation of the pod for its part in the used amounts",
        patch.object(ReserveTransition, "_count_pod", _cover_by_reservation),
        "pods of claims end",
    ),
    "covered_by_stale": create_mutant(
        10,
        "takes the part of the pod from a snapshot that is older than the ledger",
        patch.object(ReserveTransition, "_count_pod", _cover_by_stale),
        "the scheduler's claims, names",
        seed=6,
    ),
    "larger_than_its_pod": create_mutant(
        10,
        "counts nothing for a scheduler's claim that is larger than its pod",
        patch.object(usage_lister, "compute_remainders", _count_no_rest),
        "the scheduler's claims",
        seed=7,
    ),
    "names_replaced": create_mutant(
        13,
        "replaces the reservation of an attempt by that of the next one of its name",
        replace_transition("reserve", wrong.replace_attempt),
        "names",
        seed=2,
    ),
    "names_first_wins": create_mutant(
        13,
        "writes no reservation for a second attempt of a name",
        replace_transition("reserve", wrong.keep_first_attempt),
        "names",
        seed=1,
    ),
    "begins_at_repetition": create_mutant(
        12,
        "begins the time again with a second attempt of a pod",
        replace_transition("reserve", wrong_surge_transitions.begin_at_repetition),
        "rollouts",
        seed=4,
    ),
    "begins_at_second_pod": create_mutant(
        12,
        "begins the time with the second pod above the limit",
        replace_transition("reserve", wrong_surge_transitions.begin_at_second_pod),
        "rollouts",
    ),
    "ends_by_used": create_mutant(
        12,
        "ends a surge when the used amounts are at the limit, without the reserved ones",
        replace_transition("recount", wrong_surge_transitions.end_by_used),
        "rollouts that fail",
    ),
    "release_forgets": create_mutant(
        12,
        "forgets in a release when the surge began",
        replace_transition("release", wrong_surge_transitions.release_and_forget),
        "rollouts",
        seed=8,
    ),
    "release_keeps": create_mutant(
        12,
        "keeps the time of a surge that a release ends",
        replace_transition("release", wrong_surge_transitions.release_and_keep),
        "rollouts",
    ),
    "expiry_forgets": create_mutant(
        12,
        "forgets in an expiry when the surge began",
        replace_transition("expire", wrong_surge_transitions.expire_and_forget),
        "rollouts that fail",
        seed=2,
    ),
    "expiry_keeps": create_mutant(
        12,
        "keeps the time of a surge that an expiry ends",
        replace_transition("expire", wrong_surge_transitions.expire_and_keep),
        "rollouts that fail",
    ),
    "limits_forget": create_mutant(
        12,
        "forgets when the surge began as the leader writes limits",
        replace_transition("apply_limits", wrong_surge_transitions.limit_and_forget),
        "rollouts of other surges",
    ),
    "limits_keep": create_mutant(
        12,
        "keeps the time of a surge that a higher limit ends",
        replace_transition("apply_limits", wrong_surge_transitions.limit_and_keep),
        "rollouts, gangs and limits that end",
        seed=29,
    ),
    "ledger_surge_only": create_mutant(
        12,
        "uses the surge of the ledger if its own is smaller",
        replace_transition("reserve", wrong_surge_transitions.ignore_own_surge),
        "rollouts of other surges",
    ),
    "larger_limit": create_mutant(
        12,
        "adds the surge to the larger one of both limits",
        replace_transition("reserve", wrong_surge_transitions.ignore_ledger_limit),
        "rollouts, gangs and limits that end",
        seed=2,
    ),
    "surges_twice": create_mutant(
        12,
        "adds the surge of the policy to that of the ledger",
        replace_transition("reserve", wrong_surge_transitions.add_surges),
        "rollouts and faults",
    ),
    "any_controller": create_mutant(
        12,
        "lets the pods of any controller surge",
        patch.object(_RevisionFinder, "has_other_revision", lambda *_: True),
        "rollouts",
    ),
    "no_way_back": create_mutant(
        12,
        "takes only pods of an earlier revision for those of a rollout",
        patch.object(_RevisionFinder, "has_other_revision", _has_earlier_revision),
        "rollouts and faults",
    ),
    "ended_pods_show": create_mutant(
        12,
        "takes pods that have ended for those of a rollout",
        patch.object(UsageLister, "list_groups_in", _list_with_ended),
        "rollouts and faults",
        seed=11,
    ),
}
