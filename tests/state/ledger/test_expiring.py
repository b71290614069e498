"""Rule 6: what an observer must know before it drops a promise that it never saw kept."""

import pytest

from tests.state.ledger.ledgers import empty, gpus, granted, recounted, view, wants
from webhook.state.ledger import Ages, Ledger, Reading, expire

B = 40.0


def ledger(new: int = 3, old: int = 0) -> Ledger:
    """One promise, of attempt n1 to pod u1."""
    return granted(empty(tally=gpus(old), as_of=5), wants(new=new, old=old))


def ripe() -> Ages:
    """Seen at 100, a write begun at 140 known to have committed at 141."""
    return Ages(B).seen(ledger(), 100).committed(begun=140, now=141)


def test_a_promise_that_came_to_nothing_is_dropped() -> None:
    assert not expire(ledger(), ripe(), Reading("u1", 141, None)).charged()


@pytest.mark.parametrize(
    "ages",
    [
        Ages(B),
        Ages(B).seen(ledger(), 100),
        Ages(B).seen(ledger(), 100).committed(begun=139.9, now=141),
        Ages(B).seen(ledger(), 100).committed(begun=139.9, now=200),
        Ages(B).seen(empty(), 100).committed(begun=140, now=141),
        Ages(B).seen(granted(empty(), wants(by="n0")), 100).committed(begun=140, now=141),
    ],
    ids=["never seen", "no mark", "mark too early", "mark sent too early", "seen without it", "another attempt's"],
)
def test_a_promise_is_kept_that_is(ages: Ages) -> None:
    assert expire(ledger(), ages, Reading("u1", 500, None)) == ledger()


def test_a_read_begun_before_the_mark_was_known_says_nothing() -> None:
    assert expire(ledger(), ripe(), Reading("u1", 140.9, None)) == ledger()


def test_a_pod_that_is_counted_as_it_is_needs_no_promise() -> None:
    changed = ledger(new=3, old=1)
    ages = Ages(B).seen(changed, 100).committed(begun=140, now=141)
    assert expire(changed, ages, Reading("u1", 141, 5)).charged() == gpus(1)


def test_a_pod_that_was_stored_after_the_count_keeps_its_promise_until_it_is_counted() -> None:
    found = Reading("u1", 141, 6)
    assert expire(ledger(), ripe(), found) == ledger()
    assert expire(recounted(ledger(), view(6, {"u1": 3})), ripe(), found).charged() == gpus(3)


def test_what_is_not_promised_cannot_be_dropped() -> None:
    assert expire(empty(), ripe(), Reading("u1", 141, None)) == empty()


def test_another_attempt_begins_a_new_age() -> None:
    again = granted(ledger(), wants(by="n2"))
    ages = ripe().seen(again, 150).committed(begun=160, now=161)
    assert expire(again, ages, Reading("u1", 170, None)) == again
    assert not expire(again, ages.committed(begun=190, now=191), Reading("u1", 191, None)).charged()


def test_what_is_seen_again_keeps_its_age_and_its_mark() -> None:
    assert ripe().seen(ledger(), 150).known == ripe().known
    assert ripe().committed(begun=170, now=171).known == ripe().known


def test_what_went_and_came_back_is_new() -> None:
    ages = ripe().seen(empty(), 150).seen(ledger(), 160)
    assert expire(ledger(), ages, Reading("u1", 170, None)) == ledger()


def test_an_observer_says_when_a_mark_is_worth_a_write_and_what_to_read_then() -> None:
    ages = Ages(B).seen(ledger(), 100)
    assert not ages.awaits_mark(139.9)
    assert ages.awaits_mark(140)
    assert ages.marked() == []
    assert not ripe().awaits_mark(500)
    assert ripe().marked() == ["u1"]
