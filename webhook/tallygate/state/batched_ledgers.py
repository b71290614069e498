"""Ledgers over a store that replicas share: the transitions of many callers in few reads and writes.

The first caller of a ledger becomes the processor. It applies the transitions of all waiting callers, in the order of
their arrival, to the newest ledger that this process knows. It writes once, and gives each caller its outcome. Callers
that arrive meanwhile wait for the next batch. A serial create therefore costs one write and no read, since the last
written ledger is mostly still stored; if it is not, the write fails, and the processor reads the ledger.

An outcome without a write of its own (a rejection, a charge that needs no write) is valid only if the ledger is
current: the write of the same batch proves that, or otherwise a read.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from threading import Event, Lock
from typing import Any, Generic

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.state import ports
from tallygate.state.ledger.ledger import Ledger

_MAX_WAIT_SECONDS = 3600.0  # an Event accepts no infinite time


class Waiter(Generic[ports.T]):
    """A caller with a transition and a deadline.

    `sent_result` is the result of its transition in a write with an unknown outcome.
    """

    def __init__(self, transition: ports.Transition[ports.T], deadline: float) -> None:
        self.transition = transition
        self.deadline = deadline
        self.sent_result: ports.TransitionResult[ports.T] | None = None
        self.wake_event = Event()
        self._result: ports.TransitionResult[ports.T] | None = None
        self._failure: Exception | None = None

    def wait(self, timeout: float) -> None:
        """Wait until the transition is completed, it is this caller's turn to process, or the timeout has passed."""
        self.wake_event.wait(min(max(timeout, 0.0), _MAX_WAIT_SECONDS))

    def complete(self, result: ports.TransitionResult[ports.T] | Exception) -> None:
        """Set the final result or failure."""
        if isinstance(result, Exception):
            self._failure = result
        else:
            self._result = result

    @property
    def is_completed(self) -> bool:
        """True once the transition has a result or a failure."""
        return self._result is not None or self._failure is not None

    def get_outcome(self) -> ports.T:
        """Return the outcome of the transition, or raise its failure.

        Raises:
            RetryLaterError: if the transition was not completed in time.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise ports.RetryLaterError("the ledger of a cap is busy: others were in the way until the deadline")
        return self._result.outcome


class WaitQueue:
    """The callers that wait for one ledger, in the order of their arrival, and the processor among them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiters: list[Waiter[Any]] = []
        self.processor: Waiter[Any] | None = None

    def join(self, waiter: Waiter[Any]) -> bool:
        """Add a waiter, and return whether it is the processor at once."""
        with self._lock:
            self._waiters.append(waiter)
            if self.processor is None:
                self.processor = waiter
            return self.processor is waiter

    def list_waiters(self) -> list[Waiter[Any]]:
        """Return the waiters that are not completed, including the processor."""
        with self._lock:
            return list(self._waiters)

    def complete(self, waiter: Waiter[Any], result: ports.TransitionResult[Any] | Exception) -> None:
        """Remove a waiter and complete it; do nothing if it has already left."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                waiter.complete(result)
                waiter.wake_event.set()

    def leave(self, waiter: Waiter[Any]) -> None:
        """Remove a waiter, completed or not. After the processor, the waiter with the latest deadline processes."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self.processor is waiter:
                self.processor = max(self._waiters, key=lambda each: each.deadline, default=None)
                if self.processor is not None:
                    self.processor.wake_event.set()


_REJECTION_CACHE_SECONDS = 1.0  # rule 9
_FRESH_SECONDS = 10.0
_MAX_WRITES_WITHOUT_READ = 20
_MAX_CACHED_LEDGERS = 10_000
_MAX_CALL_SECONDS = 5.0  # for one call of the store


@dataclass(frozen=True, slots=True)
class _CachedRejection:
    """The amounts of a rejection, the time at which the ledger was confirmed, and the newest ledger known since."""

    confirmed_at: float
    rejected_amounts: Amounts
    ledger: Ledger | None


