"""Rule 2, reserve, and the guards that send an attempt elsewhere first."""

import dataclasses
from functools import partial
from timeit import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.ledger.ledgers import GPU, IPS, NAMES, deferred, empty, gpus, granted, recounted, refused, view, wants
from webhook.accounting.amounts import Amounts
from webhook.state.ledger import MOST_ROWS, First, Granted, Kind, Ledger, Reservation, reserve


def test_a_promise_is_charged_at_once() -> None:
    assert granted(empty(), wants(new=3)).charged() == Amounts({GPU: 3})


def test_the_last_unit_can_be_promised_and_not_one_more() -> None:
    ledger = granted(empty(), wants(new=4))
    assert refused(ledger, wants("u2", new=1)) == Amounts({GPU: 1})


def test_asking_for_no_more_than_before_is_free() -> None:
    answer = reserve(empty(), wants(new=2, old=2))
    assert isinstance(answer, Granted)
    assert answer.free
    assert not answer.ledger.rows


def test_only_the_growth_of_a_change_is_charged() -> None:
    ledger = empty(tally=Amounts({GPU: 3}))
    assert granted(ledger, wants(new=4, old=3)).charged() == Amounts({GPU: 4})
    assert refused(ledger, wants(new=5, old=3)) == Amounts({GPU: 1})


def test_the_same_pod_again_is_charged_once_for_the_larger_promise() -> None:
    ledger = granted(empty(), wants(new=3))
    ledger = granted(ledger, wants(new=2, by="n2"))
    row = ledger.rows["u1"]
    assert ledger.charged() == Amounts({GPU: 3})
    assert (row.by, row.sole, row.kind) == ("n2", False, Kind.CREATE)


def test_a_promise_that_was_a_creation_and_a_change_is_a_change() -> None:
    ledger = granted(granted(empty(), wants(new=1)), wants(new=3, old=1, by="n2"))
    row = ledger.rows["u1"]
    assert (row.base, row.to, row.kind) == (Amounts(), Amounts({GPU: 3}), Kind.CHANGE)


def test_a_promise_that_was_a_change_stays_one() -> None:
    ledger = granted(granted(empty(), wants(new=2, old=1)), wants(new=3, by="n2"))
    assert ledger.rows["u1"].kind is Kind.CHANGE


def test_of_two_changes_the_smaller_base_counts() -> None:
    ledger = granted(empty(9, tally=gpus(3)), wants(new=4, old=3))
    assert granted(ledger, wants(new=2, old=1, by="n2", hard=9)).rows["u1"].base == Amounts({GPU: 1})


def test_a_change_that_takes_no_more_passes_though_a_tally_behind_makes_it_look_larger() -> None:
    ledger = granted(empty(4, tally=gpus(3)), wants(new=4, old=3))
    ledger = granted(ledger, wants(new=1, old=1, by="n2"))
    assert ledger.charged() == gpus(6)
    assert recounted(ledger, view(1, {"u1": 1})).charged() == gpus(4)


def test_even_a_free_ask_is_written_when_its_row_is_there() -> None:
    answer = reserve(granted(empty(), wants(new=1)), wants(new=1, old=1, by="n2"))
    assert isinstance(answer, Granted)
    assert not answer.free


def test_the_smaller_of_both_bounds_counts() -> None:
    assert refused(empty(hard=8), wants(new=5, hard=4)) == Amounts({GPU: 1})
    assert refused(empty(hard=4), wants(new=6, hard=8)) == Amounts({GPU: 2})


def test_a_pod_that_asks_nothing_of_an_overfull_name_passes() -> None:
    ledger = Ledger(Amounts({GPU: 4, IPS: 9}), tally=Amounts({GPU: 9}), counts=NAMES)
    wanted = Reservation("u1", "team-a", "p", Amounts(), Amounts({IPS: 1}), "n", Kind.CREATE, ledger.hard)
    assert granted(ledger, wanted).charged() == Amounts({GPU: 9, IPS: 1})


def test_who_may_break_the_glass_goes_over_and_is_charged() -> None:
    assert granted(empty(), wants(new=9, exceeds=True)).charged() == Amounts({GPU: 9})


def test_what_has_no_bound_is_never_refused() -> None:
    wanted = Reservation("u1", "team-a", "p", Amounts(), Amounts({IPS: 10**30}), "n", Kind.CREATE, Amounts())
    assert granted(Ledger(Amounts(), counts=NAMES), wanted).charged() == Amounts({IPS: 10**30})


