"""The mutants of the rules: each replaces one rule by a wrong one that a developer may well write.

`python -m tests.state.simulation mutants` prints how each one fails; docs/design/caps.md has the table.
"""

from collections.abc import Mapping

from msgspec import structs

from tests.schedules import Mutant, Program
from tests.state.simulation import mutant_claim_rules as wrong_claims
from tests.state.simulation import mutant_rules as wrong
from tests.state.simulation.annotation_mutants import ANNOTATION_MUTANTS
from tests.state.simulation.class_mutants import CLASS_MUTANTS
from tests.state.simulation.name_mutants import NAME_MUTANTS
from tests.state.simulation.new_cap_mutants import NEW_CAP_MUTANTS
from tests.state.simulation.runner import mutate, simulate
from tests.state.simulation.scenario import Cap, Scenario
from tests.state.simulation.scenarios import SCENARIOS
from tests.state.simulation.surge_mutants import SURGE_MUTANTS

_RESIZES = Scenario(pods=((0, 1), (0, 3)), caps=(Cap(7),), weights={"create": 0.7, "change": 8, "delete": 0.3})
_TWO = Scenario(caps=(Cap(5), Cap(3)), weights={"give_up": 3, "call": 12})
_ONE = SCENARIOS["one cap"]
_NO_BOOKMARKS = Scenario(bookmarks=False, weights={"watch": 14, "relist": 0, "crash": 0, "call": 14, "delete": 0.3})
_SHRINKS = Scenario(
    pods=((0, 3), (0, 3)), caps=(Cap(12),), sizes=(1, 4), weights={"create": 0, "change": 9, "delete": 0}
)
_REPEATED_CHANGES = Scenario(
    pods=((0, 1),), caps=(Cap(12),), replicas=1, sizes=(1, 4),
    weights={"create": 0.5, "change": 5, "delete": 0, "tick": 12, "expire": 40, "arrive": 30, "crash": 0, "freeze": 0},
    steps=300,
)  # fmt: skip
_SLOW = Scenario(
    replicas=1, steps=300, sizes=(1, 1),
    weights={
        "stall": 4, "commit": 7, "recount": 12, "tick": 12, "expire": 25, "arrive": 25, "store": 15, "watch": 1,
        "create": 2, "change": 0, "freeze": 0, "crash": 0, "give_up": 0, "relist": 0, "delete": 0, "end": 0, "touch": 0,
    },
)  # fmt: skip
_FILTERED = Scenario(caps=(Cap(9, is_filtered=True),), pods=((0, 1), (0, 2)), weights={"create": 0.5, "change": 8})
_UNWATCHED = Scenario(weights={"delete_ledger": 1, "tick": 9, "expire": 16, "watch": 1, "relist": 0.2}, steps=300)
_AGES = Scenario(weights={"tick": 9, "expire": 20, "freeze": 0.1, "change": 5})
_ALLOCATIONS, _COPIES = SCENARIOS["allocations end"], SCENARIOS["copies of the scheduler's claims"]
_OWN, _CLAIMS = SCENARIOS["the scheduler's claims"], SCENARIOS["claims"]
_OWN_NAMES = SCENARIOS["the scheduler's claims, names"]
_OWN_RESIZED = SCENARIOS["the scheduler's claims, resizes"]
_TOUCHED = SCENARIOS["statuses of claims change"]
_LABELS, _POLICIES = SCENARIOS["labels change"], SCENARIOS["policies change"]
_OVERRIDES = SCENARIOS["limits end by themselves"]
_NAMES = SCENARIOS["names are created again"]
_FEW = SCENARIOS["few reservations"]
_FEW_CHANGES = Scenario(
    caps=(Cap(90, is_shared=True),),
    namespaces=2,
    pods=((0, 1),) * 12 + ((1, 1),),
    sizes=(2, 3),
    max_reservations=4,
    weights={"create": 1, "change": 12, "store": 3, "call": 14, "proceed": 45, "arrive": 30, "tick": 4},
)

