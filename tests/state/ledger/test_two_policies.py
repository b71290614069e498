"""A replica whose policy differs from that of the ledger, or whose clock differs from that of another replica."""

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Surge
from tallygate.state.ledger.recount import apply_limits
from tallygate.state.ledger.reserve import DeviceTerms
from tallygate.state.ledger.surges import SurgeTerms, begin_surge
from tests.state.ledger.ledger_builders import (
    GPU,
    NAMES,
    create_request,
    empty_ledger,
    expect_exceeded,
    expect_reserved,
    gpus,
)

_ALLOCATION = DeviceTerms(kind=ConsumerKind.CLAIM, allocates_at=7)
_TERMS = SurgeTerms(gpus(2), 900, 1000)


def test_an_allocation_is_decided_by_the_smaller_limit_of_policy_and_ledger() -> None:
    for ledger_hard, own_hard in ((2, 8), (8, 2)):
        ledger = empty_ledger(ledger_hard, used=gpus(3), claims_revision=9)
        allocation = create_request(new=2, old=2, hard=own_hard, devices=_ALLOCATION)
        assert expect_exceeded(ledger, allocation) == {GPU: 1}


def test_a_surge_that_began_by_a_clock_ahead_begins_by_the_earlier_time_of_a_later_pod() -> None:
    running = empty_ledger(4, used=gpus(5), surge=Surge(gpus(2), since=1300))
    assert begin_surge(running, running, _TERMS).surge.since == 1000
    assert begin_surge(running, running, SurgeTerms(gpus(2), 900, 2000)).surge.since == 1300


def test_unchanged_limits_keep_the_begin_of_a_surge_that_runs() -> None:
    running = empty_ledger(4, used=gpus(5), surge=Surge(gpus(2), since=1300))
    assert apply_limits(running, gpus(4), NAMES, gpus(2)).surge == Surge(gpus(2), since=1300)
    assert apply_limits(running, gpus(6), NAMES, gpus(2)).surge.since is None, "the charge is within the limit"


def test_a_pod_that_surges_passes_the_smaller_sum_of_limit_and_surge() -> None:
    ledger = empty_ledger(4, used=gpus(4), surge=Surge(gpus(1)))
    assert expect_reserved(ledger, create_request(new=1, surge=_TERMS)).surge.since == 1000
    assert expect_exceeded(ledger, create_request(new=2, surge=_TERMS)) == {GPU: 1}
