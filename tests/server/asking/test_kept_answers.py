"""Answers of reviews: how long they are kept, how many, and how many calls there are for one question."""

from threading import Event

import pytest

from tallygate.server.asking.api_reviews import CallLimit, KeptAnswers
from tallygate.server.asking.rate import RateLimit
from tallygate.server.token_buckets import TokenRate
from tests.kube.scripted_server import FakeClock
from tests.server.asking.review_answers import catch_ask_error, run_at_once


class Calls:
    """A call that counts how often it is made, and answers with that number."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        """Return the number of this call."""
        self.count += 1
        return self.count


def test_an_answer_is_kept_for_ten_seconds_after_its_call_began() -> None:
    clock = FakeClock()
    answers: KeptAnswers[str, int] = KeptAnswers(clock.now)

    def call_slowly() -> int:
        clock.time += 4.0
        return 7

    assert answers.get("q", call_slowly) == 7
    clock.time += 5.99
    assert answers.get("q", Calls()) == 7
    clock.time += 0.01
    assert answers.get("q", Calls()) == 1


def test_an_answer_is_not_kept_for_longer_because_it_is_asked_for() -> None:
    clock = FakeClock()
    answers: KeptAnswers[str, int] = KeptAnswers(clock.now)
    calls = Calls()
    for _ in range(21):
        answers.get("q", calls)
        clock.time += 0.5
    assert calls.count == 2


@pytest.mark.parametrize("value", [None, False, 0])
def test_a_negative_answer_is_kept_as_well(value: object) -> None:
    answers: KeptAnswers[str, object] = KeptAnswers(FakeClock().now)
    assert answers.get("q", lambda: value) is value
    assert answers.get("q", Calls()) is value


def test_the_answers_to_the_questions_that_were_asked_last_are_kept() -> None:
    answers: KeptAnswers[str, int] = KeptAnswers(FakeClock().now, max_answers=2)
    calls = Calls()
    for question in ("a", "b", "a", "c", "a"):
        answers.get(question, calls)
    assert calls.count == 3
    answers.get("b", calls)
    assert calls.count == 4


def test_an_error_is_not_kept() -> None:
    answers: KeptAnswers[str, int] = KeptAnswers(FakeClock().now)

    def fail() -> int:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            answers.get("q", fail)
    assert answers.get("q", Calls()) == 1


def test_threads_with_the_same_question_make_one_call_and_share_its_answer() -> None:
    answers: KeptAnswers[str, int] = KeptAnswers(FakeClock().now)
    arrived, go, calls = Event(), Event(), Calls()

    def call() -> int:
        arrived.set()
        assert go.wait(30)
        return calls()

    def meanwhile() -> None:
        assert arrived.wait(30)
        assert answers.get("another", lambda: 5) == 5
        go.set()

    assert run_at_once(8, lambda: answers.get("q", call), meanwhile) == [1] * 8
    assert calls.count == 1


def test_threads_with_the_same_question_share_its_error() -> None:
    answers: KeptAnswers[str, int] = KeptAnswers(FakeClock().now)
    limit = CallLimit(1, RateLimit(TokenRate(0, 1.0), "too many", FakeClock().now))
    messages = run_at_once(
        8, lambda: catch_ask_error(lambda: answers.get("q", lambda: limit.run("k", Calls()))).message, lambda: None
    )
    assert set(messages) <= {"too many: at most 1 a second, and 0 at once. Ask again in 1 s"}


def test_calls_over_the_number_at_a_time_are_refused_at_once_and_ended_ones_make_room() -> None:
    limit = CallLimit(2, RateLimit(TokenRate(100, 1.0), "too many", FakeClock().now))
    inner: list[str] = []

    def call() -> None:
        inner.append(catch_ask_error(lambda: limit.run("k", Calls())).message)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        limit.run("k", lambda: limit.run("k", call))
    assert inner == ["2 reviews of the API server are in progress. Ask again in 1 s"]
    assert limit.run("k", Calls()) == 1


def test_a_call_over_the_rate_is_refused_and_leaves_its_place() -> None:
    clock = FakeClock()
    limit = CallLimit(1, RateLimit(TokenRate(1, 1.0), "too many", clock.now))
    calls = Calls()
    limit.run("k", calls)
    for _ in range(3):
        assert "at most 1 a second" in catch_ask_error(lambda: limit.run("k", calls)).message
    clock.time += 1.0
    assert limit.run("k", calls) == 2
