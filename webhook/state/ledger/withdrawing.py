"""Rule 3: an attempt takes back its own promise."""

from webhook.state.ledger.ledger import Ledger


def withdraw(ledger: Ledger, uid: str, by: str) -> Ledger:
    """The ledger without this attempt's row: only when the row is this attempt's, and nobody else's too.

    Another attempt of the same pod may have been allowed on the strength of a row that both wrote.
    """
    row = ledger.rows.get(uid)
    if row is None or row.by != by or not row.sole:
        return ledger
    return ledger.with_row(uid, None)
