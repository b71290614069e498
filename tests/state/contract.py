"""The contract of `Ledgers`: run with ledgers in memory here, and with a cluster in e2e."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import uuid4

import pytest

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, Ledgers, TransitionResult
from tests.state.transitions import GPU, Read, Remove, Take, free_ledger, set_limit

LedgerCreator = Callable[[LedgerKey, Ledger], None]
"""A function that stores a ledger under a key."""


def compute_deadline() -> float:
    """Return a deadline that a busy machine keeps, in monotonic seconds."""
    return time.monotonic() + 60.0


class LedgersContract:
    """The cases; a subclass provides the fixtures `ledgers` and `create_ledger`."""

    @pytest.fixture
    def key(self) -> LedgerKey:
        """Return the key of a ledger for this case alone."""
        return LedgerKey(f"gpus-{uuid4().hex[:10]}", "team-a")

    def test_a_ledger_that_was_never_written_is_missing(self, ledgers: Ledgers, key: LedgerKey) -> None:
        assert ledgers.transact(key, Read(), compute_deadline()) is None

    def test_a_ledger_is_read_as_it_was_written(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(5))
        assert ledgers.transact(key, Read(), compute_deadline()) == free_ledger(5)

    def test_a_transition_that_writes_nothing_changes_nothing(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(1))
        assert not ledgers.transact(key, Take("u1", 2), compute_deadline())
        assert ledgers.transact(key, Read(), compute_deadline()) == free_ledger(1)

    def test_other_namespaces_and_caps_have_other_ledgers(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(1))
        assert ledgers.transact(LedgerKey(key.cap, "team-b"), Read(), compute_deadline()) is None
        assert ledgers.transact(LedgerKey(key.cap, ""), Read(), compute_deadline()) is None
        assert ledgers.transact(LedgerKey(f"{key.cap}0", key.namespace), Read(), compute_deadline()) is None

    def test_a_removed_ledger_is_missing_and_can_be_created_again(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(3))
        assert ledgers.transact(key, Remove(), compute_deadline())
        assert ledgers.transact(key, Read(), compute_deadline()) is None
        create_ledger(key, free_ledger(2))
        assert ledgers.transact(key, Take("u1", 2), compute_deadline())
        assert not ledgers.transact(key, Remove(), compute_deadline())
        assert ledgers.transact(key, Read(), compute_deadline()) is not None

    def test_many_threads_reserve_exactly_the_hard_limit(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(50))
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda each: ledgers.transact(key, Take(f"u{each}"), compute_deadline()), range(100)))
        ledger = ledgers.transact(key, Read(), compute_deadline())
        assert sum(taken) == 50
        assert ledger is not None
        assert {int(uid[1:]) for uid in ledger.reservations} == {each for each, took in enumerate(taken) if took}
        assert ledger.compute_charged()[GPU] == 50

    def test_a_raised_limit_can_be_reserved_after_a_rejection(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(1))
        assert not ledgers.transact(key, Take("u1", 2), compute_deadline())
        ledgers.transact(key, set_limit(2), compute_deadline())
        assert ledgers.transact(key, Take("u2", 2), compute_deadline())

    def test_a_transition_that_crashes_harms_no_other_caller(
        self, ledgers: Ledgers, create_ledger: LedgerCreator, key: LedgerKey
    ) -> None:
        create_ledger(key, free_ledger(50))
        crash = Crashing()

        def take(each: int) -> bool:
            if each % 5:
                return ledgers.transact(key, Take(f"u{each}"), compute_deadline())
            with pytest.raises(ZeroDivisionError):
                ledgers.transact(key, crash, compute_deadline())
            return False

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(take, range(50))) == 40


class Crashing:
    """A transition with a programming error."""

    def __init__(self) -> None:
        self._calls = count()

    def __call__(self, _: Ledger | None) -> TransitionResult[bool]:
        """Fail at every call."""
        raise ZeroDivisionError(next(self._calls))

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: nothing is written."""
        return False
