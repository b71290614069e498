"""Rule 7, lost stores: a ledger whose past is not known promises nothing until what was in flight is counted."""

from dataclasses import dataclass, replace

from webhook.state.ledger.ages import INITIALIZER, ReservationAges
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recounting import StaleSnapshot, UsageSnapshot, recount


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
