"""The wrong variants of the rules: what somebody may well write instead, each in the place of one rule only.

`python -m tests.state.simulation variants` shows how each one fails; docs/caps.md has the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.state.simulation import wrong
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import SCENARIOS, Cap, Scenario


@dataclass(frozen=True)
class Variant:
    """A wrong rule: the number of the rule it breaks, what it does instead, the world in which it shows, and a seed."""

    rule: int
    says: str
    rules: Rules
    scenario: Scenario
    seed: int


_RESIZES = Scenario(pods=((0, 1), (0, 3)), caps=(Cap(7),), weights={"create": 0.7, "change": 8, "delete": 0.3})
_TWO = Scenario(caps=(Cap(5), Cap(3)), weights={"give_up": 3, "call": 12})
_ONE = SCENARIOS["one cap"]
_NO_BOOKMARKS = Scenario(bookmarks=False, weights={"watch": 14, "relist": 0, "crash": 0, "call": 14, "delete": 0.3})
_SHRINKS = Scenario(
    pods=((0, 3), (0, 3)), caps=(Cap(12),), sizes=(1, 4), weights={"create": 0, "change": 9, "delete": 0}
)
_AGAIN = Scenario(
    pods=((0, 1),), caps=(Cap(12),), replicas=1, sizes=(1, 4),
    weights={"create": 0.5, "change": 5, "delete": 0, "tick": 12, "tend": 40, "land": 30, "crash": 0, "freeze": 0},
    steps=300,
)  # fmt: skip
_SLOW = Scenario(
    replicas=1, steps=300, sizes=(1, 1),
    weights={
        "stall": 4, "commit": 7, "count": 12, "tick": 12, "tend": 25, "land": 25, "store": 15, "watch": 1, "create": 2,
        "change": 0, "freeze": 0, "crash": 0, "give_up": 0, "relist": 0, "delete": 0, "end": 0, "touch": 0,
    },
)  # fmt: skip
_FILTERED = Scenario(caps=(Cap(9, filtered=True),), pods=((0, 1), (0, 2)), weights={"create": 0.5, "change": 8})
_UNWATCHED = Scenario(weights={"forget": 1, "tick": 9, "tend": 16, "watch": 1, "relist": 0.2}, steps=300)
_AGES = Scenario(weights={"tick": 9, "tend": 20, "freeze": 0.1, "change": 5})

VARIANTS: Mapping[str, Variant] = {
    "no_compare": Variant(1, "writes without comparing the version", replace(PRODUCT, compares=False), _ONE, 1),
    "lost_answer_is_success": Variant(
        1, "takes a lost answer for a success", replace(PRODUCT, landed=wrong.lands_anyhow), _ONE, 0
    ),
    "landed_by_uid": Variant(
        1,
        "takes any row of the pod for its own after a lost answer",
        replace(PRODUCT, landed=wrong.lands_by_uid),
        _TWO,
        76,
    ),
    "retry_without_write": Variant(
        2,
        "allows a retry without a write when the row is there",
        replace(PRODUCT, reserve=wrong.retry_without_write),
        _TWO,
        38,
    ),
    "change_first_wins": Variant(
        2,
        "takes a second change for the first one's retry",
        replace(PRODUCT, reserve=wrong.change_first_wins),
        _RESIZES,
        17,
    ),
    "change_replaces": Variant(
        2, "lets a change's row replace the one before", replace(PRODUCT, reserve=wrong.change_replaces), _RESIZES, 20
    ),
    "merge_keeps_base": Variant(
        2,
        "keeps the base of the row that is there",
        wrong.merging(lambda old, new: replace(new, counted=old.counted)),
        _SHRINKS,
        1786,
    ),
    "merge_keeps_create": Variant(
        2,
        "leaves a creation's row one when it changes",
        wrong.merging(lambda old, new: replace(new, operation=old.operation)),
        _RESIZES,
        269,
    ),
    "no_guard": Variant(2, "promises without looking at the bound", replace(PRODUCT, reserve=wrong.guard_off), _ONE, 2),
    "guards_growth": Variant(
        2,
        "looks at the bound only where the charge grows by this attempt",
        replace(PRODUCT, reserve=wrong.guards_growth),
        SCENARIOS["resizes under a full cap"],
        5,
    ),
    "release_by_uid": Variant(
        3, "takes back the row of its pod, whoever wrote it", replace(PRODUCT, withdraw=wrong.release_by_uid), _TWO, 86
    ),
    "release_by_last": Variant(
        3, "takes back its row though others wrote it too", replace(PRODUCT, withdraw=wrong.release_by_last), _TWO, 270
    ),
    "no_as_of": Variant(
        4, "counts from views older than the last", replace(PRODUCT, recount=wrong.no_as_of), _ONE, 127
    ),
    "as_of_strict": Variant(
        4,
        "counts only from newer views, not from the same",
        replace(PRODUCT, recount=wrong.as_of_strict),
        _NO_BOOKMARKS,
        454,
    ),
    "settle_on_sight": Variant(
        4, "drops a change's row once its pod is seen", wrong.keeping(lambda _row, _held: None), _RESIZES, 1
    ),
    "settle_by_size": Variant(
        4, "drops a change's row once its pod is as large", wrong.keeping(wrong.by_size), _RESIZES, 1629
    ),
    "no_rebase": Variant(
        4, "keeps the base of a change that was counted", wrong.keeping(lambda row, _held: row), _RESIZES, 1
    ),
    "settle_one_by_one": Variant(
        4,
        "moves single pods from promise to tally",
        replace(PRODUCT, recount=wrong.settles_one, tallied=wrong.settled_one),
        _ONE,
        2,
    ),
    "gone_elsewhere": Variant(
        4,
        "drops the row of a pod that is there, but not under this cap",
        replace(PRODUCT, gone=wrong.gone_elsewhere),
        _FILTERED,
        255,
    ),
    "torn_list": Variant(
        4, "counts from a list of two moments", replace(PRODUCT, listed=wrong.torn), SCENARIOS["one cap"], 13
    ),
    "no_ns_guard": Variant(
        5,
        "charges whatever namespaces the writer knows of",
        replace(PRODUCT, reserve=wrong.no_namespace_guard, recount=wrong.counts_with_old_namespaces),
        SCENARIOS["labels move"],
        837,
    ),
    "age_by_uid": Variant(
        6, "counts a row's age from its pod's first attempt", replace(PRODUCT, ages=wrong.AgesByUid), _AGAIN, 80
    ),
    "age_by_stamp": Variant(
        6,
        "counts a row's age from when its writer's clock says it was written",
        replace(PRODUCT, ages=wrong.AgesByStamp),
        _AGES,
        4,
    ),
    "short_bound": Variant(
        6, "waits for less than the in-flight bound", replace(PRODUCT, ages=wrong.ShortAges), _AGES, 21
    ),
    "no_live_read": Variant(6, "drops old rows without a read", replace(PRODUCT, expire=wrong.no_live_read), _AGES, 13),
    "expire_needs_absence": Variant(
        6, "keeps old rows whose pod is there", replace(PRODUCT, expire=wrong.needs_absence), _RESIZES, 4
    ),
    "expire_change_by_get": Variant(
        6,
        "drops an old row of a pod that is there, counted so or not",
        replace(PRODUCT, expire=wrong.counted_or_not),
        _AGES,
        13,
    ),
    "read_then_drop": Variant(
        6, "reads without a write first", replace(PRODUCT, ages=wrong.UnmarkedAges), SCENARIOS["etcd stalls"], 21
    ),
    "mark_sent_early": Variant(
        6,
        "is content with a write sent before the bound had passed",
        replace(PRODUCT, ages=wrong.MarkedEarlyAges),
        _SLOW,
        609,
    ),
    "early_read": Variant(
        6,
        "is content with a read begun before the write had committed",
        replace(PRODUCT, ages=wrong.EarlyReadAges),
        _SLOW,
        1414,
    ),
    "opens_at_once": Variant(
        7,
        "promises from a lost ledger at once",
        replace(PRODUCT, reopen=wrong.opened_at_once),
        SCENARIOS["lost ledgers"],
        56,
    ),
    "list_then_wait": Variant(
        7, "lists, waits, and opens with that list", replace(PRODUCT, reopen=wrong.list_then_wait), _UNWATCHED, 314
    ),
    "own_bound_only": Variant(
        8,
        "uses its own bound where the ledger's is smaller",
        replace(PRODUCT, reserve=wrong.own_bound_only),
        SCENARIOS["policies change"],
        91,
    ),
    "follows_on": Variant(
        8,
        "charges a cap that was put back by what its ledger counted before",
        replace(PRODUCT, reserve=wrong.follows_on),
        SCENARIOS["caps go and come back"],
        2,
    ),
    "uncounted_name": Variant(
        8,
        "charges a name that was never counted",
        replace(PRODUCT, reserve=wrong.uncounted_name),
        SCENARIOS["policies change"],
        5,
    ),
    "fewer_names": Variant(
        8,
        "counts the old policy's names and says that it counts the new one's",
        replace(PRODUCT, recount=wrong.fewer_names, tallied=wrong.tallied_fewer),
        SCENARIOS["policies change"],
        40,
    ),
}
