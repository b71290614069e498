"""The transitions under test: those of the product, unless a mutant replaces one."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.claim_charge import ClassMappings
from tallygate.state.ledger.expire import (
    LiveRead,
    NotDue,
    ReservationAges,
    activate,
    confirm_mappings,
    expire,
)
from tallygate.state.ledger.ledger import Activation, Ledger, Operation, Surge
from tallygate.state.ledger.recount import (
    CountedPod,
    PodName,
    StaleSnapshot,
    UsageSnapshot,
    apply_limits,
    recount,
)
from tallygate.state.ledger.reserve import Deferred, Exceeded, ReservationRequest, Reserved, release, reserve
from tests.state.simulation.annotation_rules import Annotations, Override, find_annotation, see_annotations
from tests.state.simulation.claim_rules import (
    belongs_to_pod,
    count_claim,
    count_rest,
    find_covered,
    is_decided,
    is_unchanged,
)
from tests.state.simulation.class_rules import end_mappings, is_class_known, is_decided_again, select_mappings
from tests.state.simulation.name_rules import find_holder
from tests.state.simulation.new_cap_rules import is_cap_new, is_list_complete, may_be_active
from tests.state.simulation.scenario import Cap
from tests.state.simulation.stored_objects import Claim, Pod, Template
from tests.state.simulation.surge_rules import is_rolling, may_surge, shows_rollout

Pods = Mapping[str, Any]

UsedByPod = dict[str, Amounts]
"""The part of each pod, by UID, in the used amounts of a ledger, for the invariants of single pods."""

FindCovered = Callable[[Ledger, Ledger | StaleSnapshot, UsageSnapshot, str], Amounts]
"""Return the amounts that cover a scheduler's claim, by the ledger before and after a recount."""


def _is_stored(ledger: Ledger, uid: str, attempt: str) -> bool:
    """Rule 1: return whether a write with an unknown outcome succeeded: the reservation must be of this attempt."""
    reservation = ledger.reservations.get(uid)
    return reservation is not None and reservation.attempt == attempt


def _initialize(hard: Amounts, initializer: str, surge: Amounts, is_new: bool = False) -> Ledger:  # noqa: FBT001, FBT002  # a rule has positional arguments
    """Rule 7: return a ledger whose past is unknown, or that of a new cap."""
    return Ledger(hard, initializer=initializer, surge=Surge(surge), activation=Activation(is_new))


def _choose_time(_loaded_at: int, now: int) -> int:
    """Rule 8: return the time at which the limits of a policy apply, of its load and the present."""
    return now


def _split_used(_before: UsedByPod, _ledger: Ledger, snapshot: UsageSnapshot) -> UsedByPod:
    """Return the part of each pod in the used amounts after a recount: that of the snapshot."""
    return {uid: amounts for uid, amounts in snapshot.used_by_consumer.items() if amounts}


def _select_deleted(deleted: AbstractSet[str], _other_pods: AbstractSet[str]) -> AbstractSet[str]:
    """Rule 4: return the pods that a snapshot calls deleted: those whose deletion the watch has reported."""
    return deleted


def _relist(_before: Pods, now: Pods) -> Pods:
    """Rule 4: return the pods of a list, which are those of one moment."""
    return now


def _select_served(pods: AbstractSet[str]) -> AbstractSet[str]:
    """Rule 10: return the pods whose part covers no claim, since the scheduler seems to have made one already."""
    return pods


@dataclass(frozen=True)
class Rules:
    """The implementation of every rule; without `compares` the store swaps and does not compare.

    With `stores_counts` the recount for an allocation is stored, although the allocation needs no reservation. With
    `charges_own` the creation of the scheduler's claims is charged. The pods that `counts_ended` returns count until
    the claims are as new as their end. With `compares_limits` the limits are written like all else, and not as a patch.
    """

    reserve: Callable[[Ledger, ReservationRequest], Reserved | Exceeded | Deferred] = reserve
    release: Callable[[Ledger, str, str], Ledger] = release
    recount: Callable[[Ledger, UsageSnapshot], Ledger | StaleSnapshot] = recount
    expire: Callable[[Ledger, ReservationAges, LiveRead], Ledger] = expire
    activate: Callable[[Ledger, ReservationAges, UsageSnapshot, float], Ledger | StaleSnapshot | NotDue] = activate
    apply_limits: Callable[[Ledger, Amounts, frozenset[str], Amounts, ClassMappings], Ledger] = apply_limits
    ages: Callable[[float], ReservationAges] = ReservationAges
    is_stored: Callable[[Ledger, str, str], bool] = _is_stored
    initialize: Callable[..., Ledger] = _initialize
    choose_time: Callable[[int, int], int] = _choose_time
    find_annotation: Callable[[Annotations, int, int, int], Override | None] = find_annotation
    see_annotations: Callable[[Annotations, Annotations], Annotations] = see_annotations
    split_used: Callable[[UsedByPod, Ledger, UsageSnapshot], UsedByPod] = _split_used
    select_deleted: Callable[[AbstractSet[str], AbstractSet[str]], AbstractSet[str]] = _select_deleted
    relist: Callable[[Pods, Pods], Pods] = _relist
    compares: bool = True
    compares_limits: bool = True
    count_claim: Callable[[Claim, Cap], int] = count_claim
    belongs_to_pod: Callable[[Claim, Pods], bool] = belongs_to_pod
    is_decided: Callable[[Claim, Cap], bool] = is_decided
    counts_ended: Callable[[Pod], bool] | None = None
    stores_counts: bool = True
    charges_own: bool = True
    select_served: Callable[[AbstractSet[str]], AbstractSet[str]] = _select_served
    find_covered: FindCovered = find_covered
    find_holder: Callable[[Ledger | StaleSnapshot, UsageSnapshot, PodName, str], CountedPod] = find_holder
    count_rest: Callable[[int, int], int] = count_rest
    is_unchanged: Callable[[Claim, Claim], bool] = is_unchanged
    may_surge: Callable[[Operation, bool], bool] = may_surge
    is_rolling: Callable[[Template, Iterable[Template]], bool] = is_rolling
    shows_rollout: Callable[[Pod, bool], bool] = shows_rollout
    select_mappings: Callable[[str, ClassMappings], ClassMappings] = select_mappings
    is_class_known: Callable[[str], bool] = is_class_known
    is_decided_again: Callable[[Ledger, frozenset[str]], bool] = is_decided_again
    end_mappings: Callable[[Ledger, str, Iterable[int]], ClassMappings] = end_mappings
    confirm_mappings: Callable[[Ledger, ReservationAges, float], Ledger] = confirm_mappings
    is_cap_new: Callable[[bool], bool] = is_cap_new
    is_list_complete: Callable[[float, float], bool] = is_list_complete
    may_be_active: Callable[[bool, bool], bool] = may_be_active


PRODUCT = Rules()
