"""Wait queue of one ledger: callers in the order of their arrival, of which one at a time processes all."""

from threading import Event, Lock
from typing import Any, Generic, TypeVar

from webhook.state.ports import RetryLaterError, Transition, TransitionResult

T = TypeVar("T")

_MAX_WAIT_SECONDS = 3600.0  # an Event accepts no infinite time


class Waiter(Generic[T]):
    """A caller with a transition and a deadline.

    `sent_result` is the result of its transition in a write with an unknown outcome.
    """

    def __init__(self, transition: Transition[T], deadline: float) -> None:
        self.transition = transition
        self.deadline = deadline
        self.sent_result: TransitionResult[T] | None = None
        self._wake_event = Event()
        self._result: TransitionResult[T] | None = None
        self._failure: Exception | None = None

    def wait(self, timeout: float) -> None:
        """Wait until the transition is completed, it is this caller's turn to process, or the timeout has passed."""
        self._wake_event.wait(min(max(timeout, 0.0), _MAX_WAIT_SECONDS))

    def wake(self) -> None:
        """Wake the waiting thread."""
        self._wake_event.set()

    def complete(self, result: TransitionResult[T] | Exception) -> None:
        """Set the final result or failure."""
        if isinstance(result, Exception):
            self._failure = result
        else:
            self._result = result

    @property
    def is_completed(self) -> bool:
        """True once the transition has a result or a failure."""
        return self._result is not None or self._failure is not None

    def get_outcome(self) -> T:
        """Return the outcome of the transition, or raise its failure.

        Raises:
            RetryLaterError: if the transition was not completed in time.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise RetryLaterError("the ledger of a cap is busy: others were in the way until the deadline")
        return self._result.outcome


class WaitQueue:
    """The waiting callers, and the processor among them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiters: list[Waiter[Any]] = []
        self._processor: Waiter[Any] | None = None

    def join(self, waiter: Waiter[Any]) -> bool:
        """Add a waiter, and return whether it is the processor at once."""
        with self._lock:
            self._waiters.append(waiter)
            if self._processor is None:
                self._processor = waiter
            return self._processor is waiter

    def is_processor(self, waiter: Waiter[Any]) -> bool:
        """Return whether this waiter is the processor."""
        return self._processor is waiter

    def list_waiters(self) -> list[Waiter[Any]]:
        """Return the waiters that are not completed, including the processor."""
        with self._lock:
            return list(self._waiters)

    def complete(self, waiter: Waiter[Any], result: TransitionResult[Any] | Exception) -> None:
        """Remove a waiter and complete it; do nothing if it has already left."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                waiter.complete(result)
                waiter.wake()

    def leave(self, waiter: Waiter[Any]) -> None:
        """Remove a waiter, completed or not. After the processor, the waiter with the latest deadline processes."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if self._processor is waiter:
                self._processor = max(self._waiters, key=lambda each: each.deadline, default=None)
                if self._processor is not None:
                    self._processor.wake()