class CachedLedger:
    """The wait queue of one ledger, its newest known version and its last rejection; the processor changes them."""

    def __init__(self) -> None:
        self.queue = WaitQueue()
        self.latest: ports.VersionedLedger | None = None
        self._is_stale = True
        self._is_contested = False
        self._writes_since_read = 0
        self._confirmed_at = -inf
        self._rejection: _CachedRejection | None = None

    def may_write_without_read(self, callers: int) -> bool:
        """Return whether the processor may write without a read, for this number of waiting callers.

        If other replicas have just written, they most likely have again: read first. And under high load one write
        comes so soon after the other that another replica, which has to read before it writes, would never succeed
        between them.
        """
        return not (
            self._is_stale
            or self._is_contested
            or (callers > 1 and self._writes_since_read >= _MAX_WRITES_WITHOUT_READ)
        )

    def is_fresh(self, now: float) -> bool:
        """Return whether the ledger was confirmed in the last 10 s.

        That is sufficient for outcomes that accept a cached ledger, but not for an unlimited time.
        """
        return now - self._confirmed_at <= _FRESH_SECONDS

    def mark_stale(self) -> None:
        """Mark the ledger as possibly changed in the store."""
        self._is_stale = True

    def record_read(self, latest: ports.VersionedLedger | None) -> None:
        self._is_contested = self.latest is not None and (latest is None or latest.version != self.latest.version)
        self._writes_since_read = 0
        self.latest = latest

    def record_write(self, latest: ports.VersionedLedger) -> None:
        """Record the ledger that this process wrote."""
        self._writes_since_read += 1
        self.latest = latest

    def confirm(self, confirmed_at: float, rejected_amounts: Amounts | None) -> None:
        """Record that the ledger was current after `confirmed_at`, and the amounts that it rejected."""
        self._is_stale, self._confirmed_at = False, confirmed_at
        ledger = self.latest.ledger if self.latest else None
        if rejected_amounts is not None:
            self._rejection = _CachedRejection(confirmed_at, rejected_amounts, ledger)
        elif self._rejection is not None:
            self._rejection = replace(self._rejection, ledger=ledger)

    def reuse_rejection(
        self, transition: ports.Transition[ports.T], now: float
    ) -> ports.TransitionResult[ports.T] | None:
        """Return a rejection without a read, if at least the same amounts were rejected a moment ago (rule 9).

        The result is that of this transition on the newest known ledger; None if that one has enough free.
        """
        rejection = self._rejection
        if rejection is None or now - rejection.confirmed_at > _REJECTION_CACHE_SECONDS:
            return None
        result = transition(rejection.ledger)
        if result.rejected_amounts is None or rejection.rejected_amounts.find_shortfall(result.rejected_amounts):
            return None
        return result


class _Batch(msgspec.Struct, frozen=True):
    """The results of all transitions, each applied after the other, and the ledger after all of them."""

    results: Sequence[tuple[Waiter[Any], ports.TransitionResult[Any]]]
    ledger: Ledger | None

    @property
    def has_write(self) -> bool:
        return any(result.ledger is not None for _, result in self.results)

    @property
    def has_removal(self) -> bool:
        """True if the ledger is to be removed, and no transition of the same batch writes to it."""
        return not self.has_write and any(result.is_removal for _, result in self.results)


