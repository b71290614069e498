"""What wrong variants do in the place of a rule: each a few lines that look reasonable."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec

from tests.state.simulation.rules import PRODUCT, Counted, Pods, Rules
from tests.state.simulation.scenario import Y
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.expire import LiveRead, NotDue, ReservationAge, ReservationAges, activate, expire
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ledger.recount import StaleSnapshot, UsageSnapshot, recount
from webhook.state.ledger.reserve import Deferred, Exceeded, Prerequisite, ReservationRequest, Reserved, reserve

Answer = Reserved | Exceeded | Deferred


# Rule 1: every write is one compare-and-swap


def lands_anyhow(_ledger: Ledger, _uid: str, _by: str) -> bool:
    return True


def lands_by_uid(ledger: Ledger, uid: str, _by: str) -> bool:
    return uid in ledger.reservations


# Rule 2: reserve


def retry_without_write(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    row = ledger.reservations.get(wanted.uid)
    if row is not None and not wanted.requested.find_shortfall(row.requested):
        return Reserved(ledger, needs_no_write=True)
    return reserve(ledger, wanted)


def merging(merge: Callable[[Reservation, Reservation], Reservation]) -> Rules:
    """Reserve, but for what becomes of a row that is there already: `merge` has the old one and the right one."""

    def wrong(ledger: Ledger, wanted: ReservationRequest) -> Answer:
        answer = reserve(ledger, wanted)
        before = ledger.reservations.get(wanted.uid)
        if before is None or not isinstance(answer, Reserved):
            return answer
        return Reserved(
            ledger.with_reservation(wanted.uid, merge(before, answer.ledger.reservations[wanted.uid])),
            needs_no_write=False,
        )

    return replace(PRODUCT, reserve=wrong)


def change_first_wins(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    if wanted.operation is Operation.UPDATE and wanted.uid in ledger.reservations:
        return Reserved(ledger, needs_no_write=True)
    return reserve(ledger, wanted)


def change_replaces(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    if wanted.operation is Operation.UPDATE:
        return reserve(ledger.with_reservation(wanted.uid, None), wanted)
    return reserve(ledger, wanted)


def own_bound_only(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    answer = reserve(replace(ledger, hard=Amounts()), wanted)
    return (
        Reserved(replace(answer.ledger, hard=ledger.hard), answer.needs_no_write)
        if isinstance(answer, Reserved)
        else answer
    )


def guard_off(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    return reserve(ledger, replace(wanted, may_exceed=True))


def guards_growth(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    answer = reserve(ledger, wanted)
    if isinstance(answer, Exceeded):
        after = reserve(ledger, replace(wanted, may_exceed=True))
        if isinstance(after, Reserved) and not after.ledger.reserved.find_shortfall(ledger.reserved):
            return after
    return answer


# Rule 3: withdraw


def release_by_uid(ledger: Ledger, uid: str, _by: str) -> Ledger:
    return ledger.with_reservation(uid, None)


def release_by_last(ledger: Ledger, uid: str, by: str) -> Ledger:
    row = ledger.reservations.get(uid)
    return ledger.with_reservation(uid, None) if row is not None and row.attempt == by else ledger


# Rule 4: recount


def no_as_of(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(replace(ledger, pods_revision=0), view)


def as_of_strict(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
    return ledger if view.pods_revision == ledger.pods_revision else recount(ledger, view)


def keeping(keep: Callable[[Reservation, Amounts], Reservation | None]) -> Rules:
    """Recount, but for changes that are there: `keep` has the row and what the pod is counted with."""

    def wrong(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
        after = recount(ledger, view)
        if isinstance(after, StaleSnapshot):
            return after
        for uid, row in ledger.reservations.items():
            if uid in after.reservations and uid in view.used_by_pod:
                after = after.with_reservation(uid, keep(row, view.used_by_pod[uid]))
        return after

    return replace(PRODUCT, recount=wrong)


def _rebased(row: Reservation, counted: Amounts) -> Reservation:
    return replace(row, counted=counted)


def by_size(row: Reservation, counted: Amounts) -> Reservation | None:
    return _rebased(row, counted) if row.requested.find_shortfall(counted) else None


def settles_one(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Moves the pods that are seen from promise to tally, one by one, and counts nothing."""
    for uid, row in ledger.reservations.items():
        if uid in view.used_by_pod:
            tally = ledger.used + view.used_by_pod[uid] - row.counted
            return replace(ledger.with_reservation(uid, None), used=tally)
    return ledger


def settled_one(before: Counted, after: Ledger, view: UsageSnapshot) -> Counted:
    missing = after.used - sum(before.values(), Amounts())
    changed = {uid: held for uid, held in view.used_by_pod.items() if held == before.get(uid, Amounts()) + missing}
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


