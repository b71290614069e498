"""What a recount has found that nobody was promised: pods that came under a cap without being charged to it."""

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger

_NOTHING = Amounts()


def drift(before: Ledger, after: Ledger) -> Amounts:
    """By how much a tally is larger than all that was charged before, by name; empty where that explains it.

    `after` was stored in the place of `before`. It is the least that came past the gate: pods that ended meanwhile, and
    promises that are still open, may hide some. A tally that shrinks is no drift, since any pod may end. Growth says
    nothing where the past of a ledger is not known, other namespaces draw on it now, or a name was not counted before.
    """
    if after.tally is before.tally or before.converging or before.members != after.members:
        return _NOTHING  # most writes count nothing anew, and keep the very tally
    found = after.tally.find_shortfall(before.charged())
    return Amounts({name: amount for name, amount in found.items() if name in before.counts})
