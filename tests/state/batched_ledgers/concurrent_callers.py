"""Callers in their own threads, which start while a call of the store is under way."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.ports import Transition
from tests.state.batched_ledgers.scripted_store import KEY, Clock, Effect, ScriptedStore, do_nothing
from tests.state.transitions import Put, free_ledger

T = TypeVar("T")

_CLOCK_READS = 2  # of a caller, before it waits
_THREAD_TIMEOUT = 30.0  # seconds


class ConcurrentCallers:
    """A scripted store, batched ledgers over it, and the callers of them."""

    def __init__(self, store: ScriptedStore) -> None:
        self.store = store
        self.clock = Clock()
        self.ledgers = BatchedLedgers(store, self.clock)
        self.futures: list[Future[Any]] = []
        self._pool = ThreadPoolExecutor(64)

    def transact(self, attempt: Transition[T], deadline: float = 10.0) -> T:
        """Apply a transition and wait for its outcome."""
        return self.ledgers.transact(KEY, attempt, deadline)

    def start(self, *attempts: Transition[Any], deadline: float = 10.0) -> None:
        """Start a thread for each transition, one after the other, and return once all wait in the queue."""
        while self.clock.reads.acquire(blocking=False):
            pass
        for attempt in attempts:
            self.futures.append(self._pool.submit(self.transact, attempt, deadline))
            for _ in range(_CLOCK_READS):
                assert self.clock.reads.acquire(timeout=_THREAD_TIMEOUT)

    def collect_results(self) -> list[Any]:
        """Return the outcome or the exception of each started transition."""
        ended = [future.exception(_THREAD_TIMEOUT) or future.result() for future in self.futures]
        self._pool.shutdown()
        return ended


Start = Callable[[ConcurrentCallers], None]


def create_callers(
    ledger: int | None = 4, reads: tuple[Effect, ...] = (), writes: tuple[Effect, ...] = ()
) -> ConcurrentCallers:
    """Return callers of a ledger with the given hard limit, and the effects on its reads and writes."""
    return ConcurrentCallers(ScriptedStore(None if ledger is None else free_ledger(ledger), reads, writes))


def create_busy_callers(first: Start, ledger: int = 4, writes: tuple[Effect, ...] = ()) -> ConcurrentCallers:
    """Return callers of a cached ledger; `first` runs while its next write is under way."""
    found = create_callers(ledger, writes=(do_nothing, lambda _: first(found), *writes))
    assert found.transact(Put(lambda before: before or free_ledger(ledger))) is None
    found.store.calls.clear()
    return found
