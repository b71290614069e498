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
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ledger.reserve import MAX_RESERVATIONS, Prerequisite, ReservationRequest, Reserved, reserve


def test_a_promise_is_charged_at_once() -> None:
    assert granted(empty(), wants(new=3)).compute_charged() == Amounts({GPU: 3})


def test_the_last_unit_can_be_promised_and_not_one_more() -> None:
    ledger = granted(empty(), wants(new=4))
    assert refused(ledger, wants("u2", new=1)) == Amounts({GPU: 1})


def test_asking_for_no_more_than_before_is_free() -> None:
    answer = reserve(empty(), wants(new=2, old=2))
    assert isinstance(answer, Reserved)
    assert answer.needs_no_write
    assert not answer.ledger.reservations


def test_only_the_growth_of_a_change_is_charged() -> None:
    ledger = empty(used=Amounts({GPU: 3}))
    assert granted(ledger, wants(new=4, old=3)).compute_charged() == Amounts({GPU: 4})
    assert refused(ledger, wants(new=5, old=3)) == Amounts({GPU: 1})


def test_the_same_pod_again_is_charged_once_for_the_larger_promise() -> None:
    ledger = granted(empty(), wants(new=3))
    ledger = granted(ledger, wants(new=2, by="n2"))
    row = ledger.reservations["u1"]
    assert ledger.compute_charged() == Amounts({GPU: 3})
    assert (row.attempt, row.single_attempt, row.operation) == ("n2", False, Operation.CREATE)


def test_a_promise_that_was_a_creation_and_a_change_is_a_change() -> None:
    ledger = granted(granted(empty(), wants(new=1)), wants(new=3, old=1, by="n2"))
    row = ledger.reservations["u1"]
    assert (row.counted, row.requested, row.operation) == (Amounts(), Amounts({GPU: 3}), Operation.UPDATE)


def test_a_promise_that_was_a_change_stays_one() -> None:
    ledger = granted(granted(empty(), wants(new=2, old=1)), wants(new=3, by="n2"))
    assert ledger.reservations["u1"].operation is Operation.UPDATE


def test_of_two_changes_the_smaller_base_counts() -> None:
    ledger = granted(empty(9, used=gpus(3)), wants(new=4, old=3))
    assert granted(ledger, wants(new=2, old=1, by="n2", hard=9)).reservations["u1"].counted == Amounts({GPU: 1})


def test_of_two_changes_the_base_is_nothing_where_the_later_one_found_a_pod_that_the_cap_did_not_count() -> None:
    ledger = granted(empty(9, used=gpus(2)), wants(new=3, old=2, hard=9))
    after = granted(ledger, wants(new=3, old=0, by="n2", hard=9, kind=Operation.UPDATE))
    assert after.reservations["u1"].counted == gpus(0)
    assert after.compute_charged() == gpus(5)


def test_a_change_that_takes_no_more_passes_though_a_tally_behind_makes_it_look_larger() -> None:
    ledger = granted(empty(4, used=gpus(3)), wants(new=4, old=3))
    ledger = granted(ledger, wants(new=1, old=1, by="n2"))
    assert ledger.compute_charged() == gpus(6)
    assert recounted(ledger, view(1, {"u1": 1})).compute_charged() == gpus(4)


def test_even_a_free_ask_is_written_when_its_row_is_there() -> None:
    answer = reserve(granted(empty(), wants(new=1)), wants(new=1, old=1, by="n2"))
    assert isinstance(answer, Reserved)
    assert not answer.needs_no_write


def test_the_smaller_of_both_bounds_counts() -> None:
    assert refused(empty(hard=8), wants(new=5, hard=4)) == Amounts({GPU: 1})
    assert refused(empty(hard=4), wants(new=6, hard=8)) == Amounts({GPU: 2})


def test_a_pod_that_asks_nothing_of_an_overfull_name_passes() -> None:
    ledger = Ledger(Amounts({GPU: 4, IPS: 9}), used=Amounts({GPU: 9}), resources=NAMES)
    wanted = ReservationRequest("u1", "team-a", "p", Amounts(), Amounts({IPS: 1}), "n", Operation.CREATE, ledger.hard)
    assert granted(ledger, wanted).compute_charged() == Amounts({GPU: 9, IPS: 1})


def test_who_may_break_the_glass_goes_over_and_is_charged() -> None:
    assert granted(empty(), wants(new=9, may_exceed=True)).compute_charged() == Amounts({GPU: 9})


def test_what_has_no_bound_is_never_refused() -> None:
    wanted = ReservationRequest(
        "u1", "team-a", "p", Amounts(), Amounts({IPS: 10**30}), "n", Operation.CREATE, Amounts()
    )
    assert granted(Ledger(Amounts(), resources=NAMES), wanted).compute_charged() == Amounts({IPS: 10**30})


