"""Rule 6: the conditions under which a reservation expires."""

import pytest

from tallygate.state.ledger.expire import LiveRead, ReservationAges, expire
from tallygate.state.ledger.ledger import Ledger
from tests.state.ledger.ledger_builders import (
    create_request,
    create_snapshot,
    empty_ledger,
    expect_recount,
    expect_reserved,
    gpus,
)

B = 40.0


def ledger(new: int = 3, old: int = 0) -> Ledger:
    """Return a ledger with one reservation, of attempt n1 for pod u1."""
    return expect_reserved(empty_ledger(used=gpus(old), pods_revision=5), create_request(new=new, old=old))


def create_confirmed_ages() -> ReservationAges:
    """Return ages of a reservation observed at 100, with a write that began at 140 and was confirmed at 141."""
    return ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=140, now=141)


def test_a_reservation_whose_pod_was_never_stored_expires() -> None:
    assert not expire(ledger(), create_confirmed_ages(), LiveRead("u1", 141, None)).compute_charged()


@pytest.mark.parametrize(
    "ages",
    [
        ReservationAges(B),
        ReservationAges(B).observe(ledger(), 100),
        ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=139.9, now=141),
        ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=139.9, now=200),
        ReservationAges(B).observe(empty_ledger(), 100).confirm_write(started_at=140, now=141),
        ReservationAges(B)
        .observe(expect_reserved(empty_ledger(), create_request(by="n0")), 100)
        .confirm_write(started_at=140, now=141),
    ],
    ids=[
        "never observed",
        "without a write",
        "written too early",
        "sent too early",
        "not observed",
        "of another attempt",
    ],
)
def test_a_reservation_does_not_expire_if_it_was(ages: ReservationAges) -> None:
    assert expire(ledger(), ages, LiveRead("u1", 500, None)) == ledger()


def test_a_read_that_began_before_the_confirmed_write_expires_nothing() -> None:
    assert expire(ledger(), create_confirmed_ages(), LiveRead("u1", 140.9, None)) == ledger()


def test_the_reservation_of_a_pod_that_is_counted_as_stored_expires() -> None:
    changed = ledger(new=3, old=1)
    ages = ReservationAges(B).observe(changed, 100).confirm_write(started_at=140, now=141)
    assert expire(changed, ages, LiveRead("u1", 141, 5)).compute_charged() == gpus(1)


def test_a_reservation_whose_pod_was_stored_after_the_count_stays_until_a_recount() -> None:
    found = LiveRead("u1", 141, 6)
    assert expire(ledger(), create_confirmed_ages(), found) == ledger()
    assert expire(
        expect_recount(ledger(), create_snapshot(6, {"u1": 3})), create_confirmed_ages(), found
    ).compute_charged() == gpus(3)


def test_a_missing_reservation_cannot_expire() -> None:
    assert expire(empty_ledger(), create_confirmed_ages(), LiveRead("u1", 141, None)) == empty_ledger()


def test_another_attempt_starts_a_new_age() -> None:
    again = expect_reserved(ledger(), create_request(by="n2"))
    ages = create_confirmed_ages().observe(again, 150).confirm_write(started_at=160, now=161)
    assert expire(again, ages, LiveRead("u1", 170, None)) == again
    assert not expire(again, ages.confirm_write(started_at=190, now=191), LiveRead("u1", 191, None)).compute_charged()


def test_a_reservation_that_is_observed_again_has_the_same_age_and_confirmed_write() -> None:
    assert create_confirmed_ages().observe(ledger(), 150).by_attempt == create_confirmed_ages().by_attempt
    assert (
        create_confirmed_ages().confirm_write(started_at=170, now=171).by_attempt == create_confirmed_ages().by_attempt
    )


def test_the_maximum_age_is_that_of_the_reservation_observed_first() -> None:
    two = expect_reserved(ledger(new=1), create_request("u2", by="n2"))
    assert ReservationAges(B).max_age_seconds(130) == 0
    assert ReservationAges(B).observe(ledger(new=1), 100).observe(two, 120).max_age_seconds(130) == 30


def test_a_reservation_that_disappeared_and_returned_is_new() -> None:
    ages = create_confirmed_ages().observe(empty_ledger(), 150).observe(ledger(), 160)
    assert expire(ledger(), ages, LiveRead("u1", 170, None)) == ledger()


def test_ages_state_when_a_write_is_needed_and_which_pods_to_read_then() -> None:
    ages = ReservationAges(B).observe(ledger(), 100)
    assert not ages.needs_write(139.9)
    assert ages.needs_write(140)
    assert ages.list_confirmed() == []
    assert not create_confirmed_ages().needs_write(500)
    assert create_confirmed_ages().list_confirmed() == ["u1"]
