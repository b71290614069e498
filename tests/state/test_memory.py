"""Ledgers in memory."""

import pytest

from tests.state.attempts import Look, Put, room
from tests.state.contract import LedgersContract, Opened, soon
from webhook.state.ledger import Ledger
from webhook.state.memory import MemoryLedgers
from webhook.state.ports import LedgerKey


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
    assert MemoryLedgers().alone
