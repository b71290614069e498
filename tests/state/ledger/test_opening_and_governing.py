"""Rule 7, ledgers whose past is lost, and rule 8, policies that change."""

from tests.state.ledger.ledgers import GPU, IPS, NAMES, deferred, empty, gpus, granted, recounted, refused, view, wants
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.expire import NotDue, ReservationAges, activate
from webhook.state.ledger.recount import StaleReason, StaleSnapshot, apply_limits
from webhook.state.ledger.reserve import Prerequisite

B = 40.0
MADE = empty(initializer="m1")
KNOWN = ReservationAges(B).observe(MADE, 100)


def test_a_ledger_made_anew_opens_with_a_list_begun_after_the_bound_and_a_write() -> None:
    ages = KNOWN.confirm_write(started_at=140, now=141)
    opened = activate(MADE, ages, view(5, {"w": 2}), listed_at=141)
    assert not isinstance(opened, StaleSnapshot | NotDue)
    assert (opened.initializer, opened.compute_charged()) == ("", gpus(2))
    assert granted(opened, wants(new=2)).compute_charged() == gpus(4)


def test_it_stays_closed_before() -> None:
    after = KNOWN.confirm_write(started_at=140, now=141)
    assert activate(MADE, KNOWN, view(5, {}), listed_at=500) == NotDue()
    assert activate(MADE, KNOWN.confirm_write(started_at=139, now=500), view(5, {}), listed_at=500) == NotDue()
    assert activate(MADE, after, view(5, {}), listed_at=140) == NotDue()
    assert activate(empty(initializer="m2"), after, view(5, {}), listed_at=500) == NotDue()


def test_a_view_behind_the_ledger_does_not_open_it() -> None:
    ages = KNOWN.confirm_write(started_at=140, now=141)
    assert activate(empty(initializer="m1", pods_revision=9), ages, view(5, {}), listed_at=141) == StaleSnapshot(
        StaleReason.PODS
    )


def test_an_open_ledger_is_not_opened_again() -> None:
    assert activate(empty(), ReservationAges(B), view(5, {"w": 3}), listed_at=0) == empty()


def test_a_recount_alone_opens_nothing() -> None:
    assert deferred(recounted(MADE, view(5, {})), wants()) is Prerequisite.ACTIVATE


def test_a_making_is_worth_a_mark_and_no_read() -> None:
    assert KNOWN.needs_write(140)
    assert KNOWN.confirm_write(started_at=140, now=141).list_confirmed() == []


def test_a_lowered_bound_removes_nothing_and_admits_nothing_more() -> None:
    ledger = apply_limits(granted(empty(4), wants(new=3)), gpus(2), NAMES)
    assert ledger.compute_charged() == gpus(3)
    assert refused(ledger, wants("u2")) == gpus(2)


def test_a_raised_bound_holds_for_who_knows_it_and_not_for_who_does_not() -> None:
    ledger = apply_limits(granted(empty(4), wants(new=4)), gpus(8), NAMES)
    assert granted(ledger, wants("u2", hard=8)).compute_charged() == gpus(5)
    assert refused(ledger, wants("u2", hard=4)) == gpus(1)


def test_a_name_that_is_counted_no_more_leaves_the_tally() -> None:
    ledger = apply_limits(empty(used=Amounts({GPU: 2, IPS: 5})), gpus(4), frozenset({GPU}))
    assert (ledger.resources, ledger.used) == (frozenset({GPU}), gpus(2))


def test_a_name_that_is_new_is_not_counted_before_a_recount() -> None:
    ledger = apply_limits(empty(resources=frozenset({IPS})), gpus(4), NAMES)
    assert deferred(ledger, wants()) is Prerequisite.COUNT_RESOURCES


def test_a_promise_keeps_the_names_that_a_policy_drops() -> None:
    assert apply_limits(granted(empty(), wants(new=3)), Amounts(), frozenset()).reservations["u1"].requested == gpus(3)
