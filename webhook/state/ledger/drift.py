"""What a recount has found that nobody was promised: pods that came under a cap without being charged to it."""

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger

_NO_DRIFT = Amounts()


def compute_drift(before: Ledger, after: Ledger) -> Amounts:
    """By how much a tally is larger than all that was charged before, by name; empty where that explains it.

    `after` was stored in the place of `before`. It is the least that came past the gate: pods that ended meanwhile, and
    promises that are still open, may hide some. A tally that shrinks is no drift, since any pod may end. Growth says
    nothing where the past of a ledger is not known, other namespaces draw on it now, or a name was not counted before.
    """
    if after.used is before.used or before.initializer or before.namespaces_hash != after.namespaces_hash:
        return _NO_DRIFT  # most writes count nothing anew, and keep the very tally
    growth = after.used.find_shortfall(before.compute_charged())
    return Amounts({name: amount for name, amount in growth.items() if name in before.resources})
