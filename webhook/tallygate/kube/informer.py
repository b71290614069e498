"""Informers: threads that list and watch one resource each and apply its events to a store."""

import random
import time
from collections.abc import Callable, Mapping
from threading import Event as Flag
from threading import Thread
from typing import Generic, TypeVar

import msgspec

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.reflector import Reflector, WatchTimeouts
from tallygate.kube.resource_codec import Changed, ResourceCodec, ResourceRecord, WatchEvent

W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_JOIN_SECONDS = 0.9
_RESTART_DELAY_SECONDS = 5.0


class RunningClock:
    """A clock that also counts the sleep of the machine, where CLOCK_BOOTTIME exists. The stop flag ends `sleep`."""

    def __init__(self, stop_flag: Flag) -> None:
        self._stop_flag = stop_flag
        self._clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.clock_gettime(self._clock_id)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the stop flag is set."""
        self._stop_flag.wait(seconds)


class InformerStatus(msgspec.Struct, frozen=True):
    """The status of one informer, as plain values for readiness and metrics.

    `age`: seconds since the store was last known to be current. `stale`: the reason why the store is stale, or None.
    `restarts`: restarted lists and watches by reason. `lists`: complete lists. `crash`: the last unexpected exception
    of the thread, after which the informer relists. `added`: objects that were created, as the watch delivered them.
    """

    name: str
    objects: int
    revision: int | None
    age: float | None
    stale: str | None
    restarts: Mapping[ApiErrorReason, int]
    lists: int
    crash: str | None
    added: int = 0

    @property
    def is_listing_first(self) -> bool:
        """Whether nothing was listed yet, and no attempt has failed: a moment later more is known."""
        return self.revision is None and not self.restarts and not self.crash


class Informer(Generic[W, R]):
    """A thread that lists and watches one resource. `apply` gets each event; `count_objects` returns the store size."""

    def __init__(
        self,
        codec: ResourceCodec[W, R],
        client_config: ClientConfig,
        apply: Callable[[WatchEvent[R]], None],
        count_objects: Callable[[], int],
        timeouts: WatchTimeouts | None = None,
    ) -> None:
        self._apply = apply
        self._count_objects = count_objects
        self._stop_flag = Flag()
        self._client = ApiClient(client_config)
        random_float = random.SystemRandom().random
        self._reflector = Reflector(codec, self._client, RunningClock(self._stop_flag), random_float, timeouts)
        self._crash: str | None = None
        self._added = 0
        self._thread = Thread(target=self._run, name=f"watch-{codec.name}", daemon=True)

    def start(self) -> None:
        """Start the thread; callers do so once only."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread within a second; the store keeps its last state."""
        self._stop_flag.set()
        self._client.close()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def request_progress(self) -> None:
        """Request the revision of the cluster soon."""
        self._reflector.request_progress()

    def get_status(self) -> InformerStatus:
        """Return the status of the informer."""
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
            self._added,
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
                    self._added += isinstance(event, Changed) and event.is_new
        finally:
            events.close()
