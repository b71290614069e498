"""A thread that follows one resource, and keeps the view of it."""

import random
import time
from collections.abc import Callable, Mapping
from threading import Event as Flag
from threading import Thread
from typing import Generic, TypeVar

import msgspec

from webhook.state.watch.events import Event, Row
from webhook.state.watch.failure import Reason
from webhook.state.watch.pool import Access, PooledTransport
from webhook.state.watch.reflector import Pace, Reflector
from webhook.state.watch.wire import Reading

W = TypeVar("W")
R = TypeVar("R", bound=Row)

_JOIN_SECONDS = 0.9
_AFTER_A_CRASH_SECONDS = 5.0


class RunningClock:
    """Seconds that also pass while the machine sleeps, where it can tell; rests end when it is time to stop."""

    def __init__(self, stop: Flag) -> None:
        self._stop = stop
        self._which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> float:
        """Monotonic seconds."""
        return time.clock_gettime(self._which)

    def rest(self, seconds: float) -> None:
        """Wait, or less when it is time to stop."""
        self._stop.wait(seconds)


class Followed(msgspec.Struct, frozen=True):
    """How following one resource goes, as plain values: for readiness and metrics.

    `age` is in seconds since the view was last known to be current, `stale` the reason why it should not be relied on;
    `restarts` counts lists and watches begun again by reason, `lists` those taken up; `crash` is the last fault of our
    own, which is followed by a new list.
    """

    name: str
    objects: int
    revision: int | None
    age: float | None
    stale: str | None
    restarts: Mapping[Reason, int]
    lists: int
    crash: str | None


class Follower(Generic[W, R]):
    """One thread that follows one resource. `apply` takes up an event, `size` says how many objects there are."""

    def __init__(
        self,
        reading: Reading[W, R],
        access: Access,
        apply: Callable[[Event[R]], None],
        size: Callable[[], int],
        pace: Pace | None = None,
    ) -> None:
        self._apply = apply
        self._size = size
        self._stop = Flag()
        self._transport = PooledTransport(access)
        chance = random.SystemRandom().random
        self._reflector = Reflector(reading, self._transport, RunningClock(self._stop), chance, pace)
        self._crash: str | None = None
        self._thread = Thread(target=self._run, name=f"watch-{reading.name}", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End within a second, whatever is under way; the view stays as it is from then on."""
        self._stop.set()
        self._transport.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def hurry(self) -> None:
        """Find out soon how the cluster is now."""
        self._reflector.hurry()

    def followed(self) -> Followed:
        """How it goes."""
        now = self._reflector.status()
        return Followed(now.name, self._size(), now.revision, now.age, now.stale, now.restarts, now.lists, self._crash)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001  # a fault of ours must not leave the gate blind for good
                self._crash = f"{type(error).__name__}: {error}"
                self._stop.wait(_AFTER_A_CRASH_SECONDS)

    def _follow(self) -> None:
        events = self._reflector.events()
        try:
            for event in events:
                if self._stop.is_set():
                    return
                if event is not None:
                    self._apply(event)
        finally:
            events.close()
