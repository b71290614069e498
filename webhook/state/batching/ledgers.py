"""The attempts of many callers, carried out by as few reads and writes as there can be.

Who comes first serves: applies the attempts of all who wait, in the order of their coming, to the newest ledger that
this process knows, writes once, and gives each its outcome. Who comes meanwhile waits for the next round. A serial
create so costs one write and no read, since what was written last is mostly still there; where it is not, the write
fails, and the ledger is read. What rests on no write of its own (a refusal, something free) holds only if the ledger is
like that now: the write of the same round proves it, or else a read.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import msgspec

from webhook.state.batching.desk import Desk
from webhook.state.batching.line import Waiter
from webhook.state.ledger import Ledger
from webhook.state.ports import (
    Attempt,
    BusyError,
    LedgerFullError,
    LedgerKey,
    LedgerStore,
    LostAnswerError,
    Step,
    StoreUnavailableError,
    T,
    Versioned,
    Write,
    WriteEnd,
    WriteObserver,
)

_MOST_DESKS = 10_000
_LONGEST_CALL = 5.0  # seconds that one call of the store may take


class _Round(msgspec.Struct, frozen=True):
    """What every attempt makes of a ledger, one after the other, and the ledger after all of them."""

    steps: Sequence[tuple[Waiter[Any], Step[Any]]]
    ledger: Ledger | None

    @property
    def writes(self) -> bool:
        return any(step.ledger is not None for _, step in self.steps)

    @property
    def removes(self) -> bool:
        """Whether the ledger may go: nobody who comes with the one that says so puts anything into it."""
        return not self.writes and any(step.removes for _, step in self.steps)


class BatchedLedgers:
    """`Ledgers` over a store that replicas share. `monotonic` gives seconds, by the clock of the deadlines.

    `observer` is told of every write; `waiting` is held while a caller waits for the store, or for others who do.
    """

    alone = False

    def __init__(
        self,
        store: LedgerStore,
        monotonic: Callable[[], float],
        observer: WriteObserver | None = None,
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._observer = observer
        self._waiting = waiting
        self._lock = Lock()
        self._desks: dict[LedgerKey, Desk] = {}

    def transact(self, key: LedgerKey, attempt: Attempt[T], deadline: float) -> T:
        """Carry the attempt out together with those of others, and give its outcome once that holds.

        Raises:
            BusyError: others were in the way until the deadline, the store has too much to do, or the ledger is full.
            StoreUnavailableError: the store is out of reach.
        """
        desk = self._desk(key)
        if (refusal := desk.recalled(attempt, self._monotonic())) is not None:
            return refusal.outcome
        mine = Waiter(attempt, deadline)
        with self._waiting():
            self._decide(key, desk, mine)
        return mine.outcome()

    def _decide(self, key: LedgerKey, desk: Desk, mine: Waiter[Any]) -> None:
        try:
            if not desk.line.join(mine):
                mine.wait(mine.deadline - self._monotonic())
            while desk.line.serves(mine) and not mine.is_decided and self._monotonic() < mine.deadline:
                self._serve(key, desk, desk.line.waiting(), mine.deadline)
        finally:
            desk.line.leave(mine)

    def _desk(self, key: LedgerKey) -> Desk:
        """The ledger's own; of very many those unused the longest go. A line that is lost so only shares less."""
        with self._lock:
            desk = self._desks.pop(key) if key in self._desks else Desk()
            self._desks[key] = desk
            if len(self._desks) > _MOST_DESKS:
                del self._desks[next(iter(self._desks))]
        return desk

    def _serve(self, key: LedgerKey, desk: Desk, batch: Sequence[Waiter[Any]], deadline: float) -> None:
        """One try for all of them, with one read and one write at most. Who is not decided by it stays in line."""
        try:
            self._try(key, desk, batch, deadline)
        except LedgerFullError as error:
            if len(batch) == 1:
                desk.line.decide(batch[0], error)
                return
            for each in batch:  # one by one there may be room for some
                if not each.is_decided:
                    self._serve(key, desk, [each], deadline)
        except (BusyError, StoreUnavailableError) as error:
            desk.doubt()
            if self._monotonic() < deadline:  # else the server had too little time; others may have more
                _fail(desk, batch, error)
        except BaseException as error:
            desk.doubt()
            _fail(desk, batch, error if isinstance(error, Exception) else StoreUnavailableError("interrupted"))
            raise

    def _try(self, key: LedgerKey, desk: Desk, batch: Sequence[Waiter[Any]], deadline: float) -> None:
        begun = self._monotonic()
        is_live = not desk.may_write_blind(len(batch))
        if is_live:
            desk.read(found := self._store.read(key, self._patience(deadline)))
            batch = [each for each in batch if not _has_arrived(desk, each, found)]
        round_ = _applied(desk, batch)
        if round_.writes or round_.removes:
            change = self._write if round_.writes else self._remove
            if not change(key, desk, round_, deadline):
                return
            is_live = True
        if is_live:
            refused = [step.refused for _, step in round_.steps if step.refused is not None]
            desk.saw(begun, refused[0] if refused else None)
        for waiter, step in round_.steps:
            if step.removes and not round_.removes:
                continue  # others have just put something in
            if is_live or (step.sure and desk.is_fresh(begun)):
                desk.line.decide(waiter, step)
            else:
                desk.doubt()  # its outcome needs a look

    def _write(self, key: LedgerKey, desk: Desk, round_: _Round, deadline: float) -> bool:
        """Whether the ledger is stored; if not it must be read again: others wrote, or no answer came."""
        assert round_.ledger is not None  # noqa: S101  # the round writes
        desk.doubt()
        known = desk.known
        before, version = (known.ledger, known.version) if known else (None, None)
        begun, end = self._monotonic(), WriteEnd.FAILED
        try:
            version = self._store.write(key, round_.ledger, version, self._patience(deadline))
            end = WriteEnd.CONFLICT if version is None else WriteEnd.STORED
        except LostAnswerError:
            end = WriteEnd.LOST
            for waiter, step in round_.steps:
                if step.ledger is not None:
                    waiter.sent = step
            return False
        finally:
            if self._observer is not None:
                taken = self._monotonic() - begun
                self._observer.wrote(Write(key, before, round_.ledger, len(round_.steps), taken, end))
        if version is not None:
            desk.wrote(Versioned(round_.ledger, version))
        return version is not None

    def _remove(self, key: LedgerKey, desk: Desk, _round: _Round, deadline: float) -> bool:
        """Whether the ledger has gone; if not it must be read again."""
        desk.doubt()
        gone = desk.known is None or self._store.remove(key, desk.known, self._patience(deadline))
        if gone:
            desk.removed()
        return gone

    def _patience(self, deadline: float) -> float:
        return min(max(deadline - self._monotonic(), 0.0), _LONGEST_CALL)


def _has_arrived(desk: Desk, waiter: Waiter[Any], found: Versioned | None) -> bool:
    """Whether the ledger shows the waiter's write whose answer was lost (rule 1): then it is decided."""
    if waiter.sent is None or found is None or not waiter.attempt.is_in(found.ledger):
        return False
    desk.line.decide(waiter, waiter.sent)
    return True


def _applied(desk: Desk, batch: Sequence[Waiter[Any]]) -> _Round:
    ledger = desk.known.ledger if desk.known else None
    steps: list[tuple[Waiter[Any], Step[Any]]] = []
    for waiter in batch:
        try:
            step = waiter.attempt(ledger)
        except Exception as error:  # noqa: BLE001  # a fault of one attempt is told to its caller, and to no other
            desk.line.decide(waiter, error)
            continue
        steps.append((waiter, step))
        if step.ledger is not None:
            ledger = step.ledger
    return _Round(steps, ledger)


def _fail(desk: Desk, batch: Sequence[Waiter[Any]], error: Exception) -> None:
    for waiter in batch:
        desk.line.decide(waiter, error)
