"""Keeping ledgers true: the second use case. Promises become tally, or come to nothing; nobody is asked to wait for it.

Any number of replicas may do this at once, each with what it sees and remembers itself: the transitions are such that
none can undo what another knows better (docs/caps.md).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.admission.capping import CapIndex, Counted
from webhook.gate.leading import Alone, Role
from webhook.gate.promising import Look
from webhook.gate.sight import Sight
from webhook.state.ledger import Ages, Closed, Ledger, Reading, expire, govern, recount, reopen
from webhook.state.ports import LedgerKey, Ledgers, Step

BOUND_SECONDS = 40.0
"""B, the in-flight bound: the API server stores nothing later than that after the gate was asked."""

_VISIT_SECONDS = 5.0  # for one transaction of a ledger
_LEFT_SECONDS = 5.0  # beyond the bound, in which who leads drops what it knows of
_MOST_READS = 50  # quorum reads in one visit
_UNCOUNTED_SECONDS = 5.0  # at most, while others write a ledger and might count it on the way
_MANY_ROWS = 500  # of so many, some are better dropped at once
_AGAIN_SECONDS = 60.0  # until it is tried again to take a ledger away
_TOO_MANY_ROWS = 1500  # of so many, whoever sees them drops some: at twice as many nobody is promised room


class PodReader(Protocol):
    """Reads one pod from the quorum, not from a cache."""

    def revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The pod's resourceVersion; None when there is none of that name, or another one.

        Raises:
            TallygateError: it cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """One visit: the ledger as it is now, how many promises it lost by expiry, and whether the visit wrote it."""

    ledger: Ledger | None
    expired: int = 0
    wrote: bool = False


@dataclass(frozen=True, slots=True)
class _Keep:
    """Everything that may be done to one ledger, in one write."""

    counted: Counted
    key: LedgerKey
    sight: Sight
    ages: Ages
    readings: Sequence[Reading]
    maker: str
    marks: bool
    passes: Ledger | None
    """The ledger as it was at the last visit, if one that others have written since then may be passed over."""
    loaded: float | None
    """Since when every replica has had the cap in force, as far as that is known."""

    def __call__(self, found: Ledger | None) -> Step[Kept]:
        if self.sight.is_gone(self.key) and (found is None or _is_empty(found)):
            return Step(Kept(None, wrote=found is not None), sure=True, removes=found is not None)
        before = self._made() if found is None else found
        ledger = self._governed(before)
        if ledger is found and self._may_pass(found):
            return Step(Kept(found), sure=True)
        ledger = self._counted(ledger)
        rows = len(ledger.rows)
        for reading in self.readings:
            ledger = expire(ledger, self.ages, reading)
        if found is not None and not self.marks and _same(found, ledger):
            return Step(Kept(found), sure=True)
        return Step(Kept(ledger, rows - len(ledger.rows), wrote=True), ledger)

    def is_in(self, _: Ledger) -> bool:
        """It leaves nothing to be known by; done again, it does no harm."""
        return False

    def _may_pass(self, found: Ledger) -> bool:
        """Whether others are writing this ledger, and so count it anew as they go: two would be in each other's way."""
        if self.passes is None or self.marks or self.readings or found.converging:
            return False
        return len(found.rows) < _MANY_ROWS and found != self.passes

    def _made(self) -> Ledger:
        """A ledger of unknown past, or an empty one where there is no past."""
        new = self.sight.is_first(self.key)
        return Ledger(self.counted.hard, converging="" if new else self.maker)

    def _governed(self, ledger: Ledger) -> Ledger:
        if ledger.hard == self.counted.hard and ledger.counts <= self.counted.names:
            return ledger
        return govern(ledger, self.counted.hard, self.counted.names)

    def _counted(self, ledger: Ledger) -> Ledger:
        listed = self.sight.current_at() if ledger.converging else None  # before the view, which goes on meanwhile
        view = self.sight.view(self.counted, self.key, ledger)
        if view is None:
            return ledger
        if ledger.converging:
            opened = None if listed is None or self._may_miss(listed) else reopen(ledger, self.ages, view, listed)
            return ledger if opened is None or isinstance(opened, Closed) or not isinstance(opened, Ledger) else opened
        counted = recount(ledger, view)
        return counted if isinstance(counted, Ledger) else ledger

    def _may_miss(self, listed: float) -> bool:
        """Whether a pod may be stored later that a replica let in which did not have the cap yet (rule 8)."""
        return self.loaded is None or listed < self.loaded + self.ages.bound