class BatchedLedgers:
    """`Ledgers` over a store that replicas share. `monotonic` gives seconds, by the clock of the deadlines.

    `observer` records every write. A caller is inside `release_turn` while it waits for the store, or for other
    callers.
    """

    is_standalone = False

    def __init__(
        self,
        store: ports.LedgerStore,
        monotonic: Callable[[], float],
        observer: ports.WriteObserver | None = None,
        release_turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._observer = observer
        self._release_turn = release_turn
        self._lock = Lock()
        self._cache: dict[ports.LedgerKey, CachedLedger] = {}

    def transact(self, key: ports.LedgerKey, transition: ports.Transition[ports.T], deadline: float) -> ports.T:
        """Apply the transition in a batch with those of other callers, and return its outcome once it is valid.

        Raises:
            RetryLaterError: if others were in the way until the deadline, the store is overloaded, or the ledger full.
            StoreUnavailableError: if the store is unavailable.
        """
        cached = self._get_cached(key)
        if (rejection := cached.reuse_rejection(transition, self._monotonic())) is not None:
            return rejection.outcome
        waiter = Waiter(transition, deadline)
        with self._release_turn():
            self._await_outcome(key, cached, waiter)
        return waiter.get_outcome()

    def _await_outcome(self, key: ports.LedgerKey, cached: CachedLedger, waiter: Waiter[Any]) -> None:
        try:
            if not cached.queue.join(waiter):
                waiter.wait(waiter.deadline - self._monotonic())
            while cached.queue.processor is waiter and not waiter.is_completed and self._monotonic() < waiter.deadline:
                self._process(key, cached, cached.queue.list_waiters(), waiter.deadline)
        finally:
            cached.queue.leave(waiter)

    def _get_cached(self, key: ports.LedgerKey) -> CachedLedger:
        """Return the cached ledger of a key, and drop the least recently used one of more than 10,000.

        Callers in the queue of a dropped ledger only share fewer writes.
        """
        with self._lock:
            cached = self._cache.pop(key) if key in self._cache else CachedLedger()
            self._cache[key] = cached
            if len(self._cache) > _MAX_CACHED_LEDGERS:
                del self._cache[next(iter(self._cache))]
        return cached

    def _process(
        self, key: ports.LedgerKey, cached: CachedLedger, waiters: Sequence[Waiter[Any]], deadline: float
    ) -> None:
        """Process all waiters once, with at most one read and one write. Undecided waiters stay in the queue."""
        try:
            self._process_once(key, cached, waiters, deadline)
        except ports.LedgerFullError as error:
            if len(waiters) == 1:
                cached.queue.complete(waiters[0], error)
                return
            for waiter in waiters:  # one by one, some may still succeed
                if not waiter.is_completed:
                    self._process(key, cached, [waiter], deadline)
        except (ports.RetryLaterError, ports.StoreUnavailableError) as error:
            cached.mark_stale()
            if self._monotonic() < deadline:  # otherwise the processor had too little time; other waiters may have more
                _fail_waiters(cached, waiters, error)
        except BaseException as error:
            cached.mark_stale()
            _fail_waiters(
                cached, waiters, error if isinstance(error, Exception) else ports.StoreUnavailableError("interrupted")
            )
            raise

    def _process_once(
        self, key: ports.LedgerKey, cached: CachedLedger, waiters: Sequence[Waiter[Any]], deadline: float
    ) -> None:
        started_at = self._monotonic()
        is_live = not cached.may_write_without_read(len(waiters))
        if is_live:
            cached.record_read(latest := self._store.read(key, self._compute_timeout(deadline)))
            waiters = [waiter for waiter in waiters if not _is_already_stored(cached, waiter, latest)]
        batch = _apply_transitions(cached, waiters)
        if batch.has_write or batch.has_removal:
            change = self._write if batch.has_write else self._remove
            if not change(key, cached, batch, deadline):
                return
            is_live = True
        if is_live:
            rejected = [step.rejected_amounts for _, step in batch.results if step.rejected_amounts is not None]
            cached.confirm(started_at, rejected[0] if rejected else None)
        for waiter, result in batch.results:
            if result.is_removal and not batch.has_removal:
                continue  # another transition of the batch writes to the ledger
            if is_live or (result.accepts_cached and cached.is_fresh(started_at)):
                cached.queue.complete(waiter, result)
            else:
                cached.mark_stale()  # the outcome needs a read

    def _write(self, key: ports.LedgerKey, cached: CachedLedger, batch: _Batch, deadline: float) -> bool:
        """Write the ledger, and return whether it is stored.

        If it is not, the processor must read it again: others wrote, or the outcome is unknown.
        """
        assert batch.ledger is not None  # noqa: S101  # the round writes
        cached.mark_stale()
        latest = cached.latest
        before, version = (latest.ledger, latest.version) if latest else (None, None)
        started_at, write_result = self._monotonic(), ports.WriteResult.FAILED
        try:
            version = self._store.write(key, batch.ledger, version, self._compute_timeout(deadline))
            write_result = ports.WriteResult.CONFLICT if version is None else ports.WriteResult.STORED
        except ports.UnknownOutcomeError:
            write_result = ports.WriteResult.UNKNOWN
            for waiter, result in batch.results:
                if result.ledger is not None:
                    waiter.sent_result = result
            return False
        finally:
            if self._observer is not None:
                duration = self._monotonic() - started_at
                self._observer.record_write(
                    ports.LedgerWrite(key, before, batch.ledger, len(batch.results), duration, write_result)
                )
        if version is not None:
            cached.record_write(ports.VersionedLedger(batch.ledger, version))
        return version is not None

    def _remove(self, key: ports.LedgerKey, cached: CachedLedger, _batch: _Batch, deadline: float) -> bool:
        """Remove the ledger, and return whether it is deleted; if not, it must be read again."""
        cached.mark_stale()
        is_removed = cached.latest is None or self._store.remove(key, cached.latest, self._compute_timeout(deadline))
        if is_removed:
            cached.latest = None
        return is_removed

    def _compute_timeout(self, deadline: float) -> float:
        return min(max(deadline - self._monotonic(), 0.0), _MAX_CALL_SECONDS)


def _is_already_stored(cached: CachedLedger, waiter: Waiter[Any], latest: ports.VersionedLedger | None) -> bool:
    """Complete the waiter and return True if the ledger shows its write with the unknown outcome (rule 1)."""
    if waiter.sent_result is None or latest is None or not waiter.transition.is_stored_in(latest.ledger):
        return False
    cached.queue.complete(waiter, waiter.sent_result)
    return True


def _apply_transitions(cached: CachedLedger, waiters: Sequence[Waiter[Any]]) -> _Batch:
    ledger = cached.latest.ledger if cached.latest else None
    results: list[tuple[Waiter[Any], ports.TransitionResult[Any]]] = []
    for waiter in waiters:
        try:
            result = waiter.transition(ledger)
        except Exception as error:  # noqa: BLE001  # only the caller of a faulty transition gets its error
            cached.queue.complete(waiter, error)
            continue
        results.append((waiter, result))
        if result.ledger is not None:
            ledger = result.ledger
    return _Batch(results, ledger)


def _fail_waiters(cached: CachedLedger, waiters: Sequence[Waiter[Any]], error: Exception) -> None:
    for waiter in waiters:
        cached.queue.complete(waiter, error)
