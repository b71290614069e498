"""Ledgers in memory."""

import pytest

from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteResult
from tests.state.contract import LedgerCreator, LedgersContract, compute_deadline
from tests.state.transitions import Put, Read, Take, free_ledger


class TestMemoryLedgers(LedgersContract):
    """The contract of ledgers in memory."""

    @pytest.fixture
    def ledgers(self) -> MemoryLedgers:
        """Return ledgers without content."""
        return MemoryLedgers()

    @pytest.fixture
    def create_ledger(self, ledgers: MemoryLedgers) -> LedgerCreator:
        """Return a function that writes a ledger as any caller does."""

        def write(key: LedgerKey, ledger: Ledger) -> None:
            ledgers.transact(key, Put(lambda _: ledger), compute_deadline())

        return write


def test_ledgers_can_exist_from_the_start() -> None:
    key = LedgerKey("gpus-0123456789", "team-a")
    assert MemoryLedgers({key: free_ledger(3)}).transact(key, Read(), 0.0) == free_ledger(3)


def test_memory_ledgers_are_standalone() -> None:
    assert MemoryLedgers().is_standalone


def test_every_write_is_observed_with_the_ledger_before_it() -> None:
    writes: list[LedgerWrite] = []

    class Observer:
        def record_write(self, write: LedgerWrite) -> None:
            writes.append(write)

    key = LedgerKey("gpus-0123456789", "team-a")
    ledgers = MemoryLedgers(observer=Observer())
    ledgers.transact(key, Put(lambda _: free_ledger(1)), 0.0)
    ledgers.transact(key, Take("u1", 2), 0.0)
    ledgers.transact(key, Take("u1", 1), 0.0)
    after = ledgers.transact(key, Read(), 0.0)
    assert after is not None
    stored = WriteResult.STORED
    assert writes == [
        LedgerWrite(key, None, free_ledger(1), 1, 0.0, stored),
        LedgerWrite(key, free_ledger(1), after, 1, 0.0, stored),
    ]
