"""The worker of the controllers: the times of its runs, its log, its status, and its end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event, current_thread

import pytest

from tallygate.errors import TallygateError
from tallygate.server.telemetry.json_log import FailureLog
from tallygate.server.worker import PROMPT_WAKES, Worker, WorkerClock, WorkerPace, WorkerTask
from tests.server.app_harness import Log

OK, NOTHING_DUE = True, False
WOKEN = "woken"  # a run that succeeds, and in which another thread wakes the worker
REFUSED, UNREACHABLE, CRASH = TallygateError("refused"), TallygateError("unreachable"), RuntimeError("a fault of ours")
Result = bool | str | Exception


class Simulation:
    """A worker whose time passes only while it waits: `events` are the times of wakes and stops, in order.

    Each run has the next one of `results`, and succeeds after the last one.
    """

    def __init__(
        self,
        pace: WorkerPace,
        events: Sequence[tuple[float, str]],
        results: Sequence[Result] = (),
        draw: float = 0.5,
        *,
        each_change: bool = True,
    ) -> None:
        self.now = 0.0
        self.runs: list[float] = []
        self.log = Log()
        self._events, self._results = list(events), list(results)
        failure_log = FailureLog(
            partial(self.log.logger.error, "failed"), partial(self.log.logger.info, "works"), each_change=each_change
        )
        task = WorkerTask(
            name="task", run=self._run, failure_log=failure_log, describe=lambda: {"runs": len(self.runs)}
        )
        self.worker = Worker(task, pace, WorkerClock(lambda: self.now, self._wait, lambda: draw))

    def _run(self) -> bool:
        self.runs.append(round(self.now, 3))
        result = self._results.pop(0) if self._results else OK
        if isinstance(result, Exception):
            raise result
        if result == WOKEN:
            self.worker.wake()
        return bool(result)

    def _wait(self, flag: Event, seconds: float) -> bool:
        end = self.now + seconds
        while not flag.is_set() and self._events and self._events[0][0] <= end:
            time, event = self._events.pop(0)
            self.now = max(self.now, time)
            (self.worker.stop if event == "stop" else self.worker.wake)()
        if not flag.is_set():
            self.now = end
        return flag.is_set()


def _wakes(*times: float, stop: float) -> list[tuple[float, str]]:
    return [*((time, "wake") for time in times), (stop, "stop")]


def _pace(interval: float = 10.0, wake_delay: float = 0.0, rest: float = 0.0, jitter: float = 0.0) -> WorkerPace:
    return WorkerPace(interval=lambda: interval, wake_delay=wake_delay, rest=rest, jitter=jitter)


@dataclass(frozen=True)
class Timing:
    """The times of a worker, what happens when, and the times of its runs."""

    pace: WorkerPace
    events: Sequence[tuple[float, str]]
    runs: Sequence[float]
    results: Sequence[Result] = field(default=())
    draw: float = 0.5


TIMINGS = {
    "a worker runs after its interval, and again after each": Timing(_pace(), _wakes(stop=35), [10, 20, 30]),
    "a worker that is woken at the start runs at once": Timing(_pace(), _wakes(0, stop=15), [0, 10]),
    "a wake begins a run at once, and the next interval": Timing(_pace(), _wakes(3, stop=15), [3, 13]),
    "wakes at one time begin one run": Timing(_pace(), _wakes(3, 3, 3, stop=12), [3]),
    "a wake in a rest begins a run after the rest": Timing(_pace(rest=2), _wakes(3, 4, stop=9), [3, 5]),
    "a rest comes before the interval": Timing(_pace(rest=2), _wakes(stop=30), [10, 22]),
    "wakes in the delay of one join it": Timing(_pace(wake_delay=1), _wakes(3, 3.5, stop=12), [4]),
    "a delay is over when the interval is": Timing(_pace(wake_delay=4), _wakes(8, stop=19), [10]),
    "successive wakes are prompt at first, and then each waits twice as long, up to the interval": Timing(
        _pace(wake_delay=1),
        _wakes(0, stop=47),
        [*range(1, PROMPT_WAKES + 2), 11, 15, 23, 33, 43],
        [WOKEN] * 30,
    ),
    "an interval without a wake makes wakes prompt again": Timing(
        _pace(wake_delay=1),
        _wakes(0, 30, stop=32),
        [*range(1, PROMPT_WAKES + 2), 11, 15, 25, 31],
        [WOKEN] * (PROMPT_WAKES + 2),
    ),
    "a failure leaves the interval as it is": Timing(_pace(), _wakes(stop=35), [10, 20, 30], [REFUSED, CRASH]),
    "a rest doubles with each successive failure, up to the interval, until a run succeeds": Timing(
        _pace(rest=4), _wakes(*range(44), stop=44), [0, 4, 12, 22, 32, 36, 40], [REFUSED] * 4
    ),
    "a stop before the first run leaves no run": Timing(_pace(), _wakes(stop=5), []),
    "a stop in the delay of a wake leaves no run": Timing(_pace(wake_delay=4), _wakes(3, stop=5), []),
    "a stop in a rest leaves no further run": Timing(_pace(rest=4), _wakes(1, 2, stop=3), [1]),
    "by chance an interval is shorter by the jitter": Timing(_pace(jitter=0.2), _wakes(stop=20), [8, 16], draw=0.0),
    "by chance an interval is longer by the jitter": Timing(_pace(jitter=0.2), _wakes(stop=20), [12], draw=1.0),
    "by chance a delay is longer by the jitter": Timing(
        _pace(wake_delay=1, jitter=0.2), _wakes(3, stop=10), [4.2], draw=1.0
    ),
}


@pytest.mark.parametrize("name", TIMINGS)
def test_a_worker_runs_at_its_times(name: str) -> None:
    case = TIMINGS[name]
    simulation = Simulation(case.pace, case.events, case.results, case.draw)
    simulation.worker.run_until_stopped()
    assert simulation.runs == list(case.runs)


@dataclass(frozen=True)
class Failures:
    """The results of successive runs, the lines of the log, and the failure that is shown in the end."""

    results: Sequence[Result]
    logged: Sequence[str]
    shown: str = ""
    each_change: bool = True


FAILURES = {
    "a success is not logged": Failures([OK, OK], []),
    "a failure is logged and shown": Failures([REFUSED], ["refused"], "refused"),
    "a failure that stays is logged once": Failures([REFUSED, REFUSED, REFUSED], ["refused"], "refused"),
    "a failure that changes is logged again": Failures(
        [REFUSED, UNREACHABLE], ["refused", "unreachable"], "unreachable"
    ),
    "a failure that changes is shown, and not logged where its text names an object": Failures(
        [REFUSED, UNREACHABLE], ["refused"], "unreachable", each_change=False
    ),
    "a success ends a failure, and the end is logged": Failures([REFUSED, OK, OK], ["refused", "works"]),
    "a failure that comes back is logged again": Failures(
        [REFUSED, OK, REFUSED], ["refused", "works", "refused"], "refused"
    ),
    "a run without work leaves the failure": Failures([REFUSED, NOTHING_DUE, REFUSED], ["refused"], "refused"),
    "a crash is a failure that names its type": Failures(
        [CRASH, CRASH], ["RuntimeError: a fault of ours"], "RuntimeError: a fault of ours"
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_logged_when_it_changes_and_shown_until_a_run_succeeds(name: str) -> None:
    case = FAILURES[name]
    simulation = Simulation(_pace(), [], case.results, each_change=case.each_change)
    for _ in case.results:
        simulation.worker.run_once()
    assert [line.get("message", line["event"]) for line in simulation.log.lines] == list(case.logged)
    status = simulation.worker.check()
    shown = {"failure": case.shown} if case.shown else {}
    assert (status.name, status.ready, status.detail) == ("task", True, {"runs": len(case.results), **shown})


@pytest.fixture
def calls() -> list[str]:
    """Return a list for the calls of the hooks of a worker."""
    return []


@pytest.fixture
def create(calls: list[str]) -> Iterator[Callable[[Callable[[], bool]], Worker]]:
    """Yield a function that creates a worker with a real thread and wakes it; stop the workers at the end."""
    workers: list[Worker] = []

    def create_woken(run: Callable[[], bool]) -> Worker:
        task = WorkerTask(
            name="task",
            run=run,
            failure_log=FailureLog(lambda **_: None),
            interrupt=lambda: calls.append("interrupt"),
            finish=lambda: calls.append(f"finish in {current_thread().name}"),
        )
        worker = Worker(task, _pace(600.0))
        worker.wake()
        workers.append(worker)
        return worker

    yield create_woken
    for worker in workers:
        worker.stop()


def test_a_stop_breaks_off_a_run_that_waits_and_the_thread_finishes_its_task(
    create: Callable[[Callable[[], bool]], Worker], calls: list[str]
) -> None:
    has_begun = Event()

    def run() -> bool:
        has_begun.set()
        calls.append(f"stopped: {worker.wait(600.0)}, {worker.is_stopping}")
        return True

    worker = create(run)
    worker.start()
    assert has_begun.wait(30)
    worker.stop()
    assert calls[0] == "interrupt"
    assert sorted(calls[1:]) == ["finish in task", "stopped: True, True"]


def test_a_worker_in_its_thread_outlives_a_crash_and_runs_at_the_next_wake(
    create: Callable[[Callable[[], bool]], Worker], calls: list[str]
) -> None:
    runs, has_crashed, has_run_again = list[str](), Event(), Event()

    def run() -> bool:
        runs.append(current_thread().name)
        if len(runs) == 1:
            has_crashed.set()
            raise CRASH
        has_run_again.set()
        return True

    worker = create(run)
    worker.start()
    assert has_crashed.wait(30)
    worker.wake()
    assert has_run_again.wait(30)
    worker.stop()  # which ends the wait for the interval, too
    assert (runs, calls) == (["task", "task"], ["interrupt", "finish in task"])


def test_a_worker_that_never_started_can_be_stopped(
    create: Callable[[Callable[[], bool]], Worker], calls: list[str]
) -> None:
    create(lambda: True).stop()
    assert calls == ["interrupt"]
