"""Error responses: reported with the message of the server, and retried in growing intervals within bounds."""

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.resource_codec import Replaced
from tallygate.kube.transport import Response
from tests.kube.scripted_server import (
    OPTIONAL_THINGS,
    SILENCE,
    STREAM_RESET,
    create_reflector,
    error_response,
    event_line,
    list_page,
    record,
    thing,
)


def test_the_delay_is_a_little_longer_than_retry_after() -> None:
    f = create_reflector(error_response(429, "slow down", retry_after=7), list_page(7))
    f.next()
    assert f.clock.sleeps == [7 * 1.25]


def test_an_extreme_retry_after_is_clamped() -> None:
    f = create_reflector(
        error_response(429, "slow down", retry_after=10**9), error_response(503, retry_after=-5), list_page(7)
    )
    f.next()
    assert f.clock.sleeps == [60 * 1.25, 1.25]


def test_the_delay_may_be_in_the_details_of_the_status() -> None:
    f = create_reflector(error_response(429, "slow down", details={"retryAfterSeconds": 9}), list_page(7))
    f.next()
    assert f.clock.sleeps == [9 * 1.25]


def test_delays_grow_to_a_limit_and_reset_after_success() -> None:
    f = create_reflector(
        *[ApiError(ApiErrorReason.UNREACHABLE, "connection refused")] * 9,
        list_page(7),
        [STREAM_RESET],
        [SILENCE],
        current_revision=7,
    )
    f.next()
    f.collect_for(1)
    assert f.clock.sleeps == [0.625, 1.25, 2.5, 5, 10, 20, 37.5, 37.5, 37.5, 0.625]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, ApiErrorReason.UNAUTHORIZED), (403, ApiErrorReason.FORBIDDEN), (404, ApiErrorReason.ABSENT)],
)
def test_an_error_is_reported_with_the_message_of_the_server(code: int, reason: ApiErrorReason) -> None:
    message = 'things is forbidden: User "system:serviceaccount:a:b" cannot list resource "things"'
    f = create_reflector(*[error_response(code, message)] * 3)
    while len(f.clock.sleeps) < 2:
        next(f.events)
    status = f.reflector.get_status()
    assert status.stale == f"things: not listed yet; last trouble ({reason}): the API server says {code}: {message}"
    assert (status.revision, status.age) == (None, None)
    assert status.restarts[reason] == 2


def test_an_optional_resource_is_empty_until_the_server_knows_it() -> None:
    absent = Response(404, b"404 page not found")
    f = create_reflector(
        *[absent] * 9, list_page(7, thing("a", 3)), [SILENCE], current_revision=7, codec=OPTIONAL_THINGS
    )
    for _ in range(9):
        assert f.next() == Replaced([], 0)
        status = f.reflector.get_status()
        assert (status.stale, status.revision) == (None, 0) if f.clock.sleeps else status.stale is not None
    assert f.next() == Replaced([record("a", 3)], 7)
    assert (f.reflector.get_status().restarts[ApiErrorReason.ABSENT], max(f.clock.sleeps)) == (9, 37.5)


def test_an_optional_resource_is_empty_after_the_server_drops_it() -> None:
    f = create_reflector(
        list_page(7, thing("a", 3)),
        error_response(404),
        error_response(404),
        list_page(9),
        [SILENCE],
        current_revision=9,
        codec=OPTIONAL_THINGS,
    )
    assert [f.next() for _ in range(2)] == [Replaced([record("a", 3)], 7), Replaced([], 0)]
    assert f.next() == Replaced([], 0)
    assert f.next() == Replaced([], 9)


def test_a_revoked_permission_keeps_the_store_and_is_reported_once_it_is_stale() -> None:
    forbidden = error_response(403, "cannot watch things")
    f = create_reflector(list_page(7), [event_line("ADDED", thing("a", 8))], *[forbidden] * 12, current_revision=8)
    f.next()
    f.next()
    f.collect_for(60)
    assert f.reflector.get_status().stale is None
    f.collect_for(90)
    status = f.reflector.get_status()
    assert status.revision == 8
    assert status.stale is not None
    assert status.stale.endswith("; last trouble (forbidden): the API server says 403: cannot watch things")
    assert f.server.queries[-1]["resourceVersion"] == "8"
