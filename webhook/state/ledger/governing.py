"""Rule 8, policy changes: the leader writes what the cap allows."""

from dataclasses import replace

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger


def apply_limits(ledger: Ledger, hard: Amounts, resources: frozenset[str]) -> Ledger:
    """The ledger under these bounds. Names that the cap counts no longer go out of the tally; new ones need a recount.

    Lowering below what is charged admits nothing more and removes nothing. Promises keep all their names: a name that
    comes back finds them.
    """
    remaining = ledger.resources & resources
    used = Amounts({name: amount for name, amount in ledger.used.items() if name in remaining})
    return replace(ledger, hard=hard, resources=remaining, used=used)
