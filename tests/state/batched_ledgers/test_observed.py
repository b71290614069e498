"""Every write of a batched ledger is told to who observes: how it ended, for how many, and how long it took."""

import pytest

from tests.state.attempts import Look, Put, Take, room
from tests.state.batched_ledgers.crowd import Crowd
from tests.state.batched_ledgers.script import (
    KEY,
    Clock,
    Happening,
    ScriptedStore,
    done,
    down,
    lost,
    nothing,
    throttled,
)
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.ports import LedgerWrite, RetryLaterError, StoreUnavailableError, WriteResult


class Observed:
    """Ledgers over a scripted store, and what was told of its writes."""

    def __init__(self, *writes: Happening) -> None:
        self.writes: list[LedgerWrite] = []
        self.clock = Clock()
        self.store = ScriptedStore(room(4), writes=writes)
        self.ledgers = BatchedLedgers(self.store, self.clock, self)

    def record_write(self, write: LedgerWrite) -> None:
        """Keep it."""
        self.writes.append(write)

    def ends(self) -> list[WriteResult]:
        """How each ended."""
        return [write.result for write in self.writes]

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.seconds += seconds


def test_a_write_is_told_with_its_ledger_and_time() -> None:
    observed = Observed(lambda _: observed.wait(0.25))
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.writes == [LedgerWrite(KEY, room(4), observed.store.now, 1, 0.25, WriteResult.STORED)]


def test_who_shares_a_write_is_counted() -> None:
    writes: list[LedgerWrite] = []

    class Teller:
        def record_write(self, write: LedgerWrite) -> None:
            writes.append(write)

    store = ScriptedStore(room(9), writes=[nothing, lambda _: asked.come(*(Take(f"u{each}") for each in range(1, 6)))])
    asked = Crowd(store)
    asked.ledgers = BatchedLedgers(store, asked.clock, Teller())
    asked.ask(Put(lambda before: before or room(9)))
    assert asked.ask(Take("u0"))
    assert asked.outcomes() == [True] * 5
    assert [write.callers for write in writes] == [1, 1, 5]


def test_what_is_only_read_is_no_write() -> None:
    observed = Observed()
    observed.ledgers.transact(KEY, Look(), 10.0)
    assert not observed.ledgers.transact(KEY, Take("u1", 5), 10.0)
    assert observed.writes == []


def test_a_race_that_is_lost_is_a_conflict_and_then_another_write() -> None:
    observed = Observed(lambda store: store.change(room(5)))
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.ends() == [WriteResult.CONFLICT, WriteResult.STORED]


@pytest.mark.parametrize(("happening", "ends"), [(done, ["unknown"]), (lost, ["unknown", "stored"])])
def test_an_answer_that_is_lost_is_told_whether_it_was_done_or_not(happening: Happening, ends: list[str]) -> None:
    observed = Observed(happening)
    assert observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.ends() == ends


@pytest.mark.parametrize(("happening", "error"), [(down, StoreUnavailableError), (throttled, RetryLaterError)])
def test_a_write_that_is_refused_has_failed(happening: Happening, error: type[Exception]) -> None:
    observed = Observed(happening)
    with pytest.raises(error):
        observed.ledgers.transact(KEY, Take("u1"), 10.0)
    assert observed.ends() == [WriteResult.FAILED]
