"""A server that refuses is told of in its words and asked again, in growing intervals within bounds."""

import pytest

from tests.kube.scripted_server import RARITIES, SILENCE, STREAM_RESET, follow, listed, refusal, row, thing, told
from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.resource_codec import Replaced
from webhook.kube.transport import Response


def test_a_server_that_asks_to_wait_is_waited_for_and_a_little_longer() -> None:
    f = follow(refusal(429, "slow down", retry_after=7), listed(7))
    f.next()
    assert f.clock.sleeps == [7 * 1.25]


def test_a_server_that_asks_to_wait_for_ever_is_asked_again_within_bounds() -> None:
    f = follow(refusal(429, "slow down", retry_after=10**9), refusal(503, retry_after=-5), listed(7))
    f.next()
    assert f.clock.sleeps == [60 * 1.25, 1.25]


def test_how_long_to_wait_may_stand_in_the_status() -> None:
    f = follow(refusal(429, "slow down", details={"retryAfterSeconds": 9}), listed(7))
    f.next()
    assert f.clock.sleeps == [9 * 1.25]


def test_waits_grow_up_to_a_bound_and_begin_anew_after_success() -> None:
    f = follow(
        *[ApiError(ApiErrorReason.UNREACHABLE, "connection refused")] * 9, listed(7), [STREAM_RESET], [SILENCE], at=7
    )
    f.next()
    f.until(1)
    assert f.clock.sleeps == [0.625, 1.25, 2.5, 5, 10, 20, 37.5, 37.5, 37.5, 0.625]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, ApiErrorReason.UNAUTHORIZED), (403, ApiErrorReason.FORBIDDEN), (404, ApiErrorReason.ABSENT)],
)
def test_a_refusal_is_told_in_the_servers_words(code: int, reason: ApiErrorReason) -> None:
    words = 'things is forbidden: User "system:serviceaccount:a:b" cannot list resource "things"'
    f = follow(*[refusal(code, words)] * 3)
    while len(f.clock.sleeps) < 2:
        next(f.run)
    now = f.reflector.get_status()
    assert now.stale == f"things: not listed yet; last trouble ({reason}): the API server says {code}: {words}"
    assert (now.revision, now.age) == (None, None)
    assert now.restarts[reason] == 2


def test_of_what_the_server_does_not_know_there_is_none_until_it_does() -> None:
    absent = Response(404, b"404 page not found")
    f = follow(*[absent] * 9, listed(7, thing("a", 3)), [SILENCE], at=7, reading=RARITIES)
    for _ in range(9):
        assert f.next() == Replaced([], 0)
        now = f.reflector.get_status()
        assert (now.stale, now.revision) == (None, 0) if f.clock.sleeps else now.stale is not None
    assert f.next() == Replaced([row("a", 3)], 7)
    assert (f.reflector.get_status().restarts[ApiErrorReason.ABSENT], max(f.clock.sleeps)) == (9, 37.5)


def test_what_the_server_knows_no_more_is_there_no_more() -> None:
    f = follow(listed(7, thing("a", 3)), refusal(404), refusal(404), listed(9), [SILENCE], at=9, reading=RARITIES)
    assert [f.next() for _ in range(2)] == [Replaced([row("a", 3)], 7), Replaced([], 0)]
    assert f.next() == Replaced([], 0)
    assert f.next() == Replaced([], 9)


def test_rights_that_are_taken_away_leave_the_view_and_say_so_once_it_is_old() -> None:
    refused = refusal(403, "cannot watch things")
    f = follow(listed(7), [told("ADDED", thing("a", 8))], *[refused] * 12, at=8)
    f.next()
    f.next()
    f.until(60)
    assert f.reflector.get_status().stale is None
    f.until(90)
    now = f.reflector.get_status()
    assert now.revision == 8
    assert now.stale is not None
    assert now.stale.endswith("; last trouble (forbidden): the API server says 403: cannot watch things")
    assert f.server.asked[-1]["resourceVersion"] == "8"
