"""Turns: of the threads that answer requests, one stands in line, as long as it is not held up.

Python runs one thread at a time. Where several take requests, they spend more time handing the interpreter's lock to
each other than answering; one alone answers three times as many in a second. But one alone is held up by the first body
that arrives slowly, and by the first ledger that answers late. So a thread that has answered goes to rest when another
still stands in line; and when all that stand have been at one request for too long, one that rests is called back.
granian itself adds threads while none stands idle, up to its limit.
"""

import threading
import time

_HELD_UP_SECONDS = 0.01
_IDLE_LOOK_SECONDS = 0.05


class Turns:
    """The threads of one worker. Each says when it begins a request and when it has finished it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: set[int] = set()
        self._held_up: set[int] = set()
        self._resting = 0
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
            if self._resting:
                self._called.release(self._resting)
            self._resting = 0

    def begin(self) -> None:
        """This thread takes a request."""
        me = threading.get_ident()
        self._begun[me] = time.monotonic()
        if me not in self._standing:
            with self._lock:
                self._standing.add(me)

    def finish(self, *, may_rest: bool) -> None:
        """This thread has answered; it rests if it may and others stand in line."""
        me = threading.get_ident()
        del self._begun[me]
        if may_rest and len(self._standing) > 1:
            self._rest(me)

    def look(self, now: float) -> None:
        """Call a thread back when all that stand in line are held up, at the monotonic time `now`."""
        held_up = {thread for thread, begun in list(self._begun.items()) if now - begun > _HELD_UP_SECONDS}
        with self._lock:
            self._held_up = held_up & self._begun.keys() & self._standing
            if self._resting and self._standing == self._held_up:
                self._resting -= 1
                self._called.release()

    def _rest(self, me: int) -> None:
        with self._lock:
            self._held_up.discard(me)
            if self._over.is_set() or len(self._standing) - len(self._held_up) <= 1:
                return
            self._standing.discard(me)
            self._resting += 1
        self._called.acquire()
        with self._lock:
            self._standing.add(me)

    def _watch(self) -> None:
        while not self._over.wait(_HELD_UP_SECONDS if self._begun else _IDLE_LOOK_SECONDS):
            self.look(time.monotonic())
