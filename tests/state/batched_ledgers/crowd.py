"""Callers in threads of their own, who come while a call of the store is under way."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tests.state.attempts import Put, room
from tests.state.batched_ledgers.script import KEY, Clock, Happening, ScriptedStore, nothing
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.ports import Transition

T = TypeVar("T")

_LOOKS = 2  # at the clock, before a caller waits
_PATIENCE = 30.0  # seconds, for a thread to get there


class Crowd:
    """A scripted store, the ledgers over it, and who comes to them."""

    def __init__(self, store: ScriptedStore) -> None:
        self.store = store
        self.clock = Clock()
        self.ledgers = BatchedLedgers(store, self.clock)
        self.came: list[Future[Any]] = []
        self._pool = ThreadPoolExecutor(64)

    def ask(self, attempt: Transition[T], deadline: float = 10.0) -> T:
        """Come and wait."""
        return self.ledgers.transact(KEY, attempt, deadline)

    def come(self, *attempts: Transition[Any], deadline: float = 10.0) -> None:
        """Let them come, each in a thread, one after the other; return once all stand in line."""
        while self.clock.looks.acquire(blocking=False):
            pass
        for attempt in attempts:
            self.came.append(self._pool.submit(self.ask, attempt, deadline))
            for _ in range(_LOOKS):
                assert self.clock.looks.acquire(timeout=_PATIENCE)

    def outcomes(self) -> list[Any]:
        """How it ended for those who came: what they got, or the failure."""
        ended = [future.exception(_PATIENCE) or future.result() for future in self.came]
        self._pool.shutdown()
        return ended


Come = Callable[[Crowd], None]


def crowd(ledger: int | None = 4, reads: tuple[Happening, ...] = (), writes: tuple[Happening, ...] = ()) -> Crowd:
    """A ledger with room for so many GPUs, and what happens to it."""
    return Crowd(ScriptedStore(None if ledger is None else room(ledger), reads, writes))


def crowded(first: Come, ledger: int = 4, writes: tuple[Happening, ...] = ()) -> Crowd:
    """A ledger that is read already, and whose first write is under way while others come."""
    found = crowd(ledger, writes=(nothing, lambda _: first(found), *writes))
    assert found.ask(Put(lambda before: before or room(ledger))) is None
    found.store.calls.clear()
    return found
