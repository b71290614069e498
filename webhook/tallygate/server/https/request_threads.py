"""The threads that take requests: how many of them are active at a time.

Python runs one thread at a time. If several threads take requests, they spend more time passing the interpreter's lock
to each other than answering; a single thread answers three times as many requests a second. But a slow body or the
write of a ledger blocks a single thread. So a thread parks after its response if another active thread remains. A
thread that is about to wait announces it (`release_turn`). The gate wakes a parked thread when every active thread is
blocked: it waits, or has been at one request for over 10 ms. In addition, as many spare threads stay active as waited
at the same time in the last second or two: to park and wake a thread takes as long as to answer. granian itself adds
threads while none is idle, up to its limit.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_BLOCKED_SECONDS = 0.01
_IDLE_POLL_SECONDS = 0.05
_SPARE_PERIOD_SECONDS = 1.0


class _ThreadState(threading.local):
    """The thread gate of this thread's worker, while the thread handles a request."""

    gate: "ThreadGate | None" = None


_THREAD_STATE = _ThreadState()


@contextmanager
def release_turn() -> Iterator[None]:
    """Let another thread take requests while the block waits."""
    gate = _THREAD_STATE.gate
    if gate is None:
        yield
        return
    gate.release_turn()
    try:
        yield
    finally:
        gate.resume()


class ThreadGate:
    """The thread gate of one worker. Each thread enters it with a request and leaves it after the response."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: set[int] = set()
        self._blocked: set[int] = set()  # a subset of `_active`
        self._waiting: set[int] = set()  # a subset of `_blocked`: threads between `release_turn` and `resume`
        self._parked_count = 0
        self._max_waiting = 0  # at the same time, since `_spare_updated_at`
        self._spare_updated_at = -math.inf
        self._spare_count = 0  # the maximum of `_waiting` in the period before `_spare_updated_at`, or since
        self._waking_count = 0  # threads that were woken and are not active yet
        self._entered_at: dict[int, float] = {}
        self._wakeups = threading.Semaphore(0)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread that detects blocked threads."""
        threading.Thread(target=self._watch, name="turns", daemon=True).start()

    def stop(self) -> None:
        """Wake all parked threads, and park no further thread."""
        with self._lock:
            self._stopped.set()
            self._wake(self._parked_count)

    def enter(self, thread_id: int) -> float:
        """Mark the current thread as active, at the beginning of a request; return the monotonic time."""
        _THREAD_STATE.gate = self
        self._entered_at[thread_id] = now = time.monotonic()
        if thread_id not in self._active:
            with self._lock:
                self._active.add(thread_id)
        return now

    def release_turn(self) -> None:
        """Mark the current thread as waiting, and wake a parked thread if all active threads are blocked."""
        with self._lock:
            self._waiting.add(threading.get_ident())
            self._blocked.add(threading.get_ident())
            self._max_waiting = max(self._max_waiting, len(self._waiting))
            self._spare_count = max(self._spare_count, self._max_waiting)
            self._wake_if_all_blocked()

    def resume(self) -> None:
        """Mark the current thread as no longer waiting."""
        with self._lock:
            self._waiting.discard(threading.get_ident())
            self._blocked.discard(threading.get_ident())

    def leave(self, *, may_park: bool) -> None:
        """End the request of the current thread; park the thread if it may and enough other threads are active."""
        thread_id = threading.get_ident()
        _THREAD_STATE.gate = None
        del self._entered_at[thread_id]
        if may_park and len(self._active) > 1 + self._spare_count:
            self._park(thread_id)

    def check_blocked(self, now: float) -> None:
        """Wake a parked thread if all active threads are blocked at the monotonic time `now`.

        Once a second, reduce the number of spare threads to the maximum number of threads that waited in that second.
        """
        slow_threads = {
            thread for thread, entered_at in list(self._entered_at.items()) if now - entered_at > _BLOCKED_SECONDS
        }
        with self._lock:
            if now >= self._spare_updated_at + _SPARE_PERIOD_SECONDS:
                self._spare_updated_at, self._spare_count, self._max_waiting = (
                    now,
                    self._max_waiting,
                    len(self._waiting),
                )
            self._blocked = (slow_threads & self._entered_at.keys() & self._active) | self._waiting
            self._wake_if_all_blocked()

    def _wake_if_all_blocked(self) -> None:
        if self._parked_count and len(self._blocked) >= len(self._active) + self._waking_count:
            self._wake(1)

    def _wake(self, count: int) -> None:
        self._parked_count -= count
        self._waking_count += count
        if count:
            self._wakeups.release(count)

    def _park(self, thread_id: int) -> None:
        with self._lock:
            self._blocked.discard(thread_id)
            if self._stopped.is_set() or len(self._active) - len(self._blocked) <= 1 + self._spare_count:
                return
            self._active.discard(thread_id)
            self._parked_count += 1
        self._wakeups.acquire()
        with self._lock:
            self._waking_count -= 1
            self._active.add(thread_id)

    def _watch(self) -> None:
        while not self._stopped.wait(_BLOCKED_SECONDS if self._entered_at else _IDLE_POLL_SECONDS):
            self.check_blocked(time.monotonic())
