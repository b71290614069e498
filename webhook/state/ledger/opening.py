"""Rule 7, lost stores: a ledger whose past is not known promises nothing until what was in flight is counted."""

from dataclasses import dataclass, replace

from webhook.state.ledger.ages import MAKER, Ages
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.recounting import Behind, View, recount


@dataclass(frozen=True, slots=True)
class Closed:
    """It is too early: some of what was promised before may still be stored, or the list was begun before that."""


def reopen(ledger: Ledger, ages: Ages, view: View, listed: float) -> Ledger | Behind | Closed:
    """Count anew, and promise again.

    `listed` is when, by the observer's monotonic clock, a quorum list or read began that the view is no older than. It
    must lie behind the bound and the mark, as a read of rule 6: list before waiting, and what lands meanwhile is
    never counted.
    """
    if not ledger.converging:
        return ledger
    if not ages.ripe(MAKER, ledger.converging, listed):
        return Closed()
    counted = recount(ledger, view)
    return counted if isinstance(counted, Behind) else replace(counted, converging="")