def test_a_change_is_refused_whose_row_a_recount_has_made_too_large() -> None:
    """It came first with a pod that was smaller already; what was promised then was less than it asks for now."""
    ledger = recounted(empty(), view(1, {"w": 2, "u1": 1}))
    stale = granted(ledger, wants("u1", new=3, old=2, by="n1"))
    after = recounted(stale, view(1, {"w": 2, "u1": 1}))
    assert (stale.compute_charged(), after.compute_charged()) == (gpus(4), gpus(5))
    assert refused(after, wants("u1", new=3, old=1, by="n2")) == gpus(1)
    assert granted(after, wants("u1", new=1, old=1, by="n3")).compute_charged() == gpus(5)


def test_a_ledger_made_anew_promises_nothing_yet() -> None:
    assert deferred(empty(initializer="m1"), wants()) is Prerequisite.ACTIVATE


def test_a_name_that_is_not_counted_yet_is_counted_first() -> None:
    ledger = empty(resources=frozenset({IPS}))
    assert deferred(ledger, wants()) is Prerequisite.COUNT_RESOURCES
    assert granted(recounted(ledger, view(1, {"w": 2})), wants()).compute_charged() == gpus(3)


def test_a_name_that_only_the_stored_pod_holds_is_counted_first_too() -> None:
    old, new = Amounts({GPU: 1}), Amounts({IPS: 1})
    wanted = ReservationRequest("u1", "team-a", "p", old, new, "n", Operation.UPDATE, Amounts())
    assert deferred(empty(resources=frozenset({IPS})), wanted) is Prerequisite.COUNT_RESOURCES


def test_a_writer_that_knows_other_and_older_namespaces_than_the_ledger_catches_up_first() -> None:
    ledger = empty(namespaces_revision=7, namespaces_hash="ab")
    assert deferred(ledger, wants(namespaces_revision=6, namespaces_hash="a")) is Prerequisite.CATCH_UP
    assert granted(ledger, wants(namespaces_revision=7, namespaces_hash="ab")).reservations


def test_a_ledger_that_was_counted_before_its_cap_came_into_force_is_counted_first() -> None:
    ledger = empty(pods_revision=6)
    assert deferred(ledger, wants(min_pods_revision=7)) is Prerequisite.COUNT_PODS
    assert refused(recounted(ledger, view(7, {"w": 4})), wants(min_pods_revision=7)) == gpus(1)
    assert granted(empty(pods_revision=7), wants(min_pods_revision=7)).reservations


def test_a_writer_that_knows_other_and_newer_namespaces_counts_first() -> None:
    ledger = empty(namespaces_revision=7, namespaces_hash="a")
    wanted = wants(namespaces_revision=8, namespaces_hash="ab")
    assert deferred(ledger, wanted) is Prerequisite.COUNT_NAMESPACES
    assert granted(recounted(ledger, view(1, {}, ns_revision=8, members="ab")), wanted).reservations


@pytest.mark.parametrize("revision", [6, 8])
def test_older_and_newer_namespaces_that_are_the_same_need_no_count(revision: int) -> None:
    """A replica that starts sees namespaces at a revision that the others hear of up to a minute later."""
    assert granted(
        empty(namespaces_revision=7, namespaces_hash="a"), wants(namespaces_revision=revision, namespaces_hash="a")
    ).reservations


@pytest.mark.parametrize(
    "more",
    [
        {"initializer": "m"},
        {"namespaces_revision": 9, "namespaces_hash": "x"},
        {"namespaces_hash": "x"},
        {"resources": frozenset()},
    ],
)
def test_what_asks_for_no_more_waits_for_nothing(more: dict[str, Any]) -> None:
    answer = reserve(empty(**more), wants(new=1, old=2))
    assert isinstance(answer, Reserved)
    assert answer.needs_no_write


def test_in_a_shared_cap_a_namespace_holds_a_quarter_by_promises_alone_and_no_more() -> None:
    ledger = granted(granted(empty(8), wants("u1", hard=8, is_shared=True)), wants("u2", hard=8, is_shared=True))
    assert deferred(ledger, wants("u3", hard=8, is_shared=True)) is Prerequisite.SETTLE_NAMESPACE
    assert granted(ledger, wants("u3", hard=8, is_shared=True, namespace="team-b")).compute_charged() == gpus(3)


def test_what_is_settled_counts_no_more_against_a_namespace_s_quarter() -> None:
    ledger = granted(granted(empty(8), wants("u1", hard=8, is_shared=True)), wants("u2", hard=8, is_shared=True))
    ledger = recounted(ledger, view(1, {"u1": 1}))
    assert granted(ledger, wants("u3", hard=8, is_shared=True)).compute_charged() == gpus(3)


def test_one_pod_of_a_namespace_may_always_be_promised_room_however_large() -> None:
    ledger = granted(empty(8), wants("u1", new=7, hard=8, is_shared=True))
    assert granted(ledger, wants("u1", new=8, hard=8, is_shared=True, by="n2")).compute_charged() == gpus(8)


@pytest.mark.parametrize(("own", "stored"), [(4, 8), (8, 4)], ids=["this replica's", "the ledger's"])
def test_the_quarter_is_of_the_smaller_bound(own: int, stored: int) -> None:
    ledger = granted(empty(stored), wants("u1", hard=own, is_shared=True))
    assert deferred(ledger, wants("u2", hard=own, is_shared=True)) is Prerequisite.SETTLE_NAMESPACE


