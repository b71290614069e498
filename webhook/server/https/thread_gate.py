"""Turns: of the threads that answer requests, one stands in line, as long as it is not held up.

Python runs one thread at a time. Where several take requests, they spend more time handing the interpreter's lock to
each other than answering; one alone answers three times as many in a second. But one alone is held up by the first body
that arrives slowly, and by every ledger that is written. So a thread that has answered goes to rest when another still
stands in line; who is going to wait says so (`held_up`), and another is called back at once; and when all that stand
have been at one request for too long, one that rests is called back as well. As many as have waited at once lately stay
beside the one that stands: to send each to rest and call it back takes as long as to answer. granian itself adds
threads while none stands idle, up to its limit.
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
    """The turns of this thread's worker, while it is at a request."""

    gate: "ThreadGate | None" = None


_THREAD_STATE = _ThreadState()


@contextmanager
def release_turn() -> Iterator[None]:
    """Wait for something in the block: meanwhile another thread takes requests, where this one was to."""
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
    """The threads of one worker. Each says when it begins a request and when it has finished it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: set[int] = set()
        self._blocked: set[int] = set()  # of those that stand
        self._waiting: set[int] = set()  # of those that are held up: they have said so themselves
        self._parked_count = 0
        self._max_waiting = 0  # at once, since `_remembered_at`
        self._spare_updated_at = -math.inf
        self._spare_count = 0  # so many were aside at once in the time before that, or since
        self._waking_count = 0  # were called back, and do not stand yet
        self._entered_at: dict[int, float] = {}
        self._wakeups = threading.Semaphore(0)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to look after threads that are held up."""
        threading.Thread(target=self._watch, name="turns", daemon=True).start()

    def stop(self) -> None:
        """Call everybody back, for good."""
        with self._lock:
            self._stopped.set()
            self._wake(self._parked_count)

    def enter(self) -> None:
        """This thread takes a request."""
        thread_id = threading.get_ident()
        _THREAD_STATE.gate = self
        self._entered_at[thread_id] = time.monotonic()
        if thread_id not in self._active:
            with self._lock:
                self._active.add(thread_id)

    def release_turn(self) -> None:
        """This thread is at a request and is going to wait."""
        with self._lock:
            self._waiting.add(threading.get_ident())
            self._blocked.add(threading.get_ident())
            self._max_waiting = max(self._max_waiting, len(self._waiting))
            self._spare_count = max(self._spare_count, self._max_waiting)
            self._wake_if_all_blocked()

    def resume(self) -> None:
        """It waits no more."""
        with self._lock:
            self._waiting.discard(threading.get_ident())
            self._blocked.discard(threading.get_ident())

    def leave(self, *, may_park: bool) -> None:
        """This thread has answered; it rests if it may and others stand in line."""
        thread_id = threading.get_ident()
        _THREAD_STATE.gate = None
        del self._entered_at[thread_id]
        if may_park and len(self._active) > 1 + self._spare_count:
            self._park(thread_id)

    def check_blocked(self, now: float) -> None:
        """Call a thread back when all that stand in line are held up, at the monotonic time `now`.

        And let go of those to spare that were needed some seconds ago.
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
