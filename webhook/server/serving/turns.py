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

_HELD_UP_SECONDS = 0.01
_IDLE_LOOK_SECONDS = 0.05
_REMEMBERED_SECONDS = 1.0


class _Mine(threading.local):
    """The turns of this thread's worker, while it is at a request."""

    turns: "Turns | None" = None


_MINE = _Mine()


@contextmanager
def held_up() -> Iterator[None]:
    """Wait for something in the block: meanwhile another thread takes requests, where this one was to."""
    turns = _MINE.turns
    if turns is None:
        yield
        return
    turns.step_aside()
    try:
        yield
    finally:
        turns.come_back()


class Turns:
    """The threads of one worker. Each says when it begins a request and when it has finished it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: set[int] = set()
        self._held_up: set[int] = set()  # of those that stand
        self._aside: set[int] = set()  # of those that are held up: they have said so themselves
        self._resting = 0
        self._most_aside = 0  # at once, since `_remembered_at`
        self._remembered_at = -math.inf
        self._spare = 0  # so many were aside at once in the time before that, or since
        self._coming = 0  # were called back, and do not stand yet
        self._begun: dict[int, float] = {}
        self._called = threading.Semaphore(0)
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to look after threads that are held up."""
        threading.Thread(target=self._watch, name="turns", daemon=True).start()

    def end(self) -> None:
        """Call everybody back, for good."""
        with self._lock:
            self._over.set()
            self._call(self._resting)

    def begin(self) -> None:
        """This thread takes a request."""
        me = threading.get_ident()
        _MINE.turns = self
        self._begun[me] = time.monotonic()
        if me not in self._standing:
            with self._lock:
                self._standing.add(me)

    def step_aside(self) -> None:
        """This thread is at a request and is going to wait."""
        with self._lock:
            self._aside.add(threading.get_ident())
            self._held_up.add(threading.get_ident())
            self._most_aside = max(self._most_aside, len(self._aside))
            self._spare = max(self._spare, self._most_aside)
            self._call_if_all_are_held_up()

    def come_back(self) -> None:
        """It waits no more."""
        with self._lock:
            self._aside.discard(threading.get_ident())
            self._held_up.discard(threading.get_ident())

    def finish(self, *, may_rest: bool) -> None:
        """This thread has answered; it rests if it may and others stand in line."""
        me = threading.get_ident()
        _MINE.turns = None
        del self._begun[me]
        if may_rest and len(self._standing) > 1 + self._spare:
            self._rest(me)

    def look(self, now: float) -> None:
        """Call a thread back when all that stand in line are held up, at the monotonic time `now`.

        And let go of those to spare that were needed some seconds ago.
        """
        slow = {thread for thread, begun in list(self._begun.items()) if now - begun > _HELD_UP_SECONDS}
        with self._lock:
            if now >= self._remembered_at + _REMEMBERED_SECONDS:
                self._remembered_at, self._spare, self._most_aside = now, self._most_aside, len(self._aside)
            self._held_up = (slow & self._begun.keys() & self._standing) | self._aside
            self._call_if_all_are_held_up()

    def _call_if_all_are_held_up(self) -> None:
        if self._resting and len(self._held_up) >= len(self._standing) + self._coming:
            self._call(1)

    def _call(self, threads: int) -> None:
        self._resting -= threads
        self._coming += threads
        if threads:
            self._called.release(threads)

    def _rest(self, me: int) -> None:
        with self._lock:
            self._held_up.discard(me)
            if self._over.is_set() or len(self._standing) - len(self._held_up) <= 1 + self._spare:
                return
            self._standing.discard(me)
            self._resting += 1
        self._called.acquire()
        with self._lock:
            self._coming -= 1
            self._standing.add(me)

    def _watch(self) -> None:
        while not self._over.wait(_HELD_UP_SECONDS if self._begun else _IDLE_LOOK_SECONDS):
            self.look(time.monotonic())