def test_a_change_is_refused_whose_row_a_recount_has_made_too_large() -> None:
    """It came first with a pod that was smaller already; what was promised then was less than it asks for now."""
    ledger = recounted(empty(), view(1, {"w": 2, "u1": 1}))
    stale = granted(ledger, wants("u1", new=3, old=2, by="n1"))
    after = recounted(stale, view(1, {"w": 2, "u1": 1}))
    assert (stale.charged(), after.charged()) == (gpus(4), gpus(5))
    assert refused(after, wants("u1", new=3, old=1, by="n2")) == gpus(1)
    assert granted(after, wants("u1", new=1, old=1, by="n3")).charged() == gpus(5)


def test_a_ledger_made_anew_promises_nothing_yet() -> None:
    assert deferred(empty(converging="m1"), wants()) is First.OPEN


def test_a_name_that_is_not_counted_yet_is_counted_first() -> None:
    ledger = empty(counts=frozenset({IPS}))
    assert deferred(ledger, wants()) is First.COUNT_NAMES
    assert granted(recounted(ledger, view(1, {"w": 2})), wants()).charged() == gpus(3)


def test_a_name_that_only_the_stored_pod_holds_is_counted_first_too() -> None:
    old, new = Amounts({GPU: 1}), Amounts({IPS: 1})
    wanted = Reservation("u1", "team-a", "p", old, new, "n", Kind.CHANGE, Amounts())
    assert deferred(empty(counts=frozenset({IPS})), wanted) is First.COUNT_NAMES


def test_a_writer_that_knows_other_and_older_namespaces_than_the_ledger_catches_up_first() -> None:
    ledger = empty(ns_as_of=7, members="ab")
    assert deferred(ledger, wants(ns_as_of=6, members="a")) is First.CATCH_UP
    assert granted(ledger, wants(ns_as_of=7, members="ab")).rows


def test_a_ledger_that_was_counted_before_its_cap_came_into_force_is_counted_first() -> None:
    ledger = empty(as_of=6)
    assert deferred(ledger, wants(since=7)) is First.COUNT_PODS
    assert refused(recounted(ledger, view(7, {"w": 4})), wants(since=7)) == gpus(1)
    assert granted(empty(as_of=7), wants(since=7)).rows


def test_a_writer_that_knows_other_and_newer_namespaces_counts_first() -> None:
    ledger = empty(ns_as_of=7, members="a")
    wanted = wants(ns_as_of=8, members="ab")
    assert deferred(ledger, wanted) is First.COUNT_MEMBERS
    assert granted(recounted(ledger, view(1, {}, ns_revision=8, members="ab")), wanted).rows


@pytest.mark.parametrize("revision", [6, 8])
def test_older_and_newer_namespaces_that_are_the_same_need_no_count(revision: int) -> None:
    """A replica that starts sees namespaces at a revision that the others hear of up to a minute later."""
    assert granted(empty(ns_as_of=7, members="a"), wants(ns_as_of=revision, members="a")).rows


@pytest.mark.parametrize(
    "more", [{"converging": "m"}, {"ns_as_of": 9, "members": "x"}, {"members": "x"}, {"counts": frozenset()}]
)
def test_what_asks_for_no_more_waits_for_nothing(more: dict[str, Any]) -> None:
    answer = reserve(empty(**more), wants(new=1, old=2))
    assert isinstance(answer, Granted)
    assert answer.free


def test_in_a_shared_cap_a_namespace_holds_a_quarter_by_promises_alone_and_no_more() -> None:
    ledger = granted(granted(empty(8), wants("u1", hard=8, shared=True)), wants("u2", hard=8, shared=True))
    assert deferred(ledger, wants("u3", hard=8, shared=True)) is First.SETTLE_NAMESPACE
    assert granted(ledger, wants("u3", hard=8, shared=True, namespace="team-b")).charged() == gpus(3)


def test_what_is_settled_counts_no_more_against_a_namespace_s_quarter() -> None:
    ledger = granted(granted(empty(8), wants("u1", hard=8, shared=True)), wants("u2", hard=8, shared=True))
    ledger = recounted(ledger, view(1, {"u1": 1}))
    assert granted(ledger, wants("u3", hard=8, shared=True)).charged() == gpus(3)


def test_one_pod_of_a_namespace_may_always_be_promised_room_however_large() -> None:
    ledger = granted(empty(8), wants("u1", new=7, hard=8, shared=True))
    assert granted(ledger, wants("u1", new=8, hard=8, shared=True, by="n2")).charged() == gpus(8)


