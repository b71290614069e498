"""The line at one ledger: callers in the order of their coming, of whom one at a time serves all."""

from threading import Event, Lock
from typing import Any, Generic, TypeVar

from webhook.state.ports import RetryLaterError, Transition, TransitionResult

T = TypeVar("T")

_MAX_WAIT_SECONDS = 3600.0  # seconds; an Event takes no infinite time


class Waiter(Generic[T]):
    """A caller with an attempt and a deadline; `sent` is its step of a write whose answer was lost."""

    def __init__(self, transition: Transition[T], deadline: float) -> None:
        self.transition = transition
        self.deadline = deadline
        self.sent_result: TransitionResult[T] | None = None
        self._wake_event = Event()
        self._result: TransitionResult[T] | None = None
        self._failure: Exception | None = None

    def wait(self, timeout: float) -> None:
        """Until it is decided, or this one's turn to serve, or that time has passed."""
        self._wake_event.wait(min(max(timeout, 0.0), _MAX_WAIT_SECONDS))

    def wake(self) -> None:
        """Something has happened to it."""
        self._wake_event.set()

    def complete(self, result: TransitionResult[T] | Exception) -> None:
        """How it ended, for good."""
        if isinstance(result, Exception):
            self._failure = result
        else:
            self._result = result

    @property
    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._result is not None or self._failure is not None

    def get_outcome(self) -> T:
        """What the caller gets.

        Raises:
            BusyError: it was not decided in time.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise RetryLaterError("the ledger of a cap is busy: others were in the way until the deadline")
        return self._result.outcome


class WaitQueue:
    """Who waits, and who serves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiters: list[Waiter[Any]] = []
        self._processor: Waiter[Any] | None = None

    def join(self, waiter: Waiter[Any]) -> bool:
        """Stand in line; whether this one is to serve at once."""
        with self._lock:
            self._waiters.append(waiter)
            if self._processor is None:
                self._processor = waiter
            return self._processor is waiter

    def is_processor(self, waiter: Waiter[Any]) -> bool:
        """Whether it is this one's turn to serve."""
        return self._processor is waiter

    def list_waiters(self) -> list[Waiter[Any]]:
        """Those who are not decided, who serves among them."""
        with self._lock:
            return list(self._waiters)

    def complete(self, waiter: Waiter[Any], result: TransitionResult[Any] | Exception) -> None:
        """Let one go with this; nothing comes of it when that one has gone already."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                waiter.complete(result)
                waiter.wake()

    def leave(self, waiter: Waiter[Any]) -> None:
        """Go, decided or not. Who served leaves that to the one with the most time."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self._processor is waiter:
                self._processor = max(self._waiters, key=lambda each: each.deadline, default=None)
                if self._processor is not None:
                    self._processor.wake()
