"""What every `Ledgers` must do, wherever it keeps them: run over memory here, over a cluster in e2e."""

# ruff: noqa: D102  # the names of the cases say it

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import uuid4

import pytest

from tests.state.attempts import GPU, Look, Remove, Take, bounded, room
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, Ledgers, TransitionResult

Opened = Callable[[LedgerKey, Ledger], None]
"""Makes a ledger be there, as this."""


def soon() -> float:
    """A deadline that a busy machine keeps."""
    return time.monotonic() + 60.0


class LedgersContract:
    """The cases; a subclass gives the fixtures `ledgers` and `opened`."""

    @pytest.fixture
    def key(self) -> LedgerKey:
        """A ledger of the case's own."""
        return LedgerKey(f"gpus-{uuid4().hex[:10]}", "team-a")

    def test_what_was_never_written_is_not_there(self, ledgers: Ledgers, key: LedgerKey) -> None:
        assert ledgers.transact(key, Look(), soon()) is None

    def test_what_was_written_is_read_again(self, ledgers: Ledgers, opened: Opened, key: LedgerKey) -> None:
        opened(key, room(5))
        assert ledgers.transact(key, Look(), soon()) == room(5)

    def test_an_attempt_that_writes_nothing_changes_nothing(
        self, ledgers: Ledgers, opened: Opened, key: LedgerKey
    ) -> None:
        opened(key, room(1))
        assert not ledgers.transact(key, Take("u1", 2), soon())
        assert ledgers.transact(key, Look(), soon()) == room(1)

    def test_ledgers_of_other_namespaces_and_caps_are_others(
        self, ledgers: Ledgers, opened: Opened, key: LedgerKey
    ) -> None:
        opened(key, room(1))
        assert ledgers.transact(LedgerKey(key.cap, "team-b"), Look(), soon()) is None
        assert ledgers.transact(LedgerKey(key.cap, ""), Look(), soon()) is None
        assert ledgers.transact(LedgerKey(f"{key.cap}0", key.namespace), Look(), soon()) is None

    def test_a_ledger_that_is_taken_away_is_not_there_and_another_may_come(
        self, ledgers: Ledgers, opened: Opened, key: LedgerKey
    ) -> None:
        opened(key, room(3))
        assert ledgers.transact(key, Remove(), soon())
        assert ledgers.transact(key, Look(), soon()) is None
        opened(key, room(2))
        assert ledgers.transact(key, Take("u1", 2), soon())
        assert not ledgers.transact(key, Remove(), soon())
        assert ledgers.transact(key, Look(), soon()) is not None

    def test_of_many_threads_exactly_as_many_take_as_there_is_room(
        self, ledgers: Ledgers, opened: Opened, key: LedgerKey
    ) -> None:
        opened(key, room(50))
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda each: ledgers.transact(key, Take(f"u{each}"), soon()), range(100)))
        ledger = ledgers.transact(key, Look(), soon())
        assert sum(taken) == 50
        assert ledger is not None
        assert {int(uid[1:]) for uid in ledger.reservations} == {each for each, took in enumerate(taken) if took}
        assert ledger.compute_charged()[GPU] == 50

    def test_room_that_comes_back_can_be_taken_a_second_after_a_refusal(
        self, ledgers: Ledgers, opened: Opened, key: LedgerKey
    ) -> None:
        opened(key, room(1))
        assert not ledgers.transact(key, Take("u1", 2), soon())
        ledgers.transact(key, bounded(2), soon())
        assert ledgers.transact(key, Take("u2", 2), soon())

    def test_an_attempt_that_crashes_harms_nobody_else(self, ledgers: Ledgers, opened: Opened, key: LedgerKey) -> None:
        opened(key, room(50))
        crash = Crashing()

        def take(each: int) -> bool:
            if each % 5:
                return ledgers.transact(key, Take(f"u{each}"), soon())
            with pytest.raises(ZeroDivisionError):
                ledgers.transact(key, crash, soon())
            return False

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(take, range(50))) == 40


class Crashing:
    """A fault of ours."""

    def __init__(self) -> None:
        self._calls = count()

    def __call__(self, _: Ledger | None) -> TransitionResult[bool]:
        """Crash, at the first call and at all others."""
        raise ZeroDivisionError(next(self._calls))

    def is_stored_in(self, _: Ledger) -> bool:
        """Never."""
        return False
