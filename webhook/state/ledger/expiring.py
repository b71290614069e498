"""Rule 6, expire: drop a promise that came to nothing, or that was kept where no view showed it."""

from dataclasses import dataclass

from webhook.state.ledger.ages import ReservationAges
from webhook.state.ledger.ledger import Ledger


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