MUTANTS: Mapping[str, Mutant] = {
    "no_compare": mutate(1, "writes without comparing the version", _ONE, 1, compares=False),
    "lost_answer_is_success": mutate(
        1, "takes an unknown outcome for a success", _ONE, 0, is_stored=wrong.is_always_stored
    ),
    "landed_by_uid": mutate(
        1,
        "takes any reservation of the pod for its own after an unknown outcome",
        _TWO,
        13,
        is_stored=wrong.is_stored_for_uid,
    ),
    "retry_without_write": mutate(
        2, "allows a retry without a write if a reservation exists", _TWO, 38, reserve=wrong.retry_without_write
    ),
    "change_first_wins": mutate(
        2, "takes a second change for a retry of the first", _RESIZES, 17, reserve=wrong.keep_first_change
    ),
    "change_replaces": mutate(
        2, "replaces the earlier reservation by that of a change", _RESIZES, 20, reserve=wrong.replace_by_change
    ),
    "merge_keeps_base": mutate(
        2,
        "keeps the counted amounts of the earlier reservation",
        _SHRINKS,
        1786,
        wrong.replace_merge(lambda before, after: structs.replace(after, counted=before.counted)),
    ),
    "merge_keeps_create": mutate(
        2,
        "keeps the reservation of a creation as such when a change follows",
        _RESIZES,
        269,
        wrong.replace_merge(lambda before, after: structs.replace(after, operation=before.operation)),
    ),
    "no_guard": mutate(2, "reserves without checking the limits", _ONE, 5, reserve=wrong.ignore_limits),
    "guards_growth": mutate(
        2,
        "checks the limits only if this attempt increases the charge",
        SCENARIOS["resizes under a full cap"],
        5,
        reserve=wrong.check_growth_only,
    ),
    "numbers_in_all": mutate(
        2, "limits the number of reservations in all, and not of each namespace", _FEW, 28, reserve=wrong.count_all_only
    ),
    "numbers_of_creations": mutate(
        2,
        "limits the number of creations of a namespace, and not of its changes",
        _FEW_CHANGES,
        6,
        reserve=wrong.count_creations_only,
    ),
    "numbers_together": mutate(
        2, "limits all namespaces together to the number of one", _FEW, 0, reserve=wrong.share_number_of_all
    ),
    "release_by_uid": mutate(
        3, "releases the reservation of its pod, whichever attempt wrote it", _TWO, 86, release=wrong.release_by_uid
    ),
    "release_by_last": mutate(
        3, "releases its reservation although other attempts wrote it too", _TWO, 270, release=wrong.release_by_last
    ),
    "no_as_of": mutate(
        4, "recounts from snapshots older than the last", _ONE, 127, recount=wrong.accept_older_snapshot
    ),
    "as_of_strict": mutate(
        4,
        "recounts only from newer snapshots, not from the same",
        _NO_BOOKMARKS,
        454,
        recount=wrong.reject_same_snapshot,
    ),
    "settle_on_sight": mutate(
        4,
        "removes the reservation of a change once its pod is seen",
        _RESIZES,
        1,
        wrong.replace_remaining(lambda _reservation, _used: None),
    ),
    "settle_by_size": mutate(
        4,
        "removes the reservation of a change once its pod is as large",
        _RESIZES,
        1629,
        wrong.replace_remaining(wrong.settle_by_size),
    ),
    "no_rebase": mutate(
        4,
        "keeps the counted amounts of a change that a recount has counted",
        _RESIZES,
        1,
        wrong.replace_remaining(lambda reservation, _used: reservation),
    ),
    "settle_one_by_one": mutate(
        4,
        "turns reservations into used amounts pod by pod",
        _ONE,
        2,
        recount=wrong.settle_one,
        split_used=wrong.split_settled,
    ),
    "gone_elsewhere": mutate(
        4,
        "removes the reservation of a stored pod that this cap does not count",
        _FILTERED,
        255,
        select_deleted=wrong.select_deleted_and_others,
    ),
    "torn_list": mutate(4, "recounts from a list of two moments", _ONE, 13, relist=wrong.list_two_moments),
    "no_ns_guard": mutate(
        5,
        "charges by any member namespaces that the writer knows",
        _LABELS,
        837,
        reserve=wrong.accept_any_namespaces,
        recount=wrong.recount_old_namespaces,
    ),
    "age_by_uid": mutate(
        6,
        "counts the age of a reservation from the first attempt of its pod",
        _REPEATED_CHANGES,
        80,
        ages=wrong.AgesByUid,
    ),
    "age_by_stamp": mutate(
        6, "counts the age of a reservation by the clock of its writer", _AGES, 4, ages=wrong.AgesByStamp
    ),
    "short_bound": mutate(6, "waits for less than the in-flight bound", _AGES, 21, ages=wrong.ShortAges),
    "no_live_read": mutate(
        6, "expires old reservations without a live read", _AGES, 13, expire=wrong.expire_without_read
    ),
    "expire_needs_absence": mutate(
        6, "keeps old reservations whose pod is stored", _RESIZES, 4, expire=wrong.expire_absent_only
    ),
    "expire_change_by_get": mutate(
        6,
        "expires an old reservation of a stored pod whether or not its revision is counted",
        _AGES,
        13,
        expire=wrong.expire_uncounted,
    ),
    "read_then_drop": mutate(
        6, "reads without a write before it", SCENARIOS["etcd stalls"], 21, ages=wrong.UnconfirmedAges
    ),
    "mark_sent_early": mutate(
        6, "accepts a write that was sent before the bound was over", _SLOW, 609, ages=wrong.EarlyWriteAges
    ),
    "early_read": mutate(
        6, "accepts a read that began before the write was committed", _SLOW, 1414, ages=wrong.EarlyReadAges
    ),
    "opens_at_once": mutate(
        7, "activates a lost ledger at once", SCENARIOS["lost ledgers"], 56, activate=wrong.activate_at_once
    ),
    "list_then_wait": mutate(
        7, "lists, waits, and activates by that list", _UNWATCHED, 314, activate=wrong.activate_by_old_list
    ),
    "own_bound_only": mutate(
        8, "uses its own limit if that of the ledger is smaller", _POLICIES, 91, reserve=wrong.ignore_ledger_limit
    ),
    "ends_at_load": mutate(
        8, "ends overrides only when it loads policies", _OVERRIDES, 62, choose_time=lambda loaded_at, _: loaded_at
    ),
    "ledger_bound_only": mutate(
        8, "uses the limit of the ledger if its own is smaller", _OVERRIDES, 12, reserve=wrong.ignore_own_limit
    ),
    "follows_on": mutate(
        8,
        "charges a restored cap by the earlier count of its ledger",
        SCENARIOS["caps are removed and restored"],
        2,
        reserve=wrong.accept_any_count,
    ),
    "uncounted_name": mutate(
        8, "charges a resource that was never counted", _POLICIES, 30, reserve=wrong.reserve_uncounted
    ),
    "fewer_names": mutate(
        8,
        "counts the resources of the old policy and records those of the new one",
        _POLICIES,
        40,
        recount=wrong.recount_fewer_names,
        split_used=wrong.split_fewer_names,
    ),
    "first_alternative": mutate(
        10, "counts a claim without devices as its first alternative", _CLAIMS, 0, count_claim=wrong_claims.count_first
    ),
    "allocation_unchecked": mutate(
        10,
        "decides on no allocation of a claim that was charged at its creation",
        _ALLOCATIONS,
        0,
        is_decided=wrong_claims.decide_uncharged,
    ),
    "larger_only": mutate(
        10,
        "decides on an allocation only if it counts more than the claim without devices",
        _ALLOCATIONS,
        22,
        reserve=wrong_claims.check_larger_only,
    ),
    "older_count": mutate(
        10,
        "decides on an allocation by a count from before the claim was stored as it is",
        _ALLOCATIONS,
        22,
        reserve=wrong_claims.check_by_older_count,
    ),
    "count_not_stored": mutate(
        10, "decides on an allocation by a recount that it does not store", _ALLOCATIONS, 22, stores_counts=False
    ),
    "used_only": mutate(
        10,
        "decides on an allocation by the used amounts without the reservations",
        SCENARIOS["claims, caps are removed and restored"],
        102,
        reserve=wrong_claims.check_used_only,
    ),
    "settles_when_allowed": mutate(
        10,
        "counts the devices of an allocation as soon as it is admitted",
        _ALLOCATIONS,
        72,
        reserve=wrong_claims.settle_allowed,
    ),
    "no_claims_as_of": mutate(
        10, "recounts from claims older than the last", _CLAIMS, 45, recount=wrong_claims.accept_older_claims
    ),
    "unseen_is_deleted": mutate(
        10,
        "takes a claim that the watch has not shown for deleted",
        _CLAIMS,
        1,
        recount=wrong_claims.remove_unseen_claims,
    ),
    "one_revision": mutate(
        10, "expires the reservation of a claim by the revision of pods", _OWN, 34, expire=wrong_claims.expire_as_pods
    ),
    "follows_on_claims": mutate(
        10,
        "charges a restored cap by an earlier count of claims",
        SCENARIOS["claims, caps are removed and restored"],
        1188,
        reserve=wrong_claims.accept_any_claims,
    ),
    "charges_both": mutate(
        10, "counts the scheduler's claim beside its pod", _COPIES, 1, belongs_to_pod=wrong_claims.belongs_to_none
    ),
    "trusts_owner": mutate(
        10,
        "takes a claim for that of the pod which its metadata names as the owner",
        _COPIES,
        2,
        belongs_to_pod=wrong_claims.belongs_to_owner,
    ),
    "trusts_name": mutate(
        10,
        "takes a claim for that of the pod whose status has its name",
        _COPIES,
        15,
        belongs_to_pod=wrong_claims.belongs_by_name,
    ),
    "trusts_reservation": mutate(
        10,
        "takes a claim for that of the pod for which its status reserves it",
        _CLAIMS,
        208,
        belongs_to_pod=wrong_claims.belongs_by_reservation,
    ),
    "decides_every_allocation": mutate(
        10,
        "decides on the allocation of a claim that counts the same whatever it gets",
        _ALLOCATIONS,
        488,
        is_decided=wrong_claims.decide_every,
    ),
    "decides_unchanged": mutate(
        10,
        "decides again on a claim whose status changes and whose devices stay the same",
        _TOUCHED,
        114,
        is_unchanged=wrong_claims.is_never_unchanged,
    ),
    "own_uncharged": mutate(
        10, "charges nothing for the creation of the scheduler's claim", _OWN, 5, charges_own=False
    ),
    "own_uncharged_until_seen": mutate(
        10,
        "does so, and counts every pod that has ended until the claims are as new as its end",
        _OWN,
        5,
        charges_own=False,
        counts_ended=wrong_claims.counts_every,
    ),
    "own_unchecked": mutate(
        10,
        "reserves the scheduler's claim without a check although its pod is not counted",
        _OWN,
        7,
        reserve=wrong_claims.reserve_unchecked,
    ),
    "own_stays_covered": mutate(
        10,
        "keeps the part of the pod in the scheduler's claim after a recount without the pod",
        _OWN,
        2,
        recount=wrong_claims.keep_counted,
    ),
    "covers_twice": mutate(
        10,
        "lets the part of a pod cover a second claim that the scheduler makes for it",
        _OWN,
        29,
        reserve=wrong_claims.cover_twice,
    ),
    "recount_covers_twice": mutate(
        10,
        "lets a recount cover each claim of the scheduler for a pod by the same part",
        _OWN,
        26,
        recount=wrong_claims.cover_each,
    ),
    "covers_beside_counted": mutate(
        10,
        "lets the part of a pod cover a claim although another one for it is counted",
        _OWN_RESIZED,
        135,
        select_served=wrong_claims.select_unserved,
    ),
    "covers_beside_name": mutate(
        10,
        "lets the part of a pod cover a claim although another pod of its name may still be stored",
        _OWN_NAMES,
        190,
        reserve=wrong_claims.cover_beside_name,
    ),
    "covered_by_reservation": mutate(
        10,
        "takes the reservation of the pod for its part in the used amounts",
        _OWN,
        50,
        find_covered=wrong_claims.find_reserved_part,
    ),
    "covered_by_stale": mutate(
        10,
        "takes the part of the pod from a snapshot that is older than the ledger",
        _OWN,
        114,
        find_covered=wrong_claims.find_stale_part,
    ),
    "larger_than_its_pod": mutate(
        10,
        "counts nothing for a scheduler's claim that is larger than its pod",
        _OWN_RESIZED,
        76,
        count_rest=wrong_claims.count_no_rest,
    ),
    "names_added_up": mutate(13, "adds up the attempts of one name", _NAMES, 2, reserve=wrong.add_attempts),
    "names_replaced": mutate(
        13,
        "replaces the reservation of an attempt by that of the next one of its name",
        _NAMES,
        2,
        reserve=wrong.replace_attempt,
    ),
    "names_first_wins": mutate(
        13, "writes no reservation for a second attempt of a name", _NAMES, 8, reserve=wrong.keep_first_attempt
    ),
    "names_of_all": mutate(
        13, "takes equal names of different namespaces for one", _NAMES, 2, reserve=wrong.share_name_of_all
    ),
    "names_released": mutate(13, "releases the attempts of a name together", _NAMES, 7, release=wrong.release_name),
    "names_settled": mutate(
        13, "removes the creations of a name once a pod of that name is seen", _NAMES, 10, recount=wrong.settle_name
    ),
    "names_forgotten": mutate(
        13, "removes the attempts of a name once a pod of that name is deleted", _NAMES, 13, recount=wrong.forget_name
    ),
    **NAME_MUTANTS,
    **CLASS_MUTANTS,
    **NEW_CAP_MUTANTS,
    **ANNOTATION_MUTANTS,
    **SURGE_MUTANTS,
}

PROGRAM = Program(
    "tests.state.simulation",
    {name: simulate(scenario) for name, scenario in SCENARIOS.items()},
    MUTANTS,
    marks=("`", "`"),
    cuts_down=True,
)
