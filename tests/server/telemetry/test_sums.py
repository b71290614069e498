"""Ledgers added up, and the fullest of them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.state.ledger.ledgers import GPU, empty, gpus, granted, wants
from webhook.accounting.amounts import Amounts
from webhook.server.telemetry.ledger_metrics import (
    LabelledLedger,
    LedgerState,
    LedgerUtilization,
    find_fullest,
    sum_by_cap,
)
from webhook.state.ledger.ledger import Ledger


def told(ledger: Ledger, namespace: str = "team-a", cap: str = "gpus", age: float = 0.0) -> LabelledLedger:
    """A ledger of a cap."""
    return LabelledLedger(cap, namespace, ledger, age)


def holds(held: int, hard: int = 4) -> Ledger:
    """Pods hold so many GPUs."""
    return empty(hard, used=gpus(held))


def test_the_ledgers_of_a_cap_are_added_up_over_their_namespaces() -> None:
    promised = granted(holds(1), wants(new=2))
    sums = sum_by_cap([told(promised, age=3.0), told(holds(3), "team-b", age=7.0), told(holds(1), cap="others")])
    found = sums["gpus"]
    assert found.amounts == {"hard": {GPU: 8}, "used": {GPU: 4}, "reserved": {GPU: 2}}
    assert (found.reservations, found.max_reservations, found.max_age) == (1, 1, 7.0)
    assert sums["others"].amounts["used"] == {GPU: 1}


def test_a_ledger_has_room_or_is_full_or_over_or_promises_nothing_yet() -> None:
    ledgers = [holds(3), holds(4), granted(holds(3), wants(new=1)), holds(5), empty(initializer="n")]
    states = sum_by_cap(told(ledger, str(number)) for number, ledger in enumerate(ledgers))["gpus"].states
    assert states == {
        LedgerState.AVAILABLE: 1,
        LedgerState.FULL: 2,
        LedgerState.EXCEEDED: 1,
        LedgerState.INITIALIZING: 1,
    }


def test_what_may_not_be_held_at_all_makes_no_ledger_full() -> None:
    nothing = Ledger(Amounts({GPU: 0, "pods": 3}), used=Amounts({"pods": 1}))
    assert sum_by_cap([told(nothing)])["gpus"].states == {LedgerState.AVAILABLE: 1}
    assert find_fullest([told(nothing)], 3, 3) == [LedgerUtilization(1 / 3, "gpus", "pods", "team-a")]


def test_the_fullest_of_each_cap_and_resource_are_told_and_none_that_is_empty() -> None:
    ledgers = [told(holds(held), f"team-{held}") for held in (0, 1, 2, 3)]
    found = find_fullest([*ledgers, told(holds(2), "x", cap="others")], max_each=2, max_total=9)
    assert [(each.cap, each.namespace, each.ratio) for each in found] == [
        ("gpus", "team-3", 0.75),
        ("others", "x", 0.5),
        ("gpus", "team-2", 0.5),
    ]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 9)), max_size=40),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_no_more_are_told_than_asked_for_and_none_that_is_left_out_is_fuller(
    drawn: list[tuple[str, int, int]], each: int, most: int
) -> None:
    ledgers = [told(holds(held), f"team-{number}", cap) for cap, number, held in drawn]
    found = find_fullest(ledgers, each, most)
    assert len(found) <= most
    for cap in "abc":
        mine = sorted((full.ratio for full in found if full.cap == cap), reverse=True)
        every = sorted((t.ledger.used.get(GPU, 0) / 4 for t in ledgers if t.cap == cap), reverse=True)
        assert mine == every[: len(mine)]
        assert len(mine) <= each
