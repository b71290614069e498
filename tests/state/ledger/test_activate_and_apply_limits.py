"""Rule 7, activation of initializing ledgers, and rule 8, limits of changed policies."""

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.expire import NotDue, ReservationAges, activate
from tallygate.state.ledger.recount import StaleReason, StaleSnapshot, apply_limits
from tallygate.state.ledger.reserve import Prerequisite
from tests.state.ledger.ledger_builders import (
    GPU,
    IPS,
    NAMES,
    create_request,
    create_snapshot,
    empty_ledger,
    expect_deferred,
    expect_exceeded,
    expect_recount,
    expect_reserved,
    gpus,
)

B = 40.0
CREATED = empty_ledger(initializer="m1")
OBSERVED = ReservationAges(B).observe(CREATED, 100)


def test_a_created_ledger_is_activated_by_a_list_after_the_bound_and_a_write() -> None:
    ages = OBSERVED.confirm_write(started_at=140, now=141)
    activated = activate(CREATED, ages, create_snapshot(5, {"w": 2}), listed_at=141)
    assert not isinstance(activated, StaleSnapshot | NotDue)
    assert (activated.initializer, activated.compute_charged()) == ("", gpus(2))
    assert expect_reserved(activated, create_request(new=2)).compute_charged() == gpus(4)


def test_a_created_ledger_is_not_activated_earlier() -> None:
    after = OBSERVED.confirm_write(started_at=140, now=141)
    assert activate(CREATED, OBSERVED, create_snapshot(5, {}), listed_at=500) == NotDue()
    assert (
        activate(CREATED, OBSERVED.confirm_write(started_at=139, now=500), create_snapshot(5, {}), listed_at=500)
        == NotDue()
    )
    assert activate(CREATED, after, create_snapshot(5, {}), listed_at=140) == NotDue()
    assert activate(empty_ledger(initializer="m2"), after, create_snapshot(5, {}), listed_at=500) == NotDue()


def test_a_snapshot_older_than_the_ledger_does_not_activate_it() -> None:
    ages = OBSERVED.confirm_write(started_at=140, now=141)
    assert activate(
        empty_ledger(initializer="m1", pods_revision=9), ages, create_snapshot(5, {}), listed_at=141
    ) == StaleSnapshot(StaleReason.PODS)


def test_an_active_ledger_is_not_activated_again() -> None:
    assert activate(empty_ledger(), ReservationAges(B), create_snapshot(5, {"w": 3}), listed_at=0) == empty_ledger()


def test_a_recount_alone_does_not_activate() -> None:
    assert expect_deferred(expect_recount(CREATED, create_snapshot(5, {})), create_request()) is Prerequisite.ACTIVATE


def test_an_initializing_ledger_needs_a_write_and_no_read() -> None:
    assert OBSERVED.needs_write(140)
    assert OBSERVED.confirm_write(started_at=140, now=141).list_confirmed() == []


def test_a_lowered_limit_removes_nothing_and_admits_nothing_more() -> None:
    ledger = apply_limits(expect_reserved(empty_ledger(4), create_request(new=3)), gpus(2), NAMES)
    assert ledger.compute_charged() == gpus(3)
    assert expect_exceeded(ledger, create_request("u2")) == gpus(2)


def test_a_raised_limit_applies_to_replicas_that_have_it() -> None:
    ledger = apply_limits(expect_reserved(empty_ledger(4), create_request(new=4)), gpus(8), NAMES)
    assert expect_reserved(ledger, create_request("u2", hard=8)).compute_charged() == gpus(5)
    assert expect_exceeded(ledger, create_request("u2", hard=4)) == gpus(1)


def test_a_resource_that_is_no_longer_counted_is_removed_from_used() -> None:
    ledger = apply_limits(empty_ledger(used=Amounts({GPU: 2, IPS: 5})), gpus(4), frozenset({GPU}))
    assert (ledger.resources, ledger.used) == (frozenset({GPU}), gpus(2))


def test_a_new_resource_is_not_counted_before_a_recount() -> None:
    ledger = apply_limits(empty_ledger(resources=frozenset({IPS})), gpus(4), NAMES)
    assert expect_deferred(ledger, create_request()) is Prerequisite.COUNT_RESOURCES


def test_a_reservation_retains_resources_that_a_policy_drops() -> None:
    assert apply_limits(expect_reserved(empty_ledger(), create_request(new=3)), Amounts(), frozenset()).reservations[
        "u1"
    ].requested == gpus(3)