def fewer_names(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(ledger, msgspec.structs.replace(view, used=_without_y(view.used)))


def tallied_fewer(_before: Counted, _ledger: Ledger, view: UsageSnapshot) -> Counted:
    return {uid: _without_y(held) for uid, held in view.used_by_pod.items()}


# Rule 5: membership


def no_namespace_guard(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    return reserve(
        ledger, replace(wanted, namespaces_revision=ledger.namespaces_revision, namespaces_hash=ledger.namespaces_hash)
    )


def counts_with_old_namespaces(ledger: Ledger, view: UsageSnapshot) -> Ledger | StaleSnapshot:
    return recount(replace(ledger, namespaces_revision=0), view)


# Rule 6: expire


class ShortAges(ReservationAges):
    """Waits for less than the bound."""

    def __init__(
        self, in_flight_bound: float, by_attempt: Mapping[tuple[str, str], ReservationAge] | None = None
    ) -> None:
        super().__init__(min(in_flight_bound, 1.0), MappingProxyType(dict(by_attempt or {})))


@dataclass(frozen=True)
class AgesByUid(ReservationAges):
    """A row's age is its pod's, whoever wrote it last."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """With the age that any row of the pod had."""
        after = super().observe(ledger, now)
        first = {uid: each for (uid, _), each in self.by_attempt.items()}
        return replace(
            after, by_attempt=MappingProxyType({key: first.get(key[0], each) for key, each in after.by_attempt.items()})
        )


@dataclass(frozen=True)
class AgesByStamp(ReservationAges):
    """A row's age is what its writer's clock says."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """With the time in the nonce, where there is one."""
        after = super().observe(ledger, now)
        known = {
            key: replace(each, first_seen=float(key[1].partition("@")[2] or now))
            for key, each in after.by_attempt.items()
        }
        return replace(after, by_attempt=MappingProxyType(known))


@dataclass(frozen=True)
class UnmarkedAges(ReservationAges):
    """Old enough is enough: reads at once."""

    def observe(self, ledger: Ledger, now: float) -> ReservationAges:
        """With a mark on whatever is old enough."""
        after = super().observe(ledger, now)
        known = {
            key: replace(each, confirmed_at=now)
            if each.confirmed_at is None and now >= each.first_seen + self.in_flight_bound
            else each
            for key, each in after.by_attempt.items()
        }
        return replace(after, by_attempt=MappingProxyType(known))


@dataclass(frozen=True)
class MarkedEarlyAges(ReservationAges):
    """Any write that commits once the bound has passed will do, also one sent before."""

    def confirm_write(self, started_at: float, now: float) -> ReservationAges:
        """As if it had been sent when it was known to have committed."""
        return super().confirm_write(max(started_at, now), now)


@dataclass(frozen=True)
class EarlyReadAges(ReservationAges):
    """A read begun while the mark was on its way will do."""

    def list_confirmed(self) -> list[str]:
        """All pods, marked or not."""
        return [uid for uid, _ in self.by_attempt if uid]

    def is_conclusive(self, uid: str, attempt: str, started_at: float) -> bool:
        """As if the read had begun after everything."""
        return super().is_conclusive(uid, attempt, started_at + 1e9)


def no_live_read(ledger: Ledger, ages: ReservationAges, reading: LiveRead) -> Ledger:
    return expire(ledger, ages, replace(reading, revision=None))


def counted_or_not(ledger: Ledger, ages: ReservationAges, reading: LiveRead) -> Ledger:
    return replace(expire(replace(ledger, pods_revision=10**9), ages, reading), pods_revision=ledger.pods_revision)


def needs_absence(ledger: Ledger, ages: ReservationAges, reading: LiveRead) -> Ledger:
    return expire(ledger, ages, reading) if reading.revision is None else ledger


# Rule 7: lost stores


def opened_at_once(
    ledger: Ledger, _ages: ReservationAges, view: UsageSnapshot, _listed: float
) -> Ledger | StaleSnapshot | NotDue:
    after = recount(ledger, view)
    return after if isinstance(after, StaleSnapshot) else replace(after, initializer="")


def list_then_wait(
    ledger: Ledger, ages: ReservationAges, view: UsageSnapshot, _listed: float
) -> Ledger | StaleSnapshot | NotDue:
    return activate(ledger, ages, view, 1e12)


# Rule 8: names


def follows_on(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    return reserve(ledger, replace(wanted, min_pods_revision=0))


def uncounted_name(ledger: Ledger, wanted: ReservationRequest) -> Answer:
    answer = reserve(ledger, wanted)
    if isinstance(answer, Deferred) and answer.prerequisite is Prerequisite.COUNT_RESOURCES:
        return reserve(
            replace(ledger, resources=ledger.resources | wanted.requested.keys() | wanted.current.keys()), wanted
        )
    return answer
