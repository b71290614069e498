"""Restarts of a watch: after any end, from the last event that was delivered."""

import pytest

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.resource_codec import Bookmark, Changed, Replaced
from tests.kube.scripted_server import (
    SILENCE,
    STREAM_RESET,
    Reply,
    bookmark,
    count_restarts,
    create_reflector,
    event_line,
    list_page,
    record,
    status,
    thing,
)


def test_a_watch_that_ends_in_time_is_restarted_at_once_from_its_last_revision() -> None:
    f = create_reflector(
        list_page(7),
        [event_line("ADDED", thing("a", 8)), bookmark(20)],
        [event_line("ADDED", thing("b", 21)), SILENCE],
        current_revision=21,
    )
    assert [f.next() for _ in range(4)] == [
        Replaced([], 7),
        Changed(record("a", 8), 8, is_new=True),
        Bookmark(20),
        Changed(record("b", 21), 21, is_new=True),
    ]
    assert f.server.queries[-1]["resourceVersion"] == "20"
    assert f.clock.sleeps == []
    assert count_restarts(f) == {ApiErrorReason.ENDED: 1}
    assert f.server.streams[0].closed


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([event_line("ADDED", thing("a", 8)), STREAM_RESET], ApiErrorReason.RESET),
        ([event_line("ADDED", thing("a", 8)) + event_line("ADDED", thing("b", 9))[:-9]], ApiErrorReason.TRUNCATED),
        ([event_line("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{"meta\n'], ApiErrorReason.UNREADABLE),
        ([event_line("ADDED", thing("a", 8)) + b"\xff\xfe\x00\n"], ApiErrorReason.UNREADABLE),
        ([event_line("ADDED", thing("a", 8)) + b"[" * 100_000 + b"\n"], ApiErrorReason.UNREADABLE),
        ([event_line("ADDED", thing("a", 8)) + event_line("GUESSED", thing("b", 9))], ApiErrorReason.UNREADABLE),
        ([event_line("ADDED", thing("a", 8)) + event_line("ADDED", thing("b", 0))], ApiErrorReason.UNREADABLE),
        ([event_line("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{}}\n'], ApiErrorReason.UNREADABLE),
        (
            [event_line("ADDED", thing("a", 8)) + event_line("BOOKMARK", {"metadata": {"resourceVersion": ""}})],
            ApiErrorReason.UNREADABLE,
        ),
        ([event_line("ADDED", thing("a", 8)), *([b"x" * 1024 * 1024] * 9)], ApiErrorReason.TOO_LARGE),
        (
            [event_line("ADDED", thing("a", 8)) + event_line("ERROR", status(500, "etcd is away"))],
            ApiErrorReason.SERVER_ERROR,
        ),
        ([event_line("ADDED", thing("a", 8)) + event_line("ERROR", status(429, "slow"))], ApiErrorReason.BUSY),
    ],
)
def test_a_broken_watch_is_restarted_after_its_last_complete_event(broken: Reply, reason: ApiErrorReason) -> None:
    f = create_reflector(list_page(7), broken, [event_line("ADDED", thing("b", 9)), SILENCE], current_revision=9)
    assert [f.next() for _ in range(3)] == [
        Replaced([], 7),
        Changed(record("a", 8), 8, is_new=True),
        Changed(record("b", 9), 9, is_new=True),
    ]
    assert f.server.queries[-1]["resourceVersion"] == "8"
    assert count_restarts(f) == {reason: 1}
    assert f.clock.sleeps == [0.625]
    assert f.server.streams[0].closed


def test_watches_that_end_at_once_are_restarted_with_growing_delays() -> None:
    f = create_reflector(list_page(7), [], [], [], [SILENCE], current_revision=7)
    f.next()
    f.collect_for(5)
    assert count_restarts(f) == {ApiErrorReason.SHORT: 3}
    assert f.clock.sleeps == [0.625, 1.25, 2.5]


def test_a_watch_that_outlives_its_timeout_is_closed() -> None:
    f = create_reflector(list_page(7), [SILENCE], [SILENCE], current_revision=7)
    f.next()
    f.collect_for(360 + 31)
    assert count_restarts(f) == {ApiErrorReason.OVERDUE: 1}
    assert f.server.streams[0].closed
