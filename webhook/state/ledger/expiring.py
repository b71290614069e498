"""Rule 6, expire: drop a promise that came to nothing, or that was kept where no view showed it."""

from dataclasses import dataclass

from webhook.state.ledger.ages import Ages
from webhook.state.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Reading:
    """What a quorum read of a row's namespace and name said, begun at `begun` by the observer's monotonic clock.

    `revision` is the resourceVersion of the pod with this UID; None when there is no pod of that name, or another one.
    """

    uid: str
    begun: float
    revision: int | None


def expire(ledger: Ledger, ages: Ages, reading: Reading) -> Ledger:
    """The ledger without the row, if no attempt can come to anything more and the tally counts what did (rule 6)."""
    row = ledger.rows.get(reading.uid)
    if row is None or not ages.ripe(reading.uid, row.by, reading.begun):
        return ledger
    if reading.revision is not None and reading.revision > ledger.as_of:
        return ledger
    return ledger.with_row(reading.uid, None)
