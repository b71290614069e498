"""Threads of which one runs at a time, up to its next pause; the schedule chooses the next one.

Between two pauses a task is alone, so a schedule always has the same story.
"""

from collections.abc import Callable
from threading import Semaphore, Thread


class KilledError(BaseException):
    """The process of a task has ended."""


class Task:
    """Work in a thread of its own, which waits at each pause until it may proceed."""

    def __init__(self, tasks: "Tasks", replica: int, work: Callable[[], object]) -> None:
        self.replica = replica
        self.token = 0
        self.pause_name = "starts"
        self.is_over = False
        self.failure: Exception | None = None
        self._tasks = tasks
        self._work = work
        self._number = 0
        self._is_killed = False
        self._may_proceed, self._has_paused = Semaphore(0), Semaphore(0)
        Thread(target=self._run, daemon=True).start()

    def proceed(self, number: int) -> None:
        """Let the task run up to its next pause; the current pause returns the number."""
        self._number = number
        before, self._tasks.running = self._tasks.running, self
        self._may_proceed.release()
        self._has_paused.acquire()
        self._tasks.running = before

    def kill(self) -> None:
        """End the task at its current pause."""
        self._is_killed = True
        while not self.is_over:
            self.proceed(0)

    def pause(self, name: str) -> int:
        """Wait until the task may proceed; called by the work itself.

        Raises:
            KilledError: if the task must end.
        """
        self.pause_name = name
        self._has_paused.release()
        self._may_proceed.acquire()
        if self._is_killed:
            raise KilledError
        return self._number

    def _run(self) -> None:
        self._may_proceed.acquire()
        try:
            if not self._is_killed:
                self._work()
        except KilledError:
            pass
        except Exception as failure:  # noqa: BLE001  # the step that let the task proceed raises it
            self.failure = failure
        self.is_over = True
        self._has_paused.release()


class Tasks:
    """The pauses of all tasks; `running` is the task that runs now."""

    def __init__(self) -> None:
        self.running: Task | None = None

    def pause(self, name: str) -> int:
        """Let other tasks run; outside of a task return 1 at once."""
        return self.running.pause(name) if self.running else 1


class Signal:
    """A replacement of `threading.Event` that waits by the clock of the world and pauses."""

    tasks: Tasks
    now: Callable[[], float]

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Wake all waiting tasks."""
        self._is_set = True

    def wait(self, timeout: float) -> bool:
        """Wait until it is set or the timeout in seconds is over; return whether it is set."""
        until = self.now() + timeout
        while not self._is_set and self.now() < until:
            self.tasks.pause("waits in the queue")
        return self._is_set
