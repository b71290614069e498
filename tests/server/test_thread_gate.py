"""The thread gate: one thread takes requests, and another one while it is blocked."""

import threading
import time
from collections.abc import Callable

import pytest

from tallygate.server.https.request_threads import ThreadGate, release_turn
from tests.server.process import eventually, remains


class Pool:
    """Threads that take jobs from a list, as granian's do: each takes the next one when its turn is over."""

    def __init__(self, gate: ThreadGate, threads: int) -> None:
        self.gate = gate
        self.jobs: list[Callable[[], None]] = []
        self.done: list[int] = []
        self._some = threading.Semaphore(0)
        self.idle = 0
        self.may_park = True
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """Add a job."""
        self.jobs.append(job)
        self._some.release()

    def close(self) -> None:
        """Let every thread end."""
        self.gate.stop()
        self._some.release(len(self.threads))
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()

    def _run(self) -> None:
        while True:
            self.idle += 1
            self._some.acquire()
            self.idle -= 1
            if not self.jobs:
                return
            job = self.jobs.pop(0)
            self.gate.enter(threading.get_ident())
            try:
                job()
            finally:
                self.gate.leave(may_park=self.may_park)
            self.done.append(threading.get_ident())


class Moment(float):
    """A time. `act` runs in `check_blocked`, after it has read the requests, before it takes the lock."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __sub__(self, started_at: float) -> float:
        self.act()
        return float(self) - started_at


class LockWithHook:
    """A lock that calls `before` in each thread that is about to take it."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def do_nothing() -> None:
    """Do nothing: a job that takes no time."""


@pytest.fixture(name="pool")
def _pool() -> Pool:
    return Pool(ThreadGate(), 4)


