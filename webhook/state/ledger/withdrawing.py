"""Rule 3: an attempt takes back its own promise."""

from webhook.state.ledger.ledger import Ledger


def release(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    """The ledger without this attempt's row: only when the row is this attempt's, and nobody else's too.

    Another attempt of the same pod may have been allowed on the strength of a row that both wrote.
    """
    reservation = ledger.reservations.get(uid)
    if reservation is None or reservation.attempt != attempt or not reservation.single_attempt:
        return ledger
    return ledger.with_reservation(uid, None)
