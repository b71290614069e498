"""The supervised background thread of the server: it runs a task at intervals and after a wake, until it is stopped.

The ledger controller, the lease controller, the event recorder, the audit controller, the controller of amounts on
nodes, the certificate controller and the check for slow connections each have one. An exception of the task ends
neither the thread nor the process: it is logged when it changes, and readiness shows it until a run succeeds.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from tallygate.errors import TallygateError
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog

PROMPT_WAKES: Final = 8
"""The number of successive wakes with the short delay; a registration of the webhooks causes about five."""

_MAX_DOUBLINGS: Final = 16
_JOIN_SECONDS: Final = 6.0  # a call in progress takes at most five


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTask:
    """The task of a worker.

    Args:
        name: the name of the thread and of the readiness entry.
        run: does the work that is due; it returns False if nothing was due, so that the last failure stays.
        failure_log: the log of the exceptions of `run`.
        describe: returns the details of the readiness entry; the failure is added to them.
        interrupt: called by `Worker.stop`, to break off a call in progress.
        finish: called at the end of the thread.
    """

    name: str
    run: Callable[[], bool]
    failure_log: FailureLog
    describe: Callable[[], Mapping[str, object]] = dict
    interrupt: Callable[[], object] = lambda: None
    finish: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPace:
    """The times of a worker in seconds; no delay and no rest exceeds the interval.

    Args:
        interval: returns the time from the end of one run to the next without a wake.
        wake_delay: the time from a wake to the run. After `PROMPT_WAKES` successive wakes it doubles with each one:
            another client may revert the changes of this process again and again.
        rest: the least time from the end of one run to the next. It doubles with each successive failure.
        jitter: the share by which interval and delay vary at random, so that mostly one replica finishes a change
            before the next one begins.
    """

    interval: Callable[[], float]
    wake_delay: float = 0.0
    rest: float = 0.0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerClock:
    """The monotonic clock in seconds, a wait for a flag with a timeout in seconds, and a random number from 0 to 1."""

    monotonic: Callable[[], float] = time.monotonic
    wait: Callable[[Event, float], bool] = Event.wait
    draw: Callable[[], float] = random.random


class Worker:
    """A thread for one task. One thread starts and stops it; any thread may call the other methods."""

    def __init__(self, task: WorkerTask, pace: WorkerPace, clock: WorkerClock | None = None) -> None:
        self._task = task
        self._pace = pace
        self._clock = clock or WorkerClock()
        self._wake, self._stop = Event(), Event()
        self._woken_runs = 0  # in succession, as are the failed ones
        self._failed_runs = 0
        self._thread = Thread(target=self.run_until_stopped, name=task.name, daemon=True)

    def start(self) -> None:
        """Start the thread; call once only."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for at most 6 s for the end of its run; a thread that never started is no error."""
        self._stop.set()
        self._wake.set()
        self._task.interrupt()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def wake(self) -> None:
        """Request a run before the interval is over."""
        self._wake.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait in a run for `seconds`, or until `stop` is called; return whether it was."""
        return self._clock.wait(self._stop, seconds)

    def check(self) -> ReadinessStatus:
        """Return a status that is always ready, since reviews do not need the task; it shows the last failure."""
        failure = self._task.failure_log.failure
        detail = {**self._task.describe(), "failure": failure} if failure else self._task.describe()
        return ReadinessStatus(self._task.name, ready=True, detail=detail)

    def run_once(self) -> None:
        """Run the task in this thread, and store its failure."""
        try:
            if not self._task.run():
                return
        except TallygateError as error:
            failure = str(error)
        except Exception as crash:  # noqa: BLE001  # a fault of ours must not end the thread for good
            failure = f"{type(crash).__name__}: {crash}"
        else:
            failure = ""
        self._failed_runs = self._failed_runs + 1 if failure else 0
        self._task.failure_log.update(failure)

    def run_until_stopped(self) -> None:
        """Run the task in this thread until `stop` is called."""
        while not self._stop.is_set():
            interval = self._pace.interval() * self._draw_factor()
            self._wait_until_due(interval)
            if not self._stop.is_set():
                self.run_once()
                self.wait(_back_off(self._pace.rest, self._failed_runs - 1, interval))
        self._task.finish()

    def _wait_until_due(self, interval: float) -> None:
        """Wait for the interval, or until soon after a wake."""
        started_at = self._clock.monotonic()
        if not self._clock.wait(self._wake, interval):
            self._woken_runs = 0
            return
        remaining = interval - (self._clock.monotonic() - started_at)
        delay = self._pace.wake_delay * self._draw_factor()
        self.wait(max(0.0, _back_off(delay, self._woken_runs - PROMPT_WAKES, remaining)))
        self._woken_runs += 1
        self._wake.clear()

    def _draw_factor(self) -> float:
        return 1.0 + self._pace.jitter * (2.0 * self._clock.draw() - 1.0)


def _back_off(seconds: float, doublings: int, limit: float) -> float:
    """Return the seconds after a number of doublings, at most the limit."""
    return min(seconds * 2.0 ** min(max(doublings, 0), _MAX_DOUBLINGS), limit)