def start_blocking_job(pool: Pool) -> threading.Event:
    """Begin a job, and return the event that ends it. It has no timeout: the job must not end while a test waits."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait()

    pool.put(wait)
    assert begun.wait(60)
    return go_on


def park_all_but_one(pool: Pool) -> None:
    """Let four threads have a turn at the same time, after which one takes requests."""
    run_together(pool, 4)
    assert eventually(lambda: pool.idle == 1)


def run_together(pool: Pool, threads: int) -> list[int]:
    """Let this number of threads have a turn at the same time, and return which."""
    together = threading.Barrier(threads)
    met: list[int] = []

    def wait() -> None:
        together.wait(30)
        met.append(threading.get_ident())

    for _ in range(threads):
        pool.put(wait)
    assert eventually(lambda: len(met) == threads)
    return met


def test_of_many_threads_one_answers_every_request(pool: Pool) -> None:
    park_all_but_one(pool)
    pool.done.clear()
    for _ in range(100):
        pool.put(do_nothing)
    assert eventually(lambda: len(pool.done) == 100)
    assert len(set(pool.done)) == 1
    pool.close()


def test_when_the_active_thread_is_blocked_another_is_resumed(pool: Pool) -> None:
    park_all_but_one(pool)
    go_on = start_blocking_job(pool)
    pool.gate.check_blocked(time.monotonic() - 1)
    assert remains(lambda: pool.idle == 0)  # it may be quick
    pool.gate.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle == 1)
    go_on.set()  # the first of the two that is done parks, and the other takes requests
    assert eventually(lambda: pool.idle == 1)
    pool.done.clear()
    for _ in range(20):
        pool.put(do_nothing)
    assert eventually(lambda: len(pool.done) == 20)
    assert len(set(pool.done)) == 1
    pool.close()


def test_while_all_active_threads_are_blocked_each_check_resumes_one(pool: Pool) -> None:
    park_all_but_one(pool)
    blocked_jobs: list[threading.Event] = []
    for _ in range(3):
        blocked_jobs.append(start_blocking_job(pool))
        pool.gate.check_blocked(time.monotonic() + 1)
        assert eventually(lambda: pool.idle == 1)
    for go_on in blocked_jobs:
        go_on.set()
    pool.close()


def start_waiting_job(pool: Pool) -> threading.Event:
    """Begin a job that releases its turn, and return the event that ends it. It has no timeout either."""
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        with release_turn():
            waiting.set()
            go_on.wait()

    pool.put(wait)
    assert waiting.wait(60)
    return go_on


def test_when_the_active_thread_releases_its_turn_another_is_resumed_at_once(pool: Pool) -> None:
    park_all_but_one(pool)
    waiting_jobs = [start_waiting_job(pool) for _ in range(3)]
    assert eventually(lambda: pool.idle == 1)
    pool.gate.check_blocked(time.monotonic())
    assert remains(lambda: pool.idle == 1)
    for go_on in waiting_jobs:
        go_on.set()
    for _ in range(20):
        pool.put(do_nothing)
    assert eventually(lambda: not pool.jobs and pool.idle == 4)  # as many spare threads as waited at once
    pool.close()


def test_spare_threads_park_when_no_thread_has_waited_for_some_seconds(pool: Pool) -> None:
    park_all_but_one(pool)
    waiting_jobs = [start_waiting_job(pool) for _ in range(3)]
    for go_on in waiting_jobs:
        go_on.set()
    assert eventually(lambda: pool.idle == 4)
    for later in (10, 20):  # in the seconds before the first check three have waited, before the second none
        pool.gate.check_blocked(time.monotonic() + later)
        assert remains(lambda: pool.idle == 4)
    park_all_but_one(pool)
    pool.close()


def test_a_thread_that_waits_repeatedly_leaves_one_spare_thread(pool: Pool) -> None:
    park_all_but_one(pool)
    for number in range(5):
        start_waiting_job(pool).set()
        assert eventually(lambda: pool.idle == 2)
        pool.gate.check_blocked(time.monotonic() + 10 * number)
    assert pool.idle == 2
    pool.close()


def test_a_thread_that_is_resumed_and_not_active_yet_is_not_resumed_twice(pool: Pool) -> None:
    park_all_but_one(pool)
    go_on = start_waiting_job(pool)
    for _ in range(50):
        pool.gate.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle >= 1)
    assert remains(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


@pytest.mark.parametrize("seconds", [-1, 1], ids=["the request has just begun", "the request has lasted long"])
def test_a_check_still_counts_a_thread_that_has_released_its_turn(pool: Pool, seconds: float) -> None:
    park_all_but_one(pool)
    first = start_waiting_job(pool)
    assert eventually(lambda: pool.idle == 1)
    pool.gate.check_blocked(time.monotonic() + seconds)
    second = start_waiting_job(pool)
    assert eventually(lambda: pool.idle == 1)
    first.set()
    second.set()
    pool.close()


def test_a_thread_that_was_slow_once_is_free_at_the_next_check(pool: Pool) -> None:
    park_all_but_one(pool)
    slow = start_blocking_job(pool)
    pool.gate.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle == 1)
    pool.may_park = False
    slow.set()
    assert eventually(lambda: pool.idle == 2)
    for _ in range(2):  # each of the two is slow in turn, while the other is free
        next_slow = start_blocking_job(pool)
        pool.gate.check_blocked(time.monotonic() + 1)
        assert remains(lambda: pool.idle == 1)
        next_slow.set()
        assert eventually(lambda: pool.idle == 2)
    pool.close()


def test_a_thread_that_answers_during_a_check_is_not_slow(pool: Pool) -> None:
    park_all_but_one(pool)
    slow = start_blocking_job(pool)
    ended: list[bool] = []

    def end() -> None:
        slow.set()
        ended.append(eventually(lambda: pool.idle == 1))

    moment = Moment(time.monotonic() + 1)
    moment.act = end
    pool.gate.check_blocked(moment)
    assert ended == [True]
    assert remains(lambda: pool.idle == 1)
    pool.close()


def test_a_thread_that_begins_during_a_check_is_not_active_yet(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {threading.get_ident(), *run_together(pool, 3)}
    assert eventually(lambda: pool.idle == 2)  # one of the three, and the fourth, which has had no turn yet
    before_lock, go_on = threading.Event(), threading.Event()

    def stop_the_fourth() -> None:
        if threading.get_ident() not in known:
            before_lock.set()
            go_on.wait()

    monkeypatch.setattr(pool.gate, "_lock", LockWithHook(stop_the_fourth))

    def fourth_has_a_job() -> bool:
        pool.put(do_nothing)
        return before_lock.is_set()

    assert eventually(fourth_has_a_job)
    assert eventually(lambda: not pool.jobs and pool.idle == 1)
    pool.gate.check_blocked(time.monotonic() + 1)
    assert remains(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


def test_outside_of_a_request_a_release_wakes_no_thread(pool: Pool) -> None:
    park_all_but_one(pool)
    with release_turn():
        assert remains(lambda: pool.idle == 1)
    assert remains(lambda: pool.idle == 1)


def test_at_the_end_no_thread_is_parked(pool: Pool) -> None:
    park_all_but_one(pool)
    pool.gate.stop()
    assert eventually(lambda: pool.idle == 4)
    run_together(pool, 4)
    assert eventually(lambda: pool.idle == 4)
    pool.close()


def test_the_monitoring_thread_resumes_threads_by_itself(pool: Pool) -> None:
    park_all_but_one(pool)
    pool.gate.start()
    go_on = start_blocking_job(pool)
    assert eventually(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


def test_a_thread_that_may_not_park_stays_active(pool: Pool) -> None:
    pool.may_park = False
    run_together(pool, 4)
    assert eventually(lambda: pool.idle == 4)
    pool.close()
