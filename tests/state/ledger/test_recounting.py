"""Rule 4: from promise to tally."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.ledger.ledgers import GPU, IPS, NAMES, empty, gpus, granted, recounted, view, wants
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ledger.recount import StaleReason, StaleSnapshot, recount


def test_a_creation_that_is_there_is_counted_instead_of_promised() -> None:
    ledger = recounted(granted(empty(), wants(new=3)), view(5, {"u1": 3}))
    assert (ledger.used, dict(ledger.reservations), ledger.pods_revision) == (gpus(3), {}, 5)


def test_a_creation_that_ended_before_it_was_seen_costs_nothing() -> None:
    assert not recounted(granted(empty(), wants(new=3)), view(5, {"u1": 0})).compute_charged()


def test_a_creation_that_is_not_there_yet_keeps_its_promise() -> None:
    assert recounted(granted(empty(), wants(new=3)), view(5, {"w": 1})).compute_charged() == gpus(4)


def test_a_change_keeps_its_promise_above_what_is_counted_now() -> None:
    ledger = granted(empty(used=gpus(1)), wants(new=3, old=1))
    ledger = recounted(ledger, view(5, {"u1": 2}))
    assert ledger.reservations["u1"].counted == gpus(2)
    assert ledger.compute_charged() == gpus(3)


def test_a_change_that_is_there_keeps_its_promise_too_since_another_may_follow() -> None:
    ledger = recounted(granted(empty(used=gpus(1)), wants(new=3, old=1)), view(5, {"u1": 3}))
    assert ledger.reservations["u1"].requested == gpus(3)
    assert ledger.compute_charged() == gpus(3)


def test_a_change_of_what_is_not_counted_any_more_is_charged_in_full() -> None:
    ledger = recounted(granted(empty(used=gpus(2)), wants(new=3, old=2)), view(5, {}))
    assert not ledger.reservations["u1"].counted
    assert ledger.compute_charged() == gpus(3)


@pytest.mark.parametrize("old", [0, 1])
def test_a_promise_whose_pod_this_watch_saw_deleted_is_over(old: int) -> None:
    ledger = granted(empty(used=gpus(old)), wants(new=3, old=old))
    assert not recounted(ledger, view(5, {}, gone={"u1"})).compute_charged()


def test_a_row_is_untouched_by_the_deletion_of_another_pod() -> None:
    assert recounted(granted(empty(), wants()), view(5, {}, gone={"u2"})).reservations


def test_a_view_of_the_same_revision_may_count_again() -> None:
    ledger = recounted(empty(), view(5, {"u1": 1}))
    assert recounted(granted(ledger, wants("u2", by="n2")), view(5, {"u1": 1}, gone={"u2"})).compute_charged() == gpus(
        1
    )


def test_an_older_view_of_pods_counts_nothing() -> None:
    assert recount(empty(pods_revision=6), view(5, {})) == StaleSnapshot(StaleReason.PODS)


def test_a_view_of_other_and_older_namespaces_counts_nothing() -> None:
    assert recount(empty(namespaces_revision=6, namespaces_hash="a"), view(5, {}, ns_revision=5)) == StaleSnapshot(
        StaleReason.NAMESPACES
    )


def test_an_older_view_of_the_same_namespaces_counts_and_the_ledger_grows_no_older() -> None:
    ledger = recounted(
        empty(namespaces_revision=6, namespaces_hash="a"), view(5, {"u1": 2}, ns_revision=5, members="a")
    )
    assert (ledger.compute_charged(), ledger.namespaces_revision) == (gpus(2), 6)


def test_a_view_that_lacks_a_counted_name_counts_nothing() -> None:
    assert recount(empty(), view(5, {}, names=frozenset({GPU}))) == StaleSnapshot(StaleReason.RESOURCES)


def test_a_view_may_count_more_names_and_other_namespaces() -> None:
    ledger = recounted(
        empty(resources=frozenset({IPS}), namespaces_hash="a"), view(5, {"u1": 2}, ns_revision=3, members="ab")
    )
    assert (ledger.resources, ledger.namespaces_hash, ledger.namespaces_revision) == (NAMES, "ab", 3)
    assert ledger.compute_charged() == gpus(2)


@st.composite
def promised(draw: st.DrawFn) -> Ledger:
    """Ledgers with promises of both kinds."""
    ledger = empty(99)
    for number, uid in enumerate("abcdef"):
        kind = draw(st.sampled_from([None, Operation.CREATE, Operation.UPDATE]))
        if kind is not None:
            old = draw(st.integers(0, 3)) if kind is Operation.UPDATE else 0
            new = old + draw(st.integers(1, 3))
            ledger = granted(ledger, wants(uid, new, old, by=str(number), kind=kind, hard=99))
    return ledger


seen = st.dictionaries(st.sampled_from("abcdefxy"), st.integers(0, 5))


@given(promised(), seen, st.sets(st.sampled_from("abcdef")))
def test_after_a_recount_each_pod_is_charged_what_it_holds_or_was_promised(
    ledger: Ledger, counted: dict[str, int], gone: set[str]
) -> None:
    gone -= counted.keys()
    after = recounted(ledger, view(9, counted, gone))
    for uid in "abcdefxy":
        row, left = ledger.reservations.get(uid), after.reservations.get(uid)
        charged = counted.get(uid, 0) + (left.compute_reserved().get(GPU, 0) if left else 0)
        settled = row is None or uid in gone or (uid in counted and row.operation is Operation.CREATE)
        assert (left is None) is settled
        if row is not None and not settled:
            assert charged == max(counted.get(uid, 0), row.requested.get(GPU, 0))
    assert after.compute_charged().get(GPU, 0) == sum(
        counted.get(uid, 0)
        + (after.reservations[uid].compute_reserved().get(GPU, 0) if uid in after.reservations else 0)
        for uid in "abcdefxy"
    )


@given(promised(), seen, st.sets(st.sampled_from("abcdef")))
def test_to_count_twice_from_one_view_is_to_count_once(ledger: Ledger, counted: dict[str, int], gone: set[str]) -> None:
    once = recounted(ledger, view(9, counted, gone))
    assert recounted(once, view(9, counted, gone)) == once
