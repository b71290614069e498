"""Rule 12, surges: pods of a controller that rolls may exceed the hard limit by a fixed amount, for a limited time.

The amount depends on no clock: it is part of the guard. The time only ends a surge. A surge begins when such a pod
first takes the charge above the hard limit, and ends when the charge is back at the limit.
"""

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.state.ledger.ledger import Ledger


class SurgeTerms(msgspec.Struct, frozen=True):
    """The part of a request that only a pod of a controller that rolls has.

    `amounts` and `seconds` are the surge of the requesting replica's own policy. `now` is the time of the attempt in
    seconds of the Unix epoch.
    """

    amounts: Amounts = NO_AMOUNTS
    seconds: int = 0
    now: int = 0


NO_TERMS = SurgeTerms()


def is_surge_over(ledger: Ledger, terms: SurgeTerms) -> bool:
    """Return whether the surge of a ledger has lasted for as long as the policy allows.

    A surge that seems to begin later than now has begun by a clock that is ahead: it is not over yet.
    """
    since = ledger.surge.since
    return since is not None and _is_exceeded(ledger) and terms.now - since >= terms.seconds


def begin_surge(before: Ledger, after: Ledger, terms: SurgeTerms) -> Ledger:
    """Return `after`, in which a pod exceeds the hard limit, with the time at which the surge began.

    A surge that runs in `before` keeps its time. That time never increases: a clock that is ahead delays the end of a
    surge up to the next such pod only.
    """
    since = before.surge.since if _is_exceeded(before) else None
    begun = terms.now if since is None else min(since, terms.now)
    return replace(after, surge=replace(after.surge, since=begun))


def end_surge(ledger: Ledger) -> Ledger:
    """Return the ledger without a running surge, if it charges no more than the hard limits that a surge exceeds."""
    if ledger.surge.since is None or _is_exceeded(ledger):
        return ledger
    return replace(ledger, surge=replace(ledger.surge, since=None))


def _is_exceeded(ledger: Ledger) -> bool:
    """Return whether the ledger charges more than the hard limit of a name that has a surge.

    Guarantees that are not spent count as charged: a pod may surge into them, too (rule 15).
    """
    used, reserved, hard = ledger.used, ledger.reserved, ledger.hard
    unspent = ledger.guarantees.compute_unspent(ledger.reserved_by_namespace)
    return any(
        name in hard and used.get(name, 0) + reserved.get(name, 0) + unspent.get(name, 0) > hard[name]
        for name in ledger.surge.amounts
    )