def test_the_quarter_is_of_the_smaller_bound() -> None:
    ledger = granted(empty(8), wants("u1", hard=4, shared=True))
    assert deferred(ledger, wants("u2", hard=4, shared=True)) is First.SETTLE_NAMESPACE


def test_what_is_over_the_cap_is_refused_rather_than_sent_to_wait() -> None:
    ledger = granted(empty(4), wants("u1", new=3, shared=True))
    assert refused(ledger, wants("u2", new=2, shared=True)) == gpus(1)


def test_who_may_break_the_glass_is_not_held_to_a_quarter() -> None:
    ledger = granted(empty(4), wants("u1", new=3, shared=True))
    assert granted(ledger, wants("u2", new=3, shared=True, exceeds=True)).charged() == gpus(6)


def full(count: int = MOST_ROWS) -> Ledger:
    """As many promises as a ledger takes."""
    rows = granted(empty(10**6), wants("u", hard=10**6)).rows["u"]
    return empty(10**6).with_rows((f"{uid:036}", rows) for uid in range(count))


def test_a_ledger_takes_so_many_promises_and_no_more() -> None:
    ledger = full()
    assert deferred(ledger, wants("u1", hard=10**6)) is First.SETTLE_ROWS
    assert granted(ledger, wants(f"{0:036}", new=2, hard=10**6)).charged() == gpus(MOST_ROWS + 1)
    assert granted(ledger, wants("u1", hard=10**6, most_rows=None)).charged() == gpus(MOST_ROWS + 1)


def test_a_reservation_in_a_ledger_of_thousands_of_rows_does_not_add_them_up() -> None:
    """Not what a clock reads, which a busy machine spoils, but how it grows: adding up is hundreds of times more."""
    small, large = full(1), full(MOST_ROWS - 1)
    wanted = wants("u1", hard=10**6)
    few, many = (min(repeat(partial(reserve, of, wanted), number=20, repeat=9)) for of in (small, large))
    assert many < 20 * few


uids = st.sampled_from("abcd")
counts = st.integers(0, 5)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Ledgers that some attempts have left behind."""
    ledger = empty(draw(st.integers(1, 12)), tally=gpus(draw(st.integers(0, 9))))
    for number in range(draw(st.integers(0, 6))):
        answer = reserve(ledger, wants(draw(uids), draw(counts), draw(counts), by=str(number), hard=99))
        ledger = answer.ledger
    return ledger


@given(ledgers(), uids, counts, counts, st.integers(1, 12))
def test_a_grant_charges_at_least_what_was_asked_and_keeps_to_both_bounds(
    ledger: Ledger, uid: str, old: int, new: int, hard: int
) -> None:
    answer = reserve(ledger, wants(uid, new, old, by="n", hard=hard))
    before, after = ledger.charged().get(GPU, 0), answer.ledger.charged().get(GPU, 0)
    if isinstance(answer, Granted) and not answer.free:
        row = answer.ledger.rows[uid]
        assert row.to.get(GPU, 0) >= new
        assert row.base.get(GPU, 0) <= old
        assert row.by == "n"
        assert new <= old or after <= max(before, min(hard, ledger.hard[GPU]))
    else:
        assert answer.ledger is ledger


@given(ledgers(), uids, counts, counts)
def test_the_sums_go_along_with_the_rows(ledger: Ledger, uid: str, old: int, new: int) -> None:
    after = reserve(ledger, wants(uid, new, old, by="n", hard=99)).ledger
    anew = after.with_rows(after.rows.items())
    assert (after.promised, dict(after.promised_in)) == (anew.promised, dict(anew.promised_in))


@given(ledgers(), uids, counts, counts)
def test_to_ask_twice_is_charged_as_to_ask_once(ledger: Ledger, uid: str, old: int, new: int) -> None:
    once = reserve(ledger, wants(uid, new, old, by="n", hard=99))
    if isinstance(once, Granted):
        twice = reserve(once.ledger, wants(uid, new, old, by="n2", hard=99))
        assert isinstance(twice, Granted)
        assert twice.ledger.charged() == once.ledger.charged()


@given(ledgers())
def test_a_ledger_without_its_rows_is_its_tally(ledger: Ledger) -> None:
    bare = ledger
    for uid in ledger.rows:
        bare = bare.with_row(uid, None)
    assert bare == dataclasses.replace(ledger, rows=bare.rows, promised=Amounts(), promised_in=bare.promised_in)
    assert not bare.rows
    assert not bare.promised_in
