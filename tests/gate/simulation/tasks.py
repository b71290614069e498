"""Threads of which one at a time runs, as far as its next pause: who goes on then, a schedule says.

Between two pauses a task is alone in the world, so that a schedule always tells the same story.
"""

from collections.abc import Callable
from threading import Semaphore, Thread


class KilledError(BaseException):
    """The process in which a task ran is no more."""


class Task:
    """Work in a thread of its own, which stands still until it is told to go on."""

    def __init__(self, tasks: "Tasks", replica: int, work: Callable[[], object]) -> None:
        self.replica = replica
        self.token = 0
        self.where = "begins"
        self.is_over = False
        self.failure: Exception | None = None
        self._tasks = tasks
        self._work = work
        self._order = 0
        self._is_killed = False
        self._goes, self._stands = Semaphore(0), Semaphore(0)
        Thread(target=self._run, daemon=True).start()

    def go(self, order: int) -> None:
        """Let it run as far as its next pause, which then comes back with this order."""
        self._order = order
        before, self._tasks.running = self._tasks.running, self
        self._goes.release()
        self._stands.acquire()
        self._tasks.running = before

    def kill(self) -> None:
        """End it where it stands."""
        self._is_killed = True
        while not self.is_over:
            self.go(0)

    def pause(self, where: str) -> int:
        """Stand still; called by the work itself.

        Raises:
            KilledError: it is to end here.
        """
        self.where = where
        self._stands.release()
        self._goes.acquire()
        if self._is_killed:
            raise KilledError
        return self._order

    def _run(self) -> None:
        self._goes.acquire()
        try:
            if not self._is_killed:
                self._work()
        except KilledError:
            pass
        except Exception as failure:  # noqa: BLE001  # told to whoever looks after the world
            self.failure = failure
        self.is_over = True
        self._stands.release()


class Tasks:
    """Everything that is under way; `running` is what runs just now."""

    def __init__(self) -> None:
        self.running: Task | None = None

    def pause(self, where: str) -> int:
        """Let others come between; outside of tasks nothing happens."""
        return self.running.pause(where) if self.running else 1


class Signal:
    """A `threading.Event` of this world: who waits, waits by its clock and at its pauses."""

    tasks: Tasks
    now: Callable[[], float]

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Wake who waits."""
        self._is_set = True

    def wait(self, timeout: float) -> bool:
        """Until it is set, or so many seconds have passed."""
        until = self.now() + timeout
        while not self._is_set and self.now() < until:
            self.tasks.pause("waits in line")
        return self._is_set
