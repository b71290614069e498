"""A watch that ends, in whatever way, is begun again after the last that was told."""

import pytest

from tests.kube.scripted_server import (
    SILENCE,
    STREAM_RESET,
    Reply,
    bookmark,
    follow,
    listed,
    restarted,
    row,
    status,
    thing,
    told,
)
from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.resource_codec import Bookmark, Changed, Replaced


def test_a_watch_that_ends_in_time_is_begun_again_where_it_stopped_at_once() -> None:
    f = follow(listed(7), [told("ADDED", thing("a", 8)), bookmark(20)], [told("ADDED", thing("b", 21)), SILENCE], at=21)
    assert [f.next() for _ in range(4)] == [
        Replaced([], 7),
        Changed(row("a", 8), 8),
        Bookmark(20),
        Changed(row("b", 21), 21),
    ]
    assert f.server.asked[-1]["resourceVersion"] == "20"
    assert f.clock.sleeps == []
    assert restarted(f) == {ApiErrorReason.ENDED: 1}
    assert f.server.streams[0].closed


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([told("ADDED", thing("a", 8)), STREAM_RESET], ApiErrorReason.RESET),
        ([told("ADDED", thing("a", 8)) + told("ADDED", thing("b", 9))[:-9]], ApiErrorReason.TRUNCATED),
        ([told("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{"meta\n'], ApiErrorReason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b"\xff\xfe\x00\n"], ApiErrorReason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b"[" * 100_000 + b"\n"], ApiErrorReason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + told("GUESSED", thing("b", 9))], ApiErrorReason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + told("ADDED", thing("b", 0))], ApiErrorReason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{}}\n'], ApiErrorReason.UNREADABLE),
        (
            [told("ADDED", thing("a", 8)) + told("BOOKMARK", {"metadata": {"resourceVersion": ""}})],
            ApiErrorReason.UNREADABLE,
        ),
        ([told("ADDED", thing("a", 8)), *([b"x" * 1024 * 1024] * 9)], ApiErrorReason.TOO_LARGE),
        ([told("ADDED", thing("a", 8)) + told("ERROR", status(500, "etcd is away"))], ApiErrorReason.SERVER_ERROR),
        ([told("ADDED", thing("a", 8)) + told("ERROR", status(429, "slow"))], ApiErrorReason.BUSY),
    ],
)
def test_a_watch_that_breaks_is_begun_again_after_its_last_whole_event(broken: Reply, reason: ApiErrorReason) -> None:
    f = follow(listed(7), broken, [told("ADDED", thing("b", 9)), SILENCE], at=9)
    assert [f.next() for _ in range(3)] == [Replaced([], 7), Changed(row("a", 8), 8), Changed(row("b", 9), 9)]
    assert f.server.asked[-1]["resourceVersion"] == "8"
    assert restarted(f) == {reason: 1}
    assert f.clock.sleeps == [0.625]
    assert f.server.streams[0].closed


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_begun_again_in_a_circle() -> None:
    f = follow(listed(7), [], [], [], [SILENCE], at=7)
    f.next()
    f.until(5)
    assert restarted(f) == {ApiErrorReason.SHORT: 3}
    assert f.clock.sleeps == [0.625, 1.25, 2.5]


def test_a_watch_that_does_not_end_when_told_is_ended() -> None:
    f = follow(listed(7), [SILENCE], [SILENCE], at=7)
    f.next()
    f.until(360 + 31)
    assert restarted(f) == {ApiErrorReason.OVERDUE: 1}
    assert f.server.streams[0].closed
