"""Wrong variants of the rules: what somebody may well write instead, each in the place of one rule and nothing else.

Each is a few lines that look reasonable. `python -m tests.state.simulation variants` shows how each one fails.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from tests.state.simulation.rules import PRODUCT, Counted, Pods, Rules
from tests.state.simulation.scenario import SCENARIOS, Cap, Scenario, Y
from webhook.accounting.amounts import Amounts
from webhook.state.ledger import (
    Ages,
    Behind,
    Closed,
    Deferred,
    First,
    Granted,
    Kind,
    Known,
    Ledger,
    Reading,
    Refused,
    Reservation,
    Row,
    View,
    expire,
    recount,
    reopen,
    reserve,
)

Answer = Granted | Refused | Deferred


@dataclass(frozen=True)
class Variant:
    """A wrong rule: the number of the rule it breaks, what it does instead, the world in which it shows, and a seed."""

    rule: int
    says: str
    rules: Rules
    scenario: Scenario
    seed: int


# Rule 1: every write is one compare-and-swap


def _lands_anyhow(_ledger: Ledger, _uid: str, _by: str) -> bool:
    return True


def _lands_by_uid(ledger: Ledger, uid: str, _by: str) -> bool:
    return uid in ledger.rows


# Rule 2: reserve


def _retry_without_write(ledger: Ledger, wanted: Reservation) -> Answer:
    row = ledger.rows.get(wanted.uid)
    if row is not None and not wanted.new.short_of(row.to):
        return Granted(ledger, free=True)
    return reserve(ledger, wanted)


def _merging(merge: Callable[[Row, Row], Row]) -> Rules:
    """Reserve, but for what becomes of a row that is there already: `merge` has the old one and the right one."""

    def wrong(ledger: Ledger, wanted: Reservation) -> Answer:
        answer = reserve(ledger, wanted)
        before = ledger.rows.get(wanted.uid)
        if before is None or not isinstance(answer, Granted):
            return answer
        return Granted(ledger.with_row(wanted.uid, merge(before, answer.ledger.rows[wanted.uid])), free=False)

    return replace(PRODUCT, reserve=wrong)


def _change_first_wins(ledger: Ledger, wanted: Reservation) -> Answer:
    if wanted.kind is Kind.CHANGE and wanted.uid in ledger.rows:
        return Granted(ledger, free=True)
    return reserve(ledger, wanted)


def _change_replaces(ledger: Ledger, wanted: Reservation) -> Answer:
    if wanted.kind is Kind.CHANGE:
        return reserve(ledger.with_row(wanted.uid, None), wanted)
    return reserve(ledger, wanted)


def _own_bound_only(ledger: Ledger, wanted: Reservation) -> Answer:
    answer = reserve(replace(ledger, hard=Amounts()), wanted)
    return Granted(replace(answer.ledger, hard=ledger.hard), answer.free) if isinstance(answer, Granted) else answer


def _guard_off(ledger: Ledger, wanted: Reservation) -> Answer:
    return reserve(ledger, replace(wanted, exceeds=True))


# Rule 3: withdraw


def _release_by_uid(ledger: Ledger, uid: str, _by: str) -> Ledger:
    return ledger.with_row(uid, None)


def _release_by_last(ledger: Ledger, uid: str, by: str) -> Ledger:
    row = ledger.rows.get(uid)
    return ledger.with_row(uid, None) if row is not None and row.by == by else ledger


# Rule 4: recount


def _no_as_of(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(replace(ledger, as_of=0), view)


def _as_of_strict(ledger: Ledger, view: View) -> Ledger | Behind:
    return ledger if view.revision == ledger.as_of else recount(ledger, view)


def _keeping(keep: Callable[[Row, Amounts], Row | None]) -> Rules:
    """Recount, but for changes that are there: `keep` has the row and what the pod is counted with."""

    def wrong(ledger: Ledger, view: View) -> Ledger | Behind:
        after = recount(ledger, view)
        if isinstance(after, Behind):
            return after
        for uid, row in ledger.rows.items():
            if uid in after.rows and uid in view.counted:
                after = after.with_row(uid, keep(row, view.counted[uid]))
        return after

    return replace(PRODUCT, recount=wrong)


def _rebased(row: Row, counted: Amounts) -> Row:
    return replace(row, base=counted)


def _by_size(row: Row, counted: Amounts) -> Row | None:
    return _rebased(row, counted) if row.to.short_of(counted) else None


def _settles_one(ledger: Ledger, view: View) -> Ledger | Behind:
    """Moves the pods that are seen from promise to tally, one by one, and counts nothing."""
    for uid, row in ledger.rows.items():
        if uid in view.counted:
            tally = ledger.tally + view.counted[uid] - row.base
            return replace(ledger.with_row(uid, None), tally=tally)
    return ledger


def _settled_one(before: Counted, after: Ledger, view: View) -> Counted:
    missing = after.tally - sum(before.values(), Amounts())
    changed = {uid: held for uid, held in view.counted.items() if held == before.get(uid, Amounts()) + missing}
    return {**before, **dict(list(changed.items())[:1])}


def _gone_elsewhere(deleted: Set[str], seen: Set[str]) -> Set[str]:
    """Takes any pod that the watch shows for a settled one, under this cap or not."""
    return deleted | seen


def _torn(before: Pods, now: Pods) -> Pods:
    """The first page is of one moment, the second of another."""
    second = sorted(now.keys() | before.keys())[1::2]
    return {uid: pod for uid, pod in now.items() if uid not in second} | {
        uid: before[uid] for uid in second if uid in before
    }


def _without_y(amounts: Amounts) -> Amounts:
    return Amounts({name: amount for name, amount in amounts.items() if name != Y})


def _fewer_names(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(ledger, replace(view, total=_without_y(view.total)))


def _tallied_fewer(_before: Counted, _ledger: Ledger, view: View) -> Counted:
    return {uid: _without_y(held) for uid, held in view.counted.items()}


# Rule 5: membership


def _no_namespace_guard(ledger: Ledger, wanted: Reservation) -> Answer:
    return reserve(ledger, replace(wanted, ns_as_of=ledger.ns_as_of, members=ledger.members))


def _counts_with_old_namespaces(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(replace(ledger, ns_as_of=0), view)


# Rule 6: expire


class _ShortAges(Ages):
    """Waits for less than the bound."""

    def __init__(self, bound: float, known: Mapping[tuple[str, str], Known] | None = None) -> None:
        super().__init__(min(bound, 1.0), MappingProxyType(dict(known or {})))


@dataclass(frozen=True)
class _AgesByUid(Ages):
    """A row's age is its pod's, whoever wrote it last."""

    def seen(self, ledger: Ledger, now: float) -> Ages:
        after = super().seen(ledger, now)
        first = {uid: each for (uid, _), each in self.known.items()}
        return replace(
            after, known=MappingProxyType({key: first.get(key[0], each) for key, each in after.known.items()})
        )


@dataclass(frozen=True)
class _UnmarkedAges(Ages):
    """Old enough is enough: reads at once."""

    def seen(self, ledger: Ledger, now: float) -> Ages:
        after = super().seen(ledger, now)
        known = {
            key: replace(each, marked=now) if each.marked is None and now >= each.since + self.bound else each
            for key, each in after.known.items()
        }
        return replace(after, known=MappingProxyType(known))


@dataclass(frozen=True)
class _MarkedEarlyAges(Ages):
    """Any write that commits once the bound has passed will do, also one sent before."""

    def committed(self, begun: float, now: float) -> Ages:
        return super().committed(max(begun, now), now)


@dataclass(frozen=True)
class _EarlyReadAges(Ages):
    """A read begun while the mark was on its way will do."""

    def marked(self) -> list[str]:
        return [uid for uid, _ in self.known if uid]

    def ripe(self, uid: str, by: str, begun: float) -> bool:
        return super().ripe(uid, by, begun + 1e9)


def _no_live_read(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return expire(ledger, ages, replace(reading, revision=None))


def _counted_or_not(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return replace(expire(replace(ledger, as_of=10**9), ages, reading), as_of=ledger.as_of)


def _needs_absence(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return expire(ledger, ages, reading) if reading.revision is None else ledger


# Rule 7: lost stores


def _opened_at_once(ledger: Ledger, _ages: Ages, view: View, _listed: float) -> Ledger | Behind | Closed:
    after = recount(ledger, view)
    return after if isinstance(after, Behind) else replace(after, converging="")


def _list_then_wait(ledger: Ledger, ages: Ages, view: View, _listed: float) -> Ledger | Behind | Closed:
    return reopen(ledger, ages, view, 1e12)


# Rule 8: names


def _uncounted_name(ledger: Ledger, wanted: Reservation) -> Answer:
    answer = reserve(ledger, wanted)
    if isinstance(answer, Deferred) and answer.first is First.COUNT_NAMES:
        return reserve(replace(ledger, counts=ledger.counts | wanted.new.keys() | wanted.old.keys()), wanted)
    return answer


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
        1, "takes a lost answer for a success", replace(PRODUCT, landed=_lands_anyhow), _ONE, 0
    ),
    "landed_by_uid": Variant(
        1, "takes any row of the pod for its own after a lost answer", replace(PRODUCT, landed=_lands_by_uid), _TWO, 76
    ),
    "retry_without_write": Variant(
        2,
        "allows a retry without a write when the row is there",
        replace(PRODUCT, reserve=_retry_without_write),
        _TWO,
        38,
    ),
    "change_first_wins": Variant(
        2, "takes a second change for the first one's retry", replace(PRODUCT, reserve=_change_first_wins), _RESIZES, 17
    ),
    "change_replaces": Variant(
        2, "lets a change's row replace the one before", replace(PRODUCT, reserve=_change_replaces), _RESIZES, 20
    ),
    "merge_keeps_base": Variant(
        2,
        "keeps the base of the row that is there",
        _merging(lambda old, new: replace(new, base=old.base)),
        _SHRINKS,
        1786,
    ),
    "merge_keeps_create": Variant(
        2,
        "leaves a creation's row one when it changes",
        _merging(lambda old, new: replace(new, kind=old.kind)),
        _RESIZES,
        269,
    ),
    "no_guard": Variant(2, "promises without looking at the bound", replace(PRODUCT, reserve=_guard_off), _ONE, 2),
    "release_by_uid": Variant(
        3, "takes back the row of its pod, whoever wrote it", replace(PRODUCT, withdraw=_release_by_uid), _TWO, 86
    ),
    "release_by_last": Variant(
        3, "takes back its row though others wrote it too", replace(PRODUCT, withdraw=_release_by_last), _TWO, 270
    ),
    "no_as_of": Variant(4, "counts from views older than the last", replace(PRODUCT, recount=_no_as_of), _ONE, 127),
    "as_of_strict": Variant(
        4,
        "counts only from newer views, not from the same",
        replace(PRODUCT, recount=_as_of_strict),
        _NO_BOOKMARKS,
        454,
    ),
    "settle_on_sight": Variant(
        4, "drops a change's row once its pod is seen", _keeping(lambda _row, _held: None), _RESIZES, 1
    ),
    "settle_by_size": Variant(4, "drops a change's row once its pod is as large", _keeping(_by_size), _RESIZES, 1629),
    "no_rebase": Variant(
        4, "keeps the base of a change that was counted", _keeping(lambda row, _held: row), _RESIZES, 1
    ),
    "settle_one_by_one": Variant(
        4,
        "moves single pods from promise to tally",
        replace(PRODUCT, recount=_settles_one, tallied=_settled_one),
        _ONE,
        2,
    ),
    "gone_elsewhere": Variant(
        4,
        "drops the row of a pod that is there, but not under this cap",
        replace(PRODUCT, gone=_gone_elsewhere),
        _FILTERED,
        255,
    ),
    "torn_list": Variant(
        4, "counts from a list of two moments", replace(PRODUCT, listed=_torn), SCENARIOS["one cap"], 13
    ),
    "no_ns_guard": Variant(
        5,
        "charges whatever namespaces the writer knows of",
        replace(PRODUCT, reserve=_no_namespace_guard, recount=_counts_with_old_namespaces),
        SCENARIOS["labels move"],
        837,
    ),
    "age_by_uid": Variant(
        6, "counts a row's age from its pod's first attempt", replace(PRODUCT, ages=_AgesByUid), _AGAIN, 102
    ),
    "short_bound": Variant(6, "waits for less than the in-flight bound", replace(PRODUCT, ages=_ShortAges), _AGES, 21),
    "no_live_read": Variant(6, "drops old rows without a read", replace(PRODUCT, expire=_no_live_read), _AGES, 13),
    "expire_needs_absence": Variant(
        6, "keeps old rows whose pod is there", replace(PRODUCT, expire=_needs_absence), _RESIZES, 4
    ),
    "expire_change_by_get": Variant(
        6,
        "drops an old row of a pod that is there, counted so or not",
        replace(PRODUCT, expire=_counted_or_not),
        _AGES,
        13,
    ),
    "read_then_drop": Variant(
        6, "reads without a write first", replace(PRODUCT, ages=_UnmarkedAges), SCENARIOS["etcd stalls"], 243
    ),
    "mark_sent_early": Variant(
        6,
        "is content with a write sent before the bound had passed",
        replace(PRODUCT, ages=_MarkedEarlyAges),
        _SLOW,
        609,
    ),
    "early_read": Variant(
        6,
        "is content with a read begun before the write had committed",
        replace(PRODUCT, ages=_EarlyReadAges),
        _SLOW,
        776,
    ),
    "opens_at_once": Variant(
        7,
        "promises from a lost ledger at once",
        replace(PRODUCT, reopen=_opened_at_once),
        SCENARIOS["lost ledgers"],
        57,
    ),
    "list_then_wait": Variant(
        7, "lists, waits, and opens with that list", replace(PRODUCT, reopen=_list_then_wait), _UNWATCHED, 314
    ),
    "own_bound_only": Variant(
        8,
        "uses its own bound where the ledger's is smaller",
        replace(PRODUCT, reserve=_own_bound_only),
        SCENARIOS["policies change"],
        91,
    ),
    "uncounted_name": Variant(
        8,
        "charges a name that was never counted",
        replace(PRODUCT, reserve=_uncounted_name),
        SCENARIOS["policies change"],
        5,
    ),
    "fewer_names": Variant(
        8,
        "counts the old policy's names and says that it counts the new one's",
        replace(PRODUCT, recount=_fewer_names, tallied=_tallied_fewer),
        SCENARIOS["policies change"],
        40,
    ),
}