class Keeper:
    """Visits ledgers. Not to be used by two threads at once.

    `caps` gives the caps in force, `maker` a nonce for each ledger made, `bound` B in seconds of `monotonic`; in `ages`
    others may read what it knows of promises. `role` says whether this replica is to keep ledgers, or only to remember
    how old their promises are.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        caps: Callable[[], CapIndex],
        sight: Sight,
        ledgers: Ledgers,
        reader: PodReader,
        monotonic: Callable[[], float],
        maker: Callable[[], str],
        bound: float = BOUND_SECONDS,
        ages: dict[LedgerKey, Ages] | None = None,
        role: Role | None = None,
    ) -> None:
        self._caps = caps
        self._sight = sight
        self._ledgers = ledgers
        self._reader = reader
        self._monotonic = monotonic
        self._maker = maker
        self._bound = bound
        self._role = role or Alone()
        self._ages: dict[LedgerKey, Ages] = {} if ages is None else ages
        self._open: dict[LedgerKey, Ledger] = {}
        self._counted: dict[LedgerKey, float] = {}  # when those were counted anew, as far as visits have seen
        self._held: set[LedgerKey] = set()  # those that had members when they were last visited
        self._gone: dict[LedgerKey, float] = {}  # those whose namespace went, and when they are to be visited again

    def keys(self, namespaces: Sequence[str]) -> Iterator[tuple[LedgerKey, Counted]]:
        """The ledgers that count pods of these namespaces, by the labels that are known now, or did until now."""
        found: dict[LedgerKey, Counted] = {}
        for namespace in namespaces:
            for counted in self._caps().all():
                key = LedgerKey(counted.key, "" if counted.cap.shared else namespace)
                members = None if key in found else self._sight.members(counted, key)
                if members is not None and (namespace in members.names or key in self._held):
                    found[key] = counted
        yield from found.items()

    def unsettled(self) -> tuple[LedgerKey, ...]:
        """The ledgers that had promises, promised nothing yet, or were to go, when they were last visited."""
        now = self._monotonic()
        return tuple({*self._open, *(key for key, again in self._gone.items() if again <= now)})

    def leads(self) -> bool:
        """Whether this replica keeps ledgers."""
        return self._role.leads()

    def departures(self) -> int:
        """Grows when another replica has gone: its promises are only to be found by a look at every ledger."""
        return self._role.departures()

    def visit(self, key: LedgerKey, counted: Counted) -> Kept:
        """Make one ledger, count it anew, and drop what came to nothing, as far as that is known now.

        Where another replica leads, only remember how old its promises are (rule 6); but a ledger that cannot promise
        is everybody's to put right, and so is a promise that the leader leaves past its time: it may not know of it,
        since the promise of a pod that nobody stores changes nothing that is watched.

        Raises:
            BusyError: others were in the way.
            TallygateError: the ledger, or a pod, is out of reach.
        """
        members, is_gone = self._sight.members(counted, key), self._sight.is_gone(key)
        if is_gone:
            self._gone[key] = self._monotonic() + _AGAIN_SECONDS
            self._held.discard(key)  # now: where it may not be taken away, that is tried once in a while only
        kept = None if self.leads() else self._looked(key)
        if kept is None or _is_pressing(kept) or self._is_left(key):
            kept = self._kept(key, counted)
            if is_gone and kept.ledger is not None and _is_empty(kept.ledger):
                kept = self._kept(key, counted)  # it is seen to be worth nothing, and may go
        if kept.ledger is None or not is_gone:
            self._gone.pop(key, None)
        (self._held.add if members is not None and members.names else self._held.discard)(key)
        if kept.ledger is not None:
            self._sight.met(key)
        return kept

    def _is_left(self, key: LedgerKey) -> bool:
        """Whether who leads should have dropped, or counted, a promise by now."""
        ages = self._ages.get(key)
        return ages is not None and ages.oldest(self._monotonic()) > self._bound + _LEFT_SECONDS

    def _looked(self, key: LedgerKey) -> Kept:
        begun = self._monotonic()
        kept = Kept(self._ledgers.transact(key, Look(), begun + _VISIT_SECONDS))
        self._remember(key, self._ages.get(key) or Ages(self._bound), kept, begun)
        return kept

    def _kept(self, key: LedgerKey, counted: Counted) -> Kept:
        ages = self._ages.get(key) or Ages(self._bound)
        readings = list(self._readings(key, ages))
        begun = self._monotonic()
        counted_at = self._counted.get(key, -math.inf)
        passes = self._open.get(key) if begun < counted_at + _UNCOUNTED_SECONDS else None
        marks, loaded = ages.awaits_mark(begun), self._role.loaded_since(key.cap)
        attempt = _Keep(counted, key, self._sight, ages, readings, self._maker(), marks, passes, loaded)
        kept = self._ledgers.transact(key, attempt, begun + _VISIT_SECONDS)
        self._remember(key, ages, kept, begun)
        return kept

    def forget(self, key: LedgerKey) -> None:
        """A ledger that no cap in force has any more."""
        self._settled(key)
        self._gone.pop(key, None)

    def _settled(self, key: LedgerKey) -> None:
        self._ages.pop(key, None)
        self._open.pop(key, None)
        self._counted.pop(key, None)

    def _remember(self, key: LedgerKey, ages: Ages, kept: Kept, begun: float) -> None:
        if kept.ledger is None or not (kept.ledger.rows or kept.ledger.converging):
            self._settled(key)
            return
        now = self._monotonic()
        if kept.wrote:
            ages = ages.committed(begun, now)
        before = self._open.get(key)
        if before is None or before.as_of != kept.ledger.as_of:
            self._counted[key] = now
        self._ages[key], self._open[key] = ages.seen(kept.ledger, now), kept.ledger
        if kept.ledger.converging and ages.opens_after is not None:
            self._look_after(ages.opens_after)

    def _look_after(self, moment: float) -> None:
        """A ledger waits for a view that is no older than this moment: have one made, if it is not on its way."""
        current_at = self._sight.current_at()
        if current_at is None or current_at < moment:
            self._sight.hurry()

    def _readings(self, key: LedgerKey, ages: Ages) -> Iterator[Reading]:
        """What quorum reads say of the rows that are old enough."""
        ledger = self._open.get(key)
        for uid in ages.marked()[:_MOST_READS] if ledger else ():
            row = ledger.rows.get(uid) if ledger else None
            if row is not None:
                begun = self._monotonic()
                revision = self._reader.revision(row.namespace, row.name, uid)
                if revision is None or self._sight.knows(row.namespace):  # else it is not in any tally yet
                    yield Reading(uid, begun, revision)


def _is_empty(ledger: Ledger) -> bool:
    """Whether it is worth what none is: it counts nothing, and no attempt has a claim that it does not show."""
    return not (ledger.rows or ledger.tally or ledger.converging)


def _is_pressing(kept: Kept) -> bool:
    ledger = kept.ledger
    return ledger is not None and (bool(ledger.converging) or len(ledger.rows) >= _TOO_MANY_ROWS)


def _same(one: Ledger, other: Ledger) -> bool:
    """Whether nobody would miss it if the other were not written: all but the revisions that it was counted at."""
    return (
        one.rows == other.rows
        and one.tally == other.tally
        and one.hard == other.hard
        and one.counts == other.counts
        and one.members == other.members
        and one.converging == other.converging
    )
