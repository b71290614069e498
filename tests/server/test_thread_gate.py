"""Turns: one thread stands in line, unless it is held up."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.server.process import eventually, remains
from webhook.server.https.thread_gate import ThreadGate, release_turn


class Pool:
    """Threads that take jobs from a list, as granian's do: each asks for the next one when its turn is over."""

    def __init__(self, turns: ThreadGate, threads: int) -> None:
        self.turns = turns
        self.jobs: list[Callable[[], None]] = []
        self.done: list[int] = []
        self._some = threading.Semaphore(0)
        self.idle = 0
        self.may_rest = True
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """A request."""
        self.jobs.append(job)
        self._some.release()

    def close(self) -> None:
        """Let every thread end."""
        self.turns.stop()
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
            self.turns.enter()
            try:
                job()
            finally:
                self.turns.leave(may_park=self.may_rest)
            self.done.append(threading.get_ident())


class Moment(float):
    """A time. `act` runs in the middle of `look`, after it has read the requests, before it takes the lock."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __sub__(self, begun: float) -> float:
        self.act()
        return float(self) - begun


class LockWithDoor:
    """A lock that calls `before` in each thread that is about to take it."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def nothing() -> None:
    """A job that takes no time."""


@pytest.fixture(name="pool")
def _pool() -> Pool:
    return Pool(ThreadGate(), 4)


