"""Rule 6: what an observer must know before it drops a promise that it never saw kept."""

import pytest

from tests.state.ledger.ledgers import empty, gpus, granted, recounted, view, wants
from webhook.state.ledger.expire import LiveRead, ReservationAges, expire
from webhook.state.ledger.ledger import Ledger

B = 40.0


def ledger(new: int = 3, old: int = 0) -> Ledger:
    """One promise, of attempt n1 to pod u1."""
    return granted(empty(used=gpus(old), pods_revision=5), wants(new=new, old=old))


def ripe() -> ReservationAges:
    """Seen at 100, a write begun at 140 known to have committed at 141."""
    return ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=140, now=141)


def test_a_promise_that_came_to_nothing_is_dropped() -> None:
    assert not expire(ledger(), ripe(), LiveRead("u1", 141, None)).compute_charged()


@pytest.mark.parametrize(
    "ages",
    [
        ReservationAges(B),
        ReservationAges(B).observe(ledger(), 100),
        ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=139.9, now=141),
        ReservationAges(B).observe(ledger(), 100).confirm_write(started_at=139.9, now=200),
        ReservationAges(B).observe(empty(), 100).confirm_write(started_at=140, now=141),
        ReservationAges(B).observe(granted(empty(), wants(by="n0")), 100).confirm_write(started_at=140, now=141),
    ],
    ids=["never seen", "no mark", "mark too early", "mark sent too early", "seen without it", "another attempt's"],
)
def test_a_promise_is_kept_that_is(ages: ReservationAges) -> None:
    assert expire(ledger(), ages, LiveRead("u1", 500, None)) == ledger()


def test_a_read_begun_before_the_mark_was_known_says_nothing() -> None:
    assert expire(ledger(), ripe(), LiveRead("u1", 140.9, None)) == ledger()


def test_a_pod_that_is_counted_as_it_is_needs_no_promise() -> None:
    changed = ledger(new=3, old=1)
    ages = ReservationAges(B).observe(changed, 100).confirm_write(started_at=140, now=141)
    assert expire(changed, ages, LiveRead("u1", 141, 5)).compute_charged() == gpus(1)


def test_a_pod_that_was_stored_after_the_count_keeps_its_promise_until_it_is_counted() -> None:
    found = LiveRead("u1", 141, 6)
    assert expire(ledger(), ripe(), found) == ledger()
    assert expire(recounted(ledger(), view(6, {"u1": 3})), ripe(), found).compute_charged() == gpus(3)


def test_what_is_not_promised_cannot_be_dropped() -> None:
    assert expire(empty(), ripe(), LiveRead("u1", 141, None)) == empty()


def test_another_attempt_begins_a_new_age() -> None:
    again = granted(ledger(), wants(by="n2"))
    ages = ripe().observe(again, 150).confirm_write(started_at=160, now=161)
    assert expire(again, ages, LiveRead("u1", 170, None)) == again
    assert not expire(again, ages.confirm_write(started_at=190, now=191), LiveRead("u1", 191, None)).compute_charged()


def test_what_is_seen_again_keeps_its_age_and_its_mark() -> None:
    assert ripe().observe(ledger(), 150).by_attempt == ripe().by_attempt
    assert ripe().confirm_write(started_at=170, now=171).by_attempt == ripe().by_attempt


def test_the_oldest_reservation_is_the_one_that_is_known_for_longest() -> None:
    two = granted(ledger(new=1), wants("u2", by="n2"))
    assert ReservationAges(B).max_age_seconds(130) == 0
    assert ReservationAges(B).observe(ledger(new=1), 100).observe(two, 120).max_age_seconds(130) == 30


def test_what_went_and_came_back_is_new() -> None:
    ages = ripe().observe(empty(), 150).observe(ledger(), 160)
    assert expire(ledger(), ages, LiveRead("u1", 170, None)) == ledger()


def test_an_observer_says_when_a_mark_is_worth_a_write_and_what_to_read_then() -> None:
    ages = ReservationAges(B).observe(ledger(), 100)
    assert not ages.needs_write(139.9)
    assert ages.needs_write(140)
    assert ages.list_confirmed() == []
    assert not ripe().needs_write(500)
    assert ripe().list_confirmed() == ["u1"]
