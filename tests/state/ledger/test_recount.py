"""Rule 4: recount, from reserved to used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.recount import StaleReason, StaleSnapshot, _select_remaining, recount
from tests.calls import count_calls
from tests.state.ledger.ledger_builders import (
    GPU,
    IPS,
    NAMES,
    create_request,
    create_snapshot,
    empty_ledger,
    expect_recount,
    expect_reserved,
    gpus,
)


def test_a_stored_creation_is_used_instead_of_reserved() -> None:
    ledger = expect_recount(expect_reserved(empty_ledger(), create_request(new=3)), create_snapshot(5, {"u1": 3}))
    assert (ledger.used, dict(ledger.reservations), ledger.pods_revision) == (gpus(3), {}, 5)


def test_a_creation_that_ended_before_the_count_is_not_charged() -> None:
    assert not expect_recount(
        expect_reserved(empty_ledger(), create_request(new=3)), create_snapshot(5, {"u1": 0})
    ).compute_charged()


def test_a_creation_that_is_not_stored_yet_stays_reserved() -> None:
    assert expect_recount(
        expect_reserved(empty_ledger(), create_request(new=3)), create_snapshot(5, {"w": 1})
    ).compute_charged() == gpus(4)


def test_a_change_stays_reserved_above_the_counted_amount() -> None:
    ledger = expect_reserved(empty_ledger(used=gpus(1)), create_request(new=3, old=1))
    ledger = expect_recount(ledger, create_snapshot(5, {"u1": 2}))
    assert ledger.reservations["u1"].counted == gpus(2)
    assert ledger.compute_charged() == gpus(3)


def test_a_stored_change_stays_reserved_since_another_may_follow() -> None:
    ledger = expect_recount(
        expect_reserved(empty_ledger(used=gpus(1)), create_request(new=3, old=1)), create_snapshot(5, {"u1": 3})
    )
    assert ledger.reservations["u1"].requested == gpus(3)
    assert ledger.compute_charged() == gpus(3)


def test_a_change_of_a_pod_that_is_no_longer_counted_is_charged_in_full() -> None:
    ledger = expect_recount(
        expect_reserved(empty_ledger(used=gpus(2)), create_request(new=3, old=2)), create_snapshot(5, {})
    )
    assert not ledger.reservations["u1"].counted
    assert ledger.compute_charged() == gpus(3)


@pytest.mark.parametrize("old", [0, 1])
def test_a_reservation_whose_pod_was_deleted_is_removed(old: int) -> None:
    ledger = expect_reserved(empty_ledger(used=gpus(old)), create_request(new=3, old=old))
    assert not expect_recount(ledger, create_snapshot(5, {}, deleted={"u1"})).compute_charged()


def test_a_reservation_is_untouched_by_the_deletion_of_another_pod() -> None:
    assert expect_recount(
        expect_reserved(empty_ledger(), create_request()), create_snapshot(5, {}, deleted={"u2"})
    ).reservations


def test_a_snapshot_of_the_same_revision_can_recount() -> None:
    ledger = expect_recount(empty_ledger(), create_snapshot(5, {"u1": 1}))
    assert expect_recount(
        expect_reserved(ledger, create_request("u2", by="n2")), create_snapshot(5, {"u1": 1}, deleted={"u2"})
    ).compute_charged() == gpus(1)


def test_a_snapshot_of_older_pods_is_stale() -> None:
    assert recount(empty_ledger(pods_revision=6), create_snapshot(5, {})) == StaleSnapshot(StaleReason.PODS)


def test_a_snapshot_of_other_and_older_namespaces_is_stale() -> None:
    assert recount(
        empty_ledger(namespaces_revision=6, namespaces_hash="a"), create_snapshot(5, {}, ns_revision=5)
    ) == StaleSnapshot(StaleReason.NAMESPACES)


def test_an_older_snapshot_of_the_same_namespaces_recounts_and_the_ledger_becomes_no_older() -> None:
    ledger = expect_recount(
        empty_ledger(namespaces_revision=6, namespaces_hash="a"),
        create_snapshot(5, {"u1": 2}, ns_revision=5, members="a"),
    )
    assert (ledger.compute_charged(), ledger.namespaces_revision) == (gpus(2), 6)


def test_a_snapshot_without_a_counted_resource_is_stale() -> None:
    assert recount(empty_ledger(), create_snapshot(5, {}, names=frozenset({GPU}))) == StaleSnapshot(
        StaleReason.RESOURCES
    )


def test_a_snapshot_can_count_more_resources_and_other_namespaces() -> None:
    ledger = expect_recount(
        empty_ledger(resources=frozenset({IPS}), namespaces_hash="a"),
        create_snapshot(5, {"u1": 2}, ns_revision=3, members="ab"),
    )
    assert (ledger.resources, ledger.namespaces_hash, ledger.namespaces_revision) == (NAMES, "ab", 3)
    assert ledger.compute_charged() == gpus(2)


@st.composite
def draw_ledgers(draw: st.DrawFn) -> Ledger:
    """Draw ledgers with reservations of both operations."""
    ledger = empty_ledger(99)
    for number, uid in enumerate("abcdef"):
        kind = draw(st.sampled_from([None, Operation.CREATE, Operation.UPDATE]))
        if kind is not None:
            old = draw(st.integers(0, 3)) if kind is Operation.UPDATE else 0
            new = old + draw(st.integers(1, 3))
            ledger = expect_reserved(ledger, create_request(uid, new, old, by=str(number), kind=kind, hard=99))
    return ledger


USED_BY_POD = st.dictionaries(st.sampled_from("abcdefxy"), st.integers(0, 5))


@given(draw_ledgers(), USED_BY_POD, st.sets(st.sampled_from("abcdef")))
def test_a_recount_charges_each_pod_its_used_or_reserved_amount(
    ledger: Ledger, counted: dict[str, int], deleted: set[str]
) -> None:
    deleted -= counted.keys()
    after = expect_recount(ledger, create_snapshot(9, counted, deleted))
    for uid in "abcdefxy":
        reservation, remaining = ledger.reservations.get(uid), after.reservations.get(uid)
        charged = counted.get(uid, 0) + (remaining.compute_reserved().get(GPU, 0) if remaining else 0)
        settled = (
            reservation is None or uid in deleted or (uid in counted and reservation.operation is Operation.CREATE)
        )
        assert (remaining is None) is settled
        if reservation is not None and not settled:
            assert charged == max(counted.get(uid, 0), reservation.requested.get(GPU, 0))
    assert after.compute_charged().get(GPU, 0) == sum(
        counted.get(uid, 0)
        + (after.reservations[uid].compute_reserved().get(GPU, 0) if uid in after.reservations else 0)
        for uid in "abcdefxy"
    )


@given(draw_ledgers(), USED_BY_POD, st.sets(st.sampled_from("abcdef")))
def test_a_second_recount_from_the_same_snapshot_changes_nothing(
    ledger: Ledger, counted: dict[str, int], deleted: set[str]
) -> None:
    once = expect_recount(ledger, create_snapshot(9, counted, deleted))
    assert expect_recount(once, create_snapshot(9, counted, deleted)) == once


@given(draw_ledgers(), USED_BY_POD, st.sets(st.sampled_from("abcdef")), st.none() | st.sampled_from("xyz"))
def test_a_recount_changes_what_a_look_at_every_reservation_changes(
    ledger: Ledger, counted: dict[str, int], deleted: set[str], holder: str | None
) -> None:
    snapshot = create_snapshot(9, counted, deleted - counted.keys())
    names = {(each.namespace, each.name): holder for each in ledger.reservations.values()} if holder else {}
    snapshot = structs.replace(snapshot, holders=names)
    expected = dict(_select_remaining(ledger.reservations, snapshot))
    assert expect_recount(ledger, snapshot).reservations == expected


def test_the_work_of_a_recount_grows_with_what_it_changes_and_not_with_the_reservations() -> None:
    def count(number: int) -> int:
        reserved = expect_reserved(empty_ledger(), create_request()).reservations["u1"]
        ledger = empty_ledger().with_reservations(
            (f"u{each}", structs.replace(reserved, name=f"p{each}")) for each in range(number)
        )
        return count_calls(lambda: recount(ledger, create_snapshot(9, {"u1": 2}, {"u2"})))

    assert count(2_000) < count(20) + 100