def hold(pool: Pool) -> threading.Event:
    """Begin a job, and return the event that ends it. It has no timeout: the job must not end while a test waits."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait()

    pool.put(wait)
    assert begun.wait(10)
    return go_on


def settle(pool: Pool) -> None:
    """Let four threads have a turn at the same time, after which one stands."""
    meet(pool, 4)
    assert eventually(lambda: pool.idle == 1)


def meet(pool: Pool, threads: int) -> list[int]:
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


def test_of_many_threads_one_stands_and_answers_everything(pool: Pool) -> None:
    settle(pool)
    pool.done.clear()
    for _ in range(100):
        pool.put(nothing)
    assert eventually(lambda: len(pool.done) == 100)
    assert len(set(pool.done)) == 1
    pool.close()


def test_when_the_one_is_held_up_another_is_called_back(pool: Pool) -> None:
    settle(pool)
    go_on = hold(pool)
    pool.turns.check_blocked(time.monotonic() - 1)
    assert remains(lambda: pool.idle == 0)  # it may be quick
    pool.turns.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle == 1)
    go_on.set()  # whoever of the two is done first rests, and one goes on standing
    assert eventually(lambda: pool.idle == 1)
    pool.done.clear()
    for _ in range(20):
        pool.put(nothing)
    assert eventually(lambda: len(pool.done) == 20)
    assert len(set(pool.done)) == 1
    pool.close()


def test_while_all_who_stand_are_held_up_each_look_calls_one(pool: Pool) -> None:
    settle(pool)
    held_up: list[threading.Event] = []
    for _ in range(3):
        held_up.append(hold(pool))
        pool.turns.check_blocked(time.monotonic() + 1)
        assert eventually(lambda: pool.idle == 1)
    for go_on in held_up:
        go_on.set()
    pool.close()


def aside(pool: Pool) -> threading.Event:
    """Begin a job that says it is held up, and return the event that ends it. It has no timeout either."""
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        with release_turn():
            waiting.set()
            go_on.wait()

    pool.put(wait)
    assert waiting.wait(10)
    return go_on


def test_when_the_one_says_that_it_is_held_up_another_is_called_back_at_once(pool: Pool) -> None:
    settle(pool)
    held_up_too = [aside(pool) for _ in range(3)]
    assert eventually(lambda: pool.idle == 1)
    pool.turns.check_blocked(time.monotonic())
    assert remains(lambda: pool.idle == 1)
    for go_on in held_up_too:
        go_on.set()
    for _ in range(20):
        pool.put(nothing)
    assert eventually(lambda: not pool.jobs and pool.idle == 4)  # as many to spare as waited at once
    pool.close()


def test_those_to_spare_rest_when_nobody_has_waited_for_some_seconds(pool: Pool) -> None:
    settle(pool)
    held_up_too = [aside(pool) for _ in range(3)]
    for go_on in held_up_too:
        go_on.set()
    assert eventually(lambda: pool.idle == 4)
    for later in (10, 20):  # in the seconds before the first look three have waited, before the second none
        pool.turns.check_blocked(time.monotonic() + later)
        assert remains(lambda: pool.idle == 4)
    settle(pool)
    pool.close()


def test_one_that_waits_again_and_again_leaves_one_to_spare(pool: Pool) -> None:
    settle(pool)
    for number in range(5):
        aside(pool).set()
        assert eventually(lambda: pool.idle == 2)
        pool.turns.check_blocked(time.monotonic() + 10 * number)
    assert pool.idle == 2
    pool.close()


def test_who_is_called_back_and_not_there_yet_is_not_called_twice(pool: Pool) -> None:
    settle(pool)
    go_on = aside(pool)
    for _ in range(50):
        pool.turns.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle >= 1)
    assert remains(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


@pytest.mark.parametrize("seconds", [-1, 1], ids=["it has just begun", "it has lasted long"])
def test_a_look_does_not_forget_a_thread_that_has_said_that_it_waits(pool: Pool, seconds: float) -> None:
    settle(pool)
    first = aside(pool)
    assert eventually(lambda: pool.idle == 1)
    pool.turns.check_blocked(time.monotonic() + seconds)
    second = aside(pool)
    assert eventually(lambda: pool.idle == 1)
    first.set()
    second.set()
    pool.close()


def test_a_thread_that_was_slow_once_is_free_at_the_next_look(pool: Pool) -> None:
    settle(pool)
    slow = hold(pool)
    pool.turns.check_blocked(time.monotonic() + 1)
    assert eventually(lambda: pool.idle == 1)
    pool.may_rest = False
    slow.set()
    assert eventually(lambda: pool.idle == 2)
    for _ in range(2):  # each of the two is slow in turn, while the other is free
        next_slow = hold(pool)
        pool.turns.check_blocked(time.monotonic() + 1)
        assert remains(lambda: pool.idle == 1)
        next_slow.set()
        assert eventually(lambda: pool.idle == 2)
    pool.close()


def test_a_thread_that_answers_while_others_look_is_not_slow(pool: Pool) -> None:
    settle(pool)
    slow = hold(pool)
    ended: list[bool] = []

    def end() -> None:
        slow.set()
        ended.append(eventually(lambda: pool.idle == 1))

    moment = Moment(time.monotonic() + 1)
    moment.act = end
    pool.turns.check_blocked(moment)
    assert ended == [True]
    assert remains(lambda: pool.idle == 1)
    pool.close()


def test_a_thread_that_begins_while_others_look_does_not_stand_yet(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {threading.get_ident(), *meet(pool, 3)}
    assert eventually(lambda: pool.idle == 2)  # one of the three, and the fourth, which has had no turn yet
    at_the_door, go_on = threading.Event(), threading.Event()

    def stop_the_fourth() -> None:
        if threading.get_ident() not in known:
            at_the_door.set()
            go_on.wait()

    monkeypatch.setattr(pool.turns, "_lock", LockWithDoor(stop_the_fourth))

    def fourth_has_a_job() -> bool:
        pool.put(nothing)
        return at_the_door.is_set()

    assert eventually(fourth_has_a_job)
    assert eventually(lambda: not pool.jobs and pool.idle == 1)
    pool.turns.check_blocked(time.monotonic() + 1)
    assert remains(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


def test_outside_of_a_request_nobody_is_held_up() -> None:
    with release_turn():
        pass


def test_at_the_end_nobody_rests(pool: Pool) -> None:
    settle(pool)
    pool.turns.stop()
    assert eventually(lambda: pool.idle == 4)
    meet(pool, 4)
    assert eventually(lambda: pool.idle == 4)
    pool.close()


def test_the_watch_calls_back_by_itself(pool: Pool) -> None:
    settle(pool)
    pool.turns.start()
    go_on = hold(pool)
    assert eventually(lambda: pool.idle == 1)
    go_on.set()
    pool.close()


def test_who_may_not_rest_stands(pool: Pool) -> None:
    pool.may_rest = False
    meet(pool, 4)
    assert eventually(lambda: pool.idle == 4)
    pool.close()
