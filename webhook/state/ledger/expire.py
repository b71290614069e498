"""What one observer remembers of a ledger's rows: since when, and whether a write has committed since (rule 6).

Every time here is seconds of this observer's own monotonic clock. Clocks of two machines are never compared, and
nothing of this is ever stored.

Rule 6, expire: drop a promise that came to nothing, or that was kept where no view showed it.

Rule 7, lost stores: a ledger whose past is not known promises nothing until what was in flight is counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recount import StaleSnapshot, UsageSnapshot, recount

INITIALIZER = ""
"""Stands for the UID where not a row is known but the making of a ledger (rule 7)."""


@dataclass(frozen=True, slots=True)
class ReservationAge:
    """Seen since `since`; `marked` is when a write that had begun after the bound was known to have committed."""

    first_seen: float
    confirmed_at: float | None = None


@dataclass(frozen=True, slots=True)
class ReservationAges:
    """The promises of one ledger as one observer knows them, by UID and the attempt that wrote last.

    `bound` is B in seconds: nothing is stored later than that after its handler began, but for what already waits
    inside etcd. That is what the mark is for: a write begun after the bound commits behind whatever waited there.
    """

    in_flight_bound: float
    by_attempt: Mapping[tuple[str, str], ReservationAge] = field(default_factory=lambda: MappingProxyType({}))

    def observe(self, ledger: Ledger, now: float) -> "ReservationAges":
        """With what this ledger shows at `now`; what it does not show any more is forgotten."""
        ages = {key: self.by_attempt.get(key) or ReservationAge(now) for key in _list_attempts(ledger)}
        return replace(self, by_attempt=MappingProxyType(ages))

    def confirm_write(self, started_at: float, now: float) -> "ReservationAges":
        """With a write of this ledger that was sent at `begun` and is known, at `now`, to have committed."""
        ages = {
            key: replace(each, confirmed_at=now)
            if each.confirmed_at is None and started_at >= each.first_seen + self.in_flight_bound
            else each
            for key, each in self.by_attempt.items()
        }
        return replace(self, by_attempt=MappingProxyType(ages))

    def needs_write(self, now: float) -> bool:
        """Whether some are old enough, and no write has committed since: then it is worth one that changes nothing."""
        return any(
            each.confirmed_at is None and now >= each.first_seen + self.in_flight_bound
            for each in self.by_attempt.values()
        )

    def max_age_seconds(self, now: float) -> float:
        """For how many seconds the one is known that is known for longest; 0 where there is none."""
        return max((now - each.first_seen for each in self.by_attempt.values()), default=0.0)

    def is_conclusive(self, uid: str, attempt: str, started_at: float) -> bool:
        """Whether what a read begun at `begun` shows of this pod is the last word on what that attempt came to."""
        age = self.by_attempt.get((uid, attempt))
        return age is not None and age.confirmed_at is not None and started_at >= age.confirmed_at

    @property
    def activation_time(self) -> float | None:
        """When a ledger of unknown past may be counted from a view that is no older; None before that is known."""
        return next((each.confirmed_at for (uid, _), each in self.by_attempt.items() if uid == INITIALIZER), None)

    def list_confirmed(self) -> list[str]:
        """The pods worth a quorum read."""
        return [
            uid for (uid, _), each in self.by_attempt.items() if uid != INITIALIZER and each.confirmed_at is not None
        ]


def _list_attempts(ledger: Ledger) -> Iterator[tuple[str, str]]:
    if ledger.initializer:
        yield INITIALIZER, ledger.initializer
    for uid, reservation in ledger.reservations.items():
        yield uid, reservation.attempt


@dataclass(frozen=True, slots=True)
class LiveRead:
    """What a quorum read of a row's namespace and name said, begun at `begun` by the observer's monotonic clock.

    `revision` is the resourceVersion of the pod with this UID; None when there is no pod of that name, or another one.
    """

    uid: str
    started_at: float
    revision: int | None


def expire(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    """The ledger without the row, if no attempt can come to anything more and the tally counts what did (rule 6)."""
    reservation = ledger.reservations.get(live_read.uid)
    if reservation is None or not ages.is_conclusive(live_read.uid, reservation.attempt, live_read.started_at):
        return ledger
    if live_read.revision is not None and live_read.revision > ledger.pods_revision:
        return ledger
    return ledger.with_reservation(live_read.uid, None)


@dataclass(frozen=True, slots=True)
class NotDue:
    """It is too early: some of what was promised before may still be stored, or the list was begun before that."""


def activate(
    ledger: Ledger, ages: ReservationAges, snapshot: UsageSnapshot, listed_at: float
) -> Ledger | StaleSnapshot | NotDue:
    """Count anew, and promise again.

    `listed` is when, by the observer's monotonic clock, a quorum list or read began that the view is no older than. It
    must lie behind the bound and the mark, as a read of rule 6: list before waiting, and what lands meanwhile is
    never counted.
    """
    if not ledger.initializer:
        return ledger
    if not ages.is_conclusive(INITIALIZER, ledger.initializer, listed_at):
        return NotDue()
    recounted = recount(ledger, snapshot)
    return recounted if isinstance(recounted, StaleSnapshot) else replace(recounted, initializer="")