def test_an_attempt_that_reserves_no_more_than_the_one_before_is_not_held_to_a_quarter() -> None:
    ledger = granted(granted(empty(8), wants("u1", hard=8, is_shared=True)), wants("u2", hard=8, is_shared=True))
    lowered = dataclasses.replace(ledger, hard=gpus(4))
    assert granted(lowered, wants("u2", hard=8, is_shared=True, by="n2")).compute_charged() == gpus(2)


def test_what_is_over_the_cap_is_refused_rather_than_sent_to_wait() -> None:
    ledger = granted(empty(4), wants("u1", new=3, is_shared=True))
    assert refused(ledger, wants("u2", new=2, is_shared=True)) == gpus(1)


def test_who_may_break_the_glass_is_not_held_to_a_quarter() -> None:
    ledger = granted(empty(4), wants("u1", new=3, is_shared=True))
    assert granted(ledger, wants("u2", new=3, is_shared=True, may_exceed=True)).compute_charged() == gpus(6)


def full(count: int = MAX_RESERVATIONS) -> Ledger:
    """As many promises as a ledger takes."""
    rows = granted(empty(10**6), wants("u", hard=10**6)).reservations["u"]
    return empty(10**6).with_reservations((f"{uid:036}", rows) for uid in range(count))


def test_a_ledger_takes_so_many_promises_and_no_more() -> None:
    ledger = full()
    assert deferred(ledger, wants("u1", hard=10**6)) is Prerequisite.SETTLE_RESERVATIONS
    assert granted(ledger, wants(f"{0:036}", new=2, hard=10**6)).compute_charged() == gpus(MAX_RESERVATIONS + 1)
    assert granted(ledger, wants("u1", hard=10**6, max_reservations=None)).compute_charged() == gpus(
        MAX_RESERVATIONS + 1
    )


def test_a_reservation_in_a_ledger_of_thousands_of_rows_does_not_add_them_up() -> None:
    """Not what a clock reads, which a busy machine spoils, but how it grows: adding up is hundreds of times more."""
    small, large = full(1), full(MAX_RESERVATIONS - 1)
    wanted = wants("u1", hard=10**6)
    few, many = (min(repeat(partial(reserve, of, wanted), number=20, repeat=9)) for of in (small, large))
    assert many < 20 * few


uids = st.sampled_from("abcd")
counts = st.integers(0, 5)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Ledgers that some attempts have left behind."""
    ledger = empty(draw(st.integers(1, 12)), used=gpus(draw(st.integers(0, 9))))
    for number in range(draw(st.integers(0, 6))):
        answer = reserve(ledger, wants(draw(uids), draw(counts), draw(counts), by=str(number), hard=99))
        ledger = answer.ledger
    return ledger


@given(ledgers(), uids, counts, counts, st.integers(1, 12))
def test_a_grant_charges_at_least_what_was_asked_and_keeps_to_both_bounds(
    ledger: Ledger, uid: str, old: int, new: int, hard: int
) -> None:
    answer = reserve(ledger, wants(uid, new, old, by="n", hard=hard))
    before, after = ledger.compute_charged().get(GPU, 0), answer.ledger.compute_charged().get(GPU, 0)
    if isinstance(answer, Reserved) and not answer.needs_no_write:
        row = answer.ledger.reservations[uid]
        assert row.requested.get(GPU, 0) >= new
        assert row.counted.get(GPU, 0) <= old
        assert row.attempt == "n"
        assert new <= old or after <= max(before, min(hard, ledger.hard[GPU]))
    else:
        assert answer.ledger is ledger


@given(ledgers(), uids, counts, counts)
def test_the_sums_go_along_with_the_rows(ledger: Ledger, uid: str, old: int, new: int) -> None:
    after = reserve(ledger, wants(uid, new, old, by="n", hard=99)).ledger
    anew = after.with_reservations(after.reservations.items())
    assert (after.reserved, dict(after.reserved_by_namespace)) == (anew.reserved, dict(anew.reserved_by_namespace))


@given(ledgers(), uids, counts, counts)
def test_to_ask_twice_is_charged_as_to_ask_once(ledger: Ledger, uid: str, old: int, new: int) -> None:
    once = reserve(ledger, wants(uid, new, old, by="n", hard=99))
    if isinstance(once, Reserved):
        twice = reserve(once.ledger, wants(uid, new, old, by="n2", hard=99))
        assert isinstance(twice, Reserved)
        assert twice.ledger.compute_charged() == once.ledger.compute_charged()


@given(ledgers())
def test_a_ledger_without_its_rows_is_its_tally(ledger: Ledger) -> None:
    bare = ledger
    for uid in ledger.reservations:
        bare = bare.with_reservation(uid, None)
    assert bare == dataclasses.replace(
        ledger, reservations=bare.reservations, reserved=Amounts(), reserved_by_namespace=bare.reserved_by_namespace
    )
    assert not bare.reservations
    assert not bare.reserved_by_namespace
