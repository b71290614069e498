"""Rule 7, ledgers whose past is lost, and rule 8, policies that change."""

from tests.state.ledger.ledgers import GPU, IPS, NAMES, deferred, empty, gpus, granted, recounted, refused, view, wants
from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Ages, Behind, Closed, First, Lacks, govern, reopen

B = 40.0
MADE = empty(converging="m1")
KNOWN = Ages(B).seen(MADE, 100)


def test_a_ledger_made_anew_opens_with_a_list_begun_after_the_bound_and_a_write() -> None:
    ages = KNOWN.committed(begun=140, now=141)
    opened = reopen(MADE, ages, view(5, {"w": 2}), listed=141)
    assert not isinstance(opened, Behind | Closed)
    assert (opened.converging, opened.charged()) == ("", gpus(2))
    assert granted(opened, wants(new=2)).charged() == gpus(4)


def test_it_stays_closed_before() -> None:
    after = KNOWN.committed(begun=140, now=141)
    assert reopen(MADE, KNOWN, view(5, {}), listed=500) == Closed()
    assert reopen(MADE, KNOWN.committed(begun=139, now=500), view(5, {}), listed=500) == Closed()
    assert reopen(MADE, after, view(5, {}), listed=140) == Closed()
    assert reopen(empty(converging="m2"), after, view(5, {}), listed=500) == Closed()


def test_a_view_behind_the_ledger_does_not_open_it() -> None:
    ages = KNOWN.committed(begun=140, now=141)
    assert reopen(empty(converging="m1", as_of=9), ages, view(5, {}), listed=141) == Behind(Lacks.PODS)


def test_an_open_ledger_is_not_opened_again() -> None:
    assert reopen(empty(), Ages(B), view(5, {"w": 3}), listed=0) == empty()


def test_a_recount_alone_opens_nothing() -> None:
    assert deferred(recounted(MADE, view(5, {})), wants()) is First.OPEN


def test_a_making_is_worth_a_mark_and_no_read() -> None:
    assert KNOWN.awaits_mark(140)
    assert KNOWN.committed(begun=140, now=141).marked() == []


def test_a_lowered_bound_removes_nothing_and_admits_nothing_more() -> None:
    ledger = govern(granted(empty(4), wants(new=3)), gpus(2), NAMES)
    assert ledger.charged() == gpus(3)
    assert refused(ledger, wants("u2")) == gpus(2)


def test_a_raised_bound_holds_for_who_knows_it_and_not_for_who_does_not() -> None:
    ledger = govern(granted(empty(4), wants(new=4)), gpus(8), NAMES)
    assert granted(ledger, wants("u2", hard=8)).charged() == gpus(5)
    assert refused(ledger, wants("u2", hard=4)) == gpus(1)


def test_a_name_that_is_counted_no_more_leaves_the_tally() -> None:
    ledger = govern(empty(tally=Amounts({GPU: 2, IPS: 5})), gpus(4), frozenset({GPU}))
    assert (ledger.counts, ledger.tally) == (frozenset({GPU}), gpus(2))


def test_a_name_that_is_new_is_not_counted_before_a_recount() -> None:
    ledger = govern(empty(counts=frozenset({IPS})), gpus(4), NAMES)
    assert deferred(ledger, wants()) is First.COUNT_NAMES


def test_a_promise_keeps_the_names_that_a_policy_drops() -> None:
    assert govern(granted(empty(), wants(new=3)), Amounts(), frozenset()).rows["u1"].to == gpus(3)
