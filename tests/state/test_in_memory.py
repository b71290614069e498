"""Ledgers in memory."""

import pytest

from tests.state.attempts import Look, Put, Take, room
from tests.state.contract import LedgersContract, Opened, soon
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult


class TestMemoryLedgers(LedgersContract):
    """They do as all ledgers do."""

    @pytest.fixture
    def ledgers(self) -> MemoryLedgers:
        """None is there."""
        return MemoryLedgers()

    @pytest.fixture
    def opened(self, ledgers: MemoryLedgers) -> Opened:
        """By a write, as anybody's."""

        def write(key: LedgerKey, ledger: Ledger) -> None:
            ledgers.transact(key, Put(lambda _: ledger), soon())

        return write


def test_they_may_be_there_from_the_start() -> None:
    key = LedgerKey("gpus-0123456789", "team-a")
    assert MemoryLedgers({key: room(3)}).transact(key, Look(), 0.0) == room(3)


def test_nobody_else_keeps_them() -> None:
    assert MemoryLedgers().is_standalone


def test_every_change_is_told_with_what_was_there_before() -> None:
    writes: list[LedgerWrite] = []

    class Teller:
        def record_write(self, write: LedgerWrite) -> None:
            writes.append(write)

    key = LedgerKey("gpus-0123456789", "team-a")
    ledgers = MemoryLedgers(observer=Teller())
    ledgers.transact(key, Put(lambda _: room(1)), 0.0)
    ledgers.transact(key, Take("u1", 2), 0.0)
    ledgers.transact(key, Take("u1", 1), 0.0)
    after = ledgers.transact(key, Look(), 0.0)
    assert after is not None
    stored = WriteResult.STORED
    assert writes == [LedgerWrite(key, None, room(1), 1, 0.0, stored), LedgerWrite(key, room(1), after, 1, 0.0, stored)]
