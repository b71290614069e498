"""The line at one ledger: callers in the order of their coming, of whom one at a time serves all."""

from threading import Event, Lock
from typing import Any, Generic, TypeVar

from webhook.state.ports import Attempt, BusyError, Step

T = TypeVar("T")

_LONGEST_WAIT = 3600.0  # seconds; an Event takes no infinite time


class Waiter(Generic[T]):
    """A caller with an attempt and a deadline; `sent` is its step of a write whose answer was lost."""

    def __init__(self, attempt: Attempt[T], deadline: float) -> None:
        self.attempt = attempt
        self.deadline = deadline
        self.sent: Step[T] | None = None
        self._woken = Event()
        self._step: Step[T] | None = None
        self._failure: Exception | None = None

    def wait(self, seconds: float) -> None:
        """Until it is decided, or this one's turn to serve, or that time has passed."""
        self._woken.wait(min(max(seconds, 0.0), _LONGEST_WAIT))

    def wake(self) -> None:
        """Something has happened to it."""
        self._woken.set()

    def decide(self, decision: Step[T] | Exception) -> None:
        """How it ended, for good."""
        if isinstance(decision, Exception):
            self._failure = decision
        else:
            self._step = decision

    @property
    def is_decided(self) -> bool:
        """Whether it has ended."""
        return self._step is not None or self._failure is not None

    def outcome(self) -> T:
        """What the caller gets.

        Raises:
            BusyError: it was not decided in time.
        """
        if self._failure is not None:
            raise self._failure
        if self._step is None:
            raise BusyError("the ledger of a cap is busy: others were in the way until the deadline")
        return self._step.outcome


class Line:
    """Who waits, and who serves."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Waiter[Any]] = []
        self._server: Waiter[Any] | None = None

    def join(self, waiter: Waiter[Any]) -> bool:
        """Stand in line; whether this one is to serve at once."""
        with self._lock:
            self._waiting.append(waiter)
            if self._server is None:
                self._server = waiter
            return self._server is waiter

    def serves(self, waiter: Waiter[Any]) -> bool:
        """Whether it is this one's turn to serve."""
        return self._server is waiter

    def waiting(self) -> list[Waiter[Any]]:
        """Those who are not decided, who serves among them."""
        with self._lock:
            return list(self._waiting)

    def decide(self, waiter: Waiter[Any], decision: Step[Any] | Exception) -> None:
        """Let one go with this; nothing comes of it when that one has gone already."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                waiter.decide(decision)
                waiter.wake()

    def leave(self, waiter: Waiter[Any]) -> None:
        """Go, decided or not. Who served leaves that to the one with the most time."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            if self._server is waiter:
                self._server = max(self._waiting, key=lambda each: each.deadline, default=None)
                if self._server is not None:
                    self._server.wake()
