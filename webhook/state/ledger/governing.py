"""Rule 8, policy changes: the leader writes what the cap allows."""

from dataclasses import replace

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger


def govern(ledger: Ledger, hard: Amounts, names: frozenset[str]) -> Ledger:
    """The ledger under these bounds. Names that the cap counts no longer go out of the tally; new ones need a recount.

    Lowering below what is charged admits nothing more and removes nothing. Promises keep all their names: a name that
    comes back finds them.
    """
    counts = ledger.counts & names
    tally = Amounts({name: amount for name, amount in ledger.tally.items() if name in counts})
    return replace(ledger, hard=hard, counts=counts, tally=tally)
