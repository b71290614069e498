"""Sums of ledgers by cap, and the fullest ledgers."""

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.server.telemetry.ledger_metrics import (
    LabelledLedger,
    LedgerState,
    LedgerUtilization,
    find_fullest,
    sum_by_cap,
)
from tallygate.state.ledger.ledger import Ledger
from tests.state.ledger.ledger_builders import GPU, create_request, empty_ledger, expect_reserved, gpus


def label_ledger(ledger: Ledger, namespace: str = "team-a", cap: str = "gpus", age: float = 0.0) -> LabelledLedger:
    """Return a labelled ledger of a cap."""
    return LabelledLedger(cap, namespace, ledger, age)


def create_ledger(used_gpus: int, hard: int = 4) -> Ledger:
    """Return a ledger with this number of used GPUs."""
    return empty_ledger(hard, used=gpus(used_gpus))


def test_the_ledgers_of_a_cap_are_summed_over_namespaces() -> None:
    reserved = expect_reserved(create_ledger(1), create_request(new=2))
    sums = sum_by_cap(
        [
            label_ledger(reserved, age=3.0),
            label_ledger(create_ledger(3), "team-b", age=7.0),
            label_ledger(create_ledger(1), cap="others"),
        ]
    )
    found = sums["gpus"]
    assert found.amounts == {"hard": {GPU: 8}, "used": {GPU: 4}, "reserved": {GPU: 2}, "guaranteed_unspent": {}}
    assert (found.max_reservations, found.max_age) == (1, 7.0)
    assert sums["others"].amounts["used"] == {GPU: 1}


def test_a_ledger_is_available_full_exceeded_or_initializing() -> None:
    ledgers = [
        create_ledger(3),
        create_ledger(4),
        expect_reserved(create_ledger(3), create_request(new=1)),
        create_ledger(5),
        empty_ledger(initializer="n"),
    ]
    states = sum_by_cap(label_ledger(ledger, str(number)) for number, ledger in enumerate(ledgers))["gpus"].states
    assert states == {
        LedgerState.AVAILABLE: 1,
        LedgerState.FULL: 2,
        LedgerState.EXCEEDED: 1,
        LedgerState.INITIALIZING: 1,
    }


def test_a_limit_of_zero_makes_no_ledger_full() -> None:
    nothing = Ledger(Amounts({GPU: 0, "pods": 3}), used=Amounts({"pods": 1}))
    assert sum_by_cap([label_ledger(nothing)])["gpus"].states == {LedgerState.AVAILABLE: 1}
    assert find_fullest([label_ledger(nothing)], 3, 3) == [LedgerUtilization(1 / 3, "gpus", "pods", "team-a", "")]


def test_the_fullest_ledgers_of_each_cap_and_resource_are_found_and_no_empty_ones() -> None:
    ledgers = [label_ledger(create_ledger(used_gpus), f"team-{used_gpus}") for used_gpus in (0, 1, 2, 3)]
    found = find_fullest([*ledgers, label_ledger(create_ledger(2), "x", cap="others")], max_each=2, max_total=9)
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
def test_no_ledger_that_is_left_out_is_fuller(drawn: list[tuple[str, int, int]], each: int, most: int) -> None:
    ledgers = [label_ledger(create_ledger(used_gpus), f"team-{number}", cap) for cap, number, used_gpus in drawn]
    found = find_fullest(ledgers, each, most)
    assert len(found) <= most
    for cap in "abc":
        mine = sorted((full.ratio for full in found if full.cap == cap), reverse=True)
        every = sorted((t.ledger.used.get(GPU, 0) / 4 for t in ledgers if t.cap == cap), reverse=True)
        assert mine == every[: len(mine)]
        assert len(mine) <= each
