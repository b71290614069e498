"""The rate of asks by user, and the wait that a refusal states."""

from http import HTTPStatus

from hypothesis import given
from hypothesis import strategies as st

from tallygate.server.asking.rate import RateLimit, create_user_limit
from tallygate.server.token_buckets import TokenBuckets, TokenRate
from tests.kube.scripted_server import FakeClock
from tests.server.asking.review_answers import catch_ask_error


def test_a_user_asks_ten_times_at_once_and_five_times_a_second_and_no_other_user_notices() -> None:
    clock = FakeClock()
    limit = create_user_limit(clock.now)
    for _ in range(10):
        limit.take("ann")
    error = catch_ask_error(lambda: limit.take("ann"))
    assert (error.status, error.retry_after) == (HTTPStatus.TOO_MANY_REQUESTS, 1)
    assert error.message == "too many asks of this user: at most 5 a second, and 10 at once. Ask again in 1 s"
    assert error.create_headers() == [("Retry-After", "1")]
    limit.take("bob")
    clock.time += 1.01
    for _ in range(5):
        limit.take("ann")
    catch_ask_error(lambda: limit.take("ann"))


def test_a_refusal_states_whole_seconds_after_which_there_is_a_token() -> None:
    clock = FakeClock()
    limit = RateLimit(TokenRate(1, 7.5), "too many", clock.now)
    limit.take("ann")
    clock.time += 2
    assert catch_ask_error(lambda: limit.take("ann")).retry_after == 6
    clock.time += 6
    limit.take("ann")


def test_the_buckets_of_the_users_that_asked_last_are_kept() -> None:
    clock = FakeClock()
    limit = RateLimit(TokenRate(1, 1000.0), "too many", clock.now, max_keys=2)
    for user in ("ann", "bob"):
        limit.take(user)
    catch_ask_error(lambda: limit.take("ann"))
    limit.take("eve")
    catch_ask_error(lambda: limit.take("ann"))
    limit.take("bob")


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_after_the_stated_wait_there_is_a_token_and_before_it_there_is_none(pauses: list[float]) -> None:
    buckets, now = TokenBuckets(TokenRate(2, 3.0), 10), 0.0
    for pause in pauses:
        now += pause
        wait = buckets.get_wait("key", now)
        assert buckets.take_token("key", now) == (wait == 0)
        after = buckets.get_wait("key", now)
        assert 0 <= after <= 3.0
        assert buckets.get_wait("key", now + after + 1e-6) == 0
