"""What wrong variants do in the place of a rule: each a few lines that look reasonable."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from tests.state.simulation.rules import PRODUCT, Counted, Pods, Rules
from tests.state.simulation.scenario import Y
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


# Rule 1: every write is one compare-and-swap


def lands_anyhow(_ledger: Ledger, _uid: str, _by: str) -> bool:
    return True


def lands_by_uid(ledger: Ledger, uid: str, _by: str) -> bool:
    return uid in ledger.rows


# Rule 2: reserve


def retry_without_write(ledger: Ledger, wanted: Reservation) -> Answer:
    row = ledger.rows.get(wanted.uid)
    if row is not None and not wanted.new.find_shortfall(row.to):
        return Granted(ledger, free=True)
    return reserve(ledger, wanted)


def merging(merge: Callable[[Row, Row], Row]) -> Rules:
    """Reserve, but for what becomes of a row that is there already: `merge` has the old one and the right one."""

    def wrong(ledger: Ledger, wanted: Reservation) -> Answer:
        answer = reserve(ledger, wanted)
        before = ledger.rows.get(wanted.uid)
        if before is None or not isinstance(answer, Granted):
            return answer
        return Granted(ledger.with_row(wanted.uid, merge(before, answer.ledger.rows[wanted.uid])), free=False)

    return replace(PRODUCT, reserve=wrong)


def change_first_wins(ledger: Ledger, wanted: Reservation) -> Answer:
    if wanted.kind is Kind.CHANGE and wanted.uid in ledger.rows:
        return Granted(ledger, free=True)
    return reserve(ledger, wanted)


def change_replaces(ledger: Ledger, wanted: Reservation) -> Answer:
    if wanted.kind is Kind.CHANGE:
        return reserve(ledger.with_row(wanted.uid, None), wanted)
    return reserve(ledger, wanted)


def own_bound_only(ledger: Ledger, wanted: Reservation) -> Answer:
    answer = reserve(replace(ledger, hard=Amounts()), wanted)
    return Granted(replace(answer.ledger, hard=ledger.hard), answer.free) if isinstance(answer, Granted) else answer


def guard_off(ledger: Ledger, wanted: Reservation) -> Answer:
    return reserve(ledger, replace(wanted, exceeds=True))


def guards_growth(ledger: Ledger, wanted: Reservation) -> Answer:
    answer = reserve(ledger, wanted)
    if isinstance(answer, Refused):
        after = reserve(ledger, replace(wanted, exceeds=True))
        if isinstance(after, Granted) and not after.ledger.promised.find_shortfall(ledger.promised):
            return after
    return answer


# Rule 3: withdraw


def release_by_uid(ledger: Ledger, uid: str, _by: str) -> Ledger:
    return ledger.with_row(uid, None)


def release_by_last(ledger: Ledger, uid: str, by: str) -> Ledger:
    row = ledger.rows.get(uid)
    return ledger.with_row(uid, None) if row is not None and row.by == by else ledger


# Rule 4: recount


def no_as_of(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(replace(ledger, as_of=0), view)


def as_of_strict(ledger: Ledger, view: View) -> Ledger | Behind:
    return ledger if view.revision == ledger.as_of else recount(ledger, view)


def keeping(keep: Callable[[Row, Amounts], Row | None]) -> Rules:
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


def by_size(row: Row, counted: Amounts) -> Row | None:
    return _rebased(row, counted) if row.to.find_shortfall(counted) else None


def settles_one(ledger: Ledger, view: View) -> Ledger | Behind:
    """Moves the pods that are seen from promise to tally, one by one, and counts nothing."""
    for uid, row in ledger.rows.items():
        if uid in view.counted:
            tally = ledger.tally + view.counted[uid] - row.base
            return replace(ledger.with_row(uid, None), tally=tally)
    return ledger


def settled_one(before: Counted, after: Ledger, view: View) -> Counted:
    missing = after.tally - sum(before.values(), Amounts())
    changed = {uid: held for uid, held in view.counted.items() if held == before.get(uid, Amounts()) + missing}
    return {**before, **dict(list(changed.items())[:1])}


def gone_elsewhere(deleted: AbstractSet[str], seen: AbstractSet[str]) -> AbstractSet[str]:
    """Takes any pod that the watch shows for a settled one, under this cap or not."""
    return deleted | seen


def torn(before: Pods, now: Pods) -> Pods:
    """The first page is of one moment, the second of another."""
    second = sorted(now.keys() | before.keys())[1::2]
    return {uid: pod for uid, pod in now.items() if uid not in second} | {
        uid: before[uid] for uid in second if uid in before
    }


def _without_y(amounts: Amounts) -> Amounts:
    return Amounts({name: amount for name, amount in amounts.items() if name != Y})


def fewer_names(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(ledger, msgspec.structs.replace(view, total=_without_y(view.total)))


def tallied_fewer(_before: Counted, _ledger: Ledger, view: View) -> Counted:
    return {uid: _without_y(held) for uid, held in view.counted.items()}


# Rule 5: membership


def no_namespace_guard(ledger: Ledger, wanted: Reservation) -> Answer:
    return reserve(ledger, replace(wanted, ns_as_of=ledger.ns_as_of, members=ledger.members))


def counts_with_old_namespaces(ledger: Ledger, view: View) -> Ledger | Behind:
    return recount(replace(ledger, ns_as_of=0), view)


# Rule 6: expire


class ShortAges(Ages):
    """Waits for less than the bound."""

    def __init__(self, bound: float, known: Mapping[tuple[str, str], Known] | None = None) -> None:
        super().__init__(min(bound, 1.0), MappingProxyType(dict(known or {})))


@dataclass(frozen=True)
class AgesByUid(Ages):
    """A row's age is its pod's, whoever wrote it last."""

    def seen(self, ledger: Ledger, now: float) -> Ages:
        """With the age that any row of the pod had."""
        after = super().seen(ledger, now)
        first = {uid: each for (uid, _), each in self.known.items()}
        return replace(
            after, known=MappingProxyType({key: first.get(key[0], each) for key, each in after.known.items()})
        )


@dataclass(frozen=True)
class AgesByStamp(Ages):
    """A row's age is what its writer's clock says."""

    def seen(self, ledger: Ledger, now: float) -> Ages:
        """With the time in the nonce, where there is one."""
        after = super().seen(ledger, now)
        known = {key: replace(each, since=float(key[1].partition("@")[2] or now)) for key, each in after.known.items()}
        return replace(after, known=MappingProxyType(known))


@dataclass(frozen=True)
class UnmarkedAges(Ages):
    """Old enough is enough: reads at once."""

    def seen(self, ledger: Ledger, now: float) -> Ages:
        """With a mark on whatever is old enough."""
        after = super().seen(ledger, now)
        known = {
            key: replace(each, marked=now) if each.marked is None and now >= each.since + self.bound else each
            for key, each in after.known.items()
        }
        return replace(after, known=MappingProxyType(known))


@dataclass(frozen=True)
class MarkedEarlyAges(Ages):
    """Any write that commits once the bound has passed will do, also one sent before."""

    def committed(self, begun: float, now: float) -> Ages:
        """As if it had been sent when it was known to have committed."""
        return super().committed(max(begun, now), now)


@dataclass(frozen=True)
class EarlyReadAges(Ages):
    """A read begun while the mark was on its way will do."""

    def marked(self) -> list[str]:
        """All pods, marked or not."""
        return [uid for uid, _ in self.known if uid]

    def ripe(self, uid: str, by: str, begun: float) -> bool:
        """As if the read had begun after everything."""
        return super().ripe(uid, by, begun + 1e9)


def no_live_read(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return expire(ledger, ages, replace(reading, revision=None))


def counted_or_not(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return replace(expire(replace(ledger, as_of=10**9), ages, reading), as_of=ledger.as_of)


def needs_absence(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    return expire(ledger, ages, reading) if reading.revision is None else ledger


# Rule 7: lost stores


def opened_at_once(ledger: Ledger, _ages: Ages, view: View, _listed: float) -> Ledger | Behind | Closed:
    after = recount(ledger, view)
    return after if isinstance(after, Behind) else replace(after, converging="")


def list_then_wait(ledger: Ledger, ages: Ages, view: View, _listed: float) -> Ledger | Behind | Closed:
    return reopen(ledger, ages, view, 1e12)


# Rule 8: names


def follows_on(ledger: Ledger, wanted: Reservation) -> Answer:
    return reserve(ledger, replace(wanted, since=0))


def uncounted_name(ledger: Ledger, wanted: Reservation) -> Answer:
    answer = reserve(ledger, wanted)
    if isinstance(answer, Deferred) and answer.first is First.COUNT_NAMES:
        return reserve(replace(ledger, counts=ledger.counts | wanted.new.keys() | wanted.old.keys()), wanted)
    return answer
