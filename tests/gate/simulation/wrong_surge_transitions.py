"""The wrong transitions of ledgers for surges in the mutants: a few lines each, which look reasonable."""

from msgspec import structs

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.claim_charge import ClassMappings
from tallygate.state.ledger.expire import LiveRead, ReservationAges, expire
from tallygate.state.ledger.ledger import Ledger, Surge
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot, apply_limits, recount
from tallygate.state.ledger.reserve import Exceeded, ReservationRequest, Reserved, release, reserve
from tallygate.state.ledger.surges import NO_TERMS
from tests.gate.simulation.wrong_transitions import Result


def _with_since(ledger: Ledger, since: int | None) -> Ledger:
    return structs.replace(ledger, surge=structs.replace(ledger.surge, since=since))


def _with_terms(request: ReservationRequest, **terms: object) -> ReservationRequest:
    return (
        request
        if request.surge is NO_TERMS
        else structs.replace(request, surge=structs.replace(request.surge, **terms))
    )


# The time of a surge


def begin_at_each_write(ledger: Ledger, request: ReservationRequest) -> Result:
    result = reserve(ledger, request)
    if request.surge is NO_TERMS or not isinstance(result, Reserved) or result.ledger.surge.since is None:
        return result
    return Reserved(_with_since(result.ledger, request.surge.now), result.needs_no_write)


def begin_at_repetition(ledger: Ledger, request: ReservationRequest) -> Result:
    return (begin_at_each_write if request.uid in ledger.reservations else reserve)(ledger, request)


def begin_at_second_pod(ledger: Ledger, request: ReservationRequest) -> Result:
    """Begin the time with the first pod that finds the ledger above its limit."""
    result = reserve(ledger, request)
    if not isinstance(result, Reserved) or ledger.compute_charged().find_shortfall(ledger.hard):
        return result
    return Reserved(_with_since(result.ledger, None), result.needs_no_write)


def end_by_used(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """End a surge if the used amounts are back at the limit, whatever is reserved."""
    after = recount(ledger, snapshot)
    if isinstance(after, StaleSnapshot) or after.used.find_shortfall(after.hard):
        return after
    return _with_since(after, None)


def release_and_forget(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    after = release(ledger, uid, attempt)
    return after if after is ledger else _with_since(after, None)


def release_and_keep(ledger: Ledger, uid: str, attempt: str) -> Ledger:
    after = release(ledger, uid, attempt)
    return after if after is ledger else _with_since(after, ledger.surge.since)


def expire_and_forget(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    after = expire(ledger, ages, live_read)
    return after if after is ledger else _with_since(after, None)


def expire_and_keep(ledger: Ledger, ages: ReservationAges, live_read: LiveRead) -> Ledger:
    after = expire(ledger, ages, live_read)
    return after if after is ledger else _with_since(after, ledger.surge.since)


def limit_and_forget(
    ledger: Ledger, hard: Amounts, resources: frozenset[str], surge: Amounts, mappings: ClassMappings
) -> Ledger:
    return structs.replace(apply_limits(ledger, hard, resources, surge, mappings), surge=Surge(surge))


def limit_and_keep(
    ledger: Ledger, hard: Amounts, resources: frozenset[str], surge: Amounts, mappings: ClassMappings
) -> Ledger:
    return _with_since(apply_limits(ledger, hard, resources, surge, mappings), ledger.surge.since)


# The amount of a surge


def _reserve_with_surge(ledger: Ledger, request: ReservationRequest, amounts: Amounts) -> Result:
    """Reserve as if the ledger had another surge."""
    result = reserve(structs.replace(ledger, surge=structs.replace(ledger.surge, amounts=amounts)), request)
    if not isinstance(result, Reserved):
        return result
    surge = structs.replace(result.ledger.surge, amounts=ledger.surge.amounts)
    return Reserved(structs.replace(result.ledger, surge=surge), result.needs_no_write)


def ignore_own_surge(ledger: Ledger, request: ReservationRequest) -> Result:
    return reserve(ledger, _with_terms(request, amounts=request.surge.amounts.merge_max(ledger.surge.amounts)))


def add_surges(ledger: Ledger, request: ReservationRequest) -> Result:
    if request.surge is NO_TERMS:
        return reserve(ledger, request)
    both = request.surge.amounts + ledger.surge.amounts
    return _reserve_with_surge(ledger, _with_terms(request, amounts=both), both)


def ignore_ledger_limit(ledger: Ledger, request: ReservationRequest) -> Result:
    """Compare a pod that surges with the larger one of both limits, and the smaller surge."""
    result = reserve(ledger, request)
    if request.surge is NO_TERMS or not isinstance(result, Exceeded):
        return result
    hard = request.hard.merge_max(ledger.hard)
    result = reserve(structs.replace(ledger, hard=hard), structs.replace(request, hard=hard))
    if not isinstance(result, Reserved):
        return result
    return Reserved(structs.replace(result.ledger, hard=ledger.hard), result.needs_no_write)
