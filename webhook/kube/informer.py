"""A thread that follows one resource, and keeps the view of it."""

import random
import time
from collections.abc import Callable, Mapping
from threading import Event as Flag
from threading import Thread
from typing import Generic, TypeVar

import msgspec

from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.client import ApiEndpoint, PooledTransport
from webhook.kube.reflector import Reflector, WatchTimeouts
from webhook.kube.resource_codec import ResourceCodec, ResourceRecord, WatchEvent

W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_JOIN_SECONDS = 0.9
_RESTART_DELAY_SECONDS = 5.0


class RunningClock:
    """Seconds that also pass while the machine sleeps, where it can tell; rests end when it is time to stop."""

    def __init__(self, stop_flag: Flag) -> None:
        self._stop_flag = stop_flag
        self._clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> float:
        """Monotonic seconds."""
        return time.clock_gettime(self._clock_id)

    def sleep(self, seconds: float) -> None:
        """Wait, or less when it is time to stop."""
        self._stop_flag.wait(seconds)


class InformerStatus(msgspec.Struct, frozen=True):
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
    restarts: Mapping[ApiErrorReason, int]
    lists: int
    crash: str | None


class Informer(Generic[W, R]):
    """One thread that follows one resource. `apply` takes up an event, `size` says how many objects there are."""

    def __init__(
        self,
        codec: ResourceCodec[W, R],
        endpoint: ApiEndpoint,
        apply: Callable[[WatchEvent[R]], None],
        count_objects: Callable[[], int],
        timeouts: WatchTimeouts | None = None,
    ) -> None:
        self._apply = apply
        self._count_objects = count_objects
        self._stop_flag = Flag()
        self._transport = PooledTransport(endpoint)
        random_float = random.SystemRandom().random
        self._reflector = Reflector(codec, self._transport, RunningClock(self._stop_flag), random_float, timeouts)
        self._crash: str | None = None
        self._thread = Thread(target=self._run, name=f"watch-{codec.name}", daemon=True)

    def start(self) -> None:
        """Begin; once only."""
        self._thread.start()

    def stop(self) -> None:
        """End within a second, whatever is under way; the view stays as it is from then on."""
        self._stop_flag.set()
        self._transport.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def request_progress(self) -> None:
        """Find out soon how the cluster is now."""
        self._reflector.request_progress()

    def get_status(self) -> InformerStatus:
        """How it goes."""
        status = self._reflector.get_status()
        return InformerStatus(
            status.name,
            self._count_objects(),
            status.revision,
            status.age,
            status.stale,
            status.restarts,
            status.lists,
            self._crash,
        )

    def _run(self) -> None:
        while not self._stop_flag.is_set():
            try:
                self._run_reflector()
            except Exception as error:  # noqa: BLE001  # a fault of ours must not leave the gate blind for good
                self._crash = f"{type(error).__name__}: {error}"
                self._stop_flag.wait(_RESTART_DELAY_SECONDS)

    def _run_reflector(self) -> None:
        events = self._reflector.events()
        try:
            for event in events:
                if self._stop_flag.is_set():
                    return
                if event is not None:
                    self._apply(event)
        finally:
            events.close()
