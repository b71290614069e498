"""Following one resource through everything that a server, a network and a clock can do."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.watch.script import (
    RARITIES,
    SILENCE,
    Following,
    Reply,
    bookmark,
    follow,
    listed,
    refusal,
    row,
    status,
    thing,
    told,
)
from webhook.state.watch.events import Bookmark, Changed, Deleted, Replaced
from webhook.state.watch.failure import Reason, WatchError
from webhook.state.watch.lines import Lines
from webhook.state.watch.ports import Answer

STREAM_RESET = WatchError(Reason.RESET, "connection reset by peer")


def restarted(following: Following) -> dict[Reason, int]:
    """Why lists and watches were begun again."""
    return dict(following.reflector.status().restarts)


def test_a_list_of_one_page_is_told_whole_and_watched_from_its_revision() -> None:
    f = follow(listed(7, thing("a", 3), thing("b", 5)), [SILENCE], at=7)
    assert f.next() == Replaced([row("a", 3), row("b", 5)], 7)
    assert f.until(1) == []
    assert f.server.asked[0] == {"limit": "500"}
    assert f.server.asked[1] == {
        "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "360",
    }  # fmt: skip


def test_pages_make_one_list() -> None:
    f = follow(listed(7, thing("a", 3), more="t1"), listed(7, thing("b", 5), more="t2"), listed(7, thing("c", 6)))
    assert f.next() == Replaced([row("a", 3), row("b", 5), row("c", 6)], 7)
    assert [query.get("continue") for query in f.server.asked] == [None, "t1", "t2"]


def test_an_empty_list_is_a_list() -> None:
    assert follow(Answer(200, b'{"metadata":{"resourceVersion":"9"},"items":null}')).next() == Replaced([], 9)


def test_events_are_told_in_order_with_their_revisions() -> None:
    f = follow(
        listed(7),
        [
            told("ADDED", thing("a", 8)),
            told("MODIFIED", thing("a", 9)) + bookmark(11) + told("DELETED", thing("a", 12)),
            SILENCE,
        ],
        at=12,
    )
    assert [f.next() for _ in range(5)] == [
        Replaced([], 7),
        Changed(row("a", 8), 8),
        Changed(row("a", 9), 9),
        Bookmark(11),
        Deleted(row("a", 12), 12),
    ]


@settings(deadline=None)
@given(st.data())
def test_where_chunks_end_makes_no_difference(data: st.DataObject) -> None:
    whole = b"".join(
        json.dumps({"type": "ADDED", "object": thing(f"ä-{n}-\N{BANANA}", n)}, ensure_ascii=False).encode() + b"\n"
        for n in range(8, 12)
    )
    cuts = sorted(data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=12, unique=True)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    f = follow(listed(7), [*chunks, SILENCE], at=11)
    f.next()
    assert [f.next() for _ in range(4)] == [Changed(row(f"ä-{n}-\N{BANANA}", n), n) for n in range(8, 12)]


# Ends of a watch


def test_a_watch_that_ends_in_time_is_begun_again_where_it_stopped_at_once() -> None:
    f = follow(listed(7), [told("ADDED", thing("a", 8)), bookmark(20)], [told("ADDED", thing("b", 21)), SILENCE], at=21)
    assert [f.next() for _ in range(4)] == [
        Replaced([], 7),
        Changed(row("a", 8), 8),
        Bookmark(20),
        Changed(row("b", 21), 21),
    ]
    assert f.server.asked[-1]["resourceVersion"] == "20"
    assert f.clock.rests == []
    assert restarted(f) == {Reason.ENDED: 1}
    assert f.server.streams[0].closed


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([told("ADDED", thing("a", 8)), STREAM_RESET], Reason.RESET),
        ([told("ADDED", thing("a", 8)) + told("ADDED", thing("b", 9))[:-9]], Reason.TRUNCATED),
        ([told("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{"meta\n'], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b"\xff\xfe\x00\n"], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b"[" * 100_000 + b"\n"], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + told("GUESSED", thing("b", 9))], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + told("ADDED", thing("b", 0))], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + b'{"type":"ADDED","object":{}}\n'], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)) + told("BOOKMARK", {"metadata": {"resourceVersion": ""}})], Reason.UNREADABLE),
        ([told("ADDED", thing("a", 8)), *([b"x" * 1024 * 1024] * 9)], Reason.TOO_LARGE),
        ([told("ADDED", thing("a", 8)) + told("ERROR", status(500, "etcd is away"))], Reason.SERVER_ERROR),
        ([told("ADDED", thing("a", 8)) + told("ERROR", status(429, "slow"))], Reason.BUSY),
    ],
)
def test_a_watch_that_breaks_is_begun_again_after_its_last_whole_event(broken: Reply, reason: Reason) -> None:
    f = follow(listed(7), broken, [told("ADDED", thing("b", 9)), SILENCE], at=9)
    assert [f.next() for _ in range(3)] == [Replaced([], 7), Changed(row("a", 8), 8), Changed(row("b", 9), 9)]
    assert f.server.asked[-1]["resourceVersion"] == "8"
    assert restarted(f) == {reason: 1}
    assert f.clock.rests == [0.625]
    assert f.server.streams[0].closed


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_begun_again_in_a_circle() -> None:
    f = follow(listed(7), [], [], [], [SILENCE], at=7)
    f.next()
    f.until(5)
    assert restarted(f) == {Reason.SHORT: 3}
    assert f.clock.rests == [0.625, 1.25, 2.5]


def test_a_watch_that_does_not_end_when_told_is_ended() -> None:
    f = follow(listed(7), [SILENCE], [SILENCE], at=7)
    f.next()
    f.until(360 + 31)
    assert restarted(f) == {Reason.OVERDUE: 1}
    assert f.server.streams[0].closed


# The revision is gone


@pytest.mark.parametrize(
    "gone",
    [
        refusal(410, "too old resource version: 7 (90)"),
        [told("ERROR", status(410, "too old resource version: 7 (90)", reason="Expired"))],
    ],
)
def test_a_revision_that_is_gone_is_listed_anew(gone: Reply) -> None:
    f = follow(listed(7, thing("a", 3)), gone, listed(90, thing("b", 80)), [SILENCE], at=90)
    assert [f.next() for _ in range(2)] == [Replaced([row("a", 3)], 7), Replaced([row("b", 80)], 90)]
    f.until(1)
    assert f.server.asked[2] == {"limit": "500"}
    assert f.server.asked[3]["resourceVersion"] == "90"
    assert restarted(f) == {Reason.EXPIRED: 1}


def test_an_event_that_the_server_cannot_tell_is_listed_past() -> None:
    broken = [told("ERROR", status(500, "etcd event received with PrevKv=nil", reason="InternalError"))]
    f = follow(listed(7, thing("a", 3)), broken, broken, broken, listed(90, thing("b", 80)), [SILENCE], at=90)
    assert [f.next() for _ in range(2)] == [Replaced([row("a", 3)], 7), Replaced([row("b", 80)], 90)]
    assert restarted(f) == {Reason.SERVER_ERROR: 3}
    assert [query.get("resourceVersion") for query in f.server.asked] == [None, "7", "7", "7", None]


def test_errors_between_watches_that_get_on_are_no_reason_to_list_anew() -> None:
    broken = [told("ERROR", status(500, "etcd is away"))]
    f = follow(listed(7), broken, broken, [bookmark(8)], broken, broken, [bookmark(9), SILENCE], at=9)
    assert [f.next() for _ in range(3)] == [Replaced([], 7), Bookmark(8), Bookmark(9)]
    assert restarted(f) == {Reason.SERVER_ERROR: 4, Reason.ENDED: 1}


def test_a_list_that_can_only_go_on_inconsistently_is_begun_anew_with_larger_pages() -> None:
    f = follow(
        listed(7, thing("a", 3), more="t1"),
        refusal(410, "The provided continue parameter is too old", metadata={"continue": "goes-on-inconsistently"}),
        listed(9, thing("b", 8)),
    )
    assert f.next() == Replaced([row("b", 8)], 9)
    assert [query.get("limit") for query in f.server.asked] == ["500", "500", "2000"]
    assert "goes-on-inconsistently" not in str(f.server.asked)


def test_pages_of_two_revisions_are_no_list() -> None:
    f = follow(listed(7, thing("a", 3), more="t"), listed(8, thing("b", 8)), listed(9, thing("c", 9)))
    assert f.next() == Replaced([row("c", 9)], 9)
    assert restarted(f) == {Reason.INCONSISTENT: 1}


def test_a_list_whose_pages_go_round_in_a_circle_is_given_up() -> None:
    f = follow(listed(7, thing("a", 3), more="t"), listed(7, thing("a", 3), more="t"), listed(9, thing("c", 9)))
    assert f.next() == Replaced([row("c", 9)], 9)
    assert restarted(f) == {Reason.UNREADABLE: 1}


def test_a_cluster_that_went_back_in_time_is_listed_anew() -> None:
    f = follow(listed(700, thing("a", 600)), [SILENCE], listed(90, thing("b", 80)), [SILENCE], at=90)
    assert f.next() == Replaced([row("a", 600)], 700)
    assert f.until(20) == [Replaced([row("b", 80)], 90)]
    assert restarted(f) == {Reason.REWOUND: 1}
    assert f.reflector.status().revision == 90


def test_what_was_asked_before_the_cluster_went_back_raises_no_doubt_after() -> None:
    f = follow(listed(700), [SILENCE], listed(90), [SILENCE], at=750)
    f.next()
    f.until(16)
    f.server.at = 90
    f.until(200)
    assert restarted(f) == {Reason.REWOUND: 1}
    assert f.reflector.status().stale is None


# Refusals


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata":{"resourceVersion":"0"},"items":[]}', b"{" * 99999]
)
def test_a_page_that_is_none_is_asked_for_again(body: bytes) -> None:
    f = follow(Answer(200, body), listed(7))
    assert f.next() == Replaced([], 7)
    assert restarted(f) == {Reason.UNREADABLE: 1}


def test_a_server_that_asks_to_wait_is_waited_for_and_a_little_longer() -> None:
    f = follow(refusal(429, "slow down", retry_after=7), listed(7))
    f.next()
    assert f.clock.rests == [7 * 1.25]


def test_a_server_that_asks_to_wait_for_ever_is_asked_again_within_bounds() -> None:
    f = follow(refusal(429, "slow down", retry_after=10**9), refusal(503, retry_after=-5), listed(7))
    f.next()
    assert f.clock.rests == [60 * 1.25, 1.25]


def test_how_long_to_wait_may_stand_in_the_status() -> None:
    f = follow(refusal(429, "slow down", details={"retryAfterSeconds": 9}), listed(7))
    f.next()
    assert f.clock.rests == [9 * 1.25]


def test_waits_grow_up_to_a_bound_and_begin_anew_after_success() -> None:
    f = follow(*[WatchError(Reason.UNREACHABLE, "connection refused")] * 9, listed(7), [STREAM_RESET], [SILENCE], at=7)
    f.next()
    f.until(1)
    assert f.clock.rests == [0.625, 1.25, 2.5, 5, 10, 20, 37.5, 37.5, 37.5, 0.625]


@pytest.mark.parametrize(
    ("code", "reason"), [(401, Reason.UNAUTHORIZED), (403, Reason.FORBIDDEN), (404, Reason.ABSENT)]
)
def test_a_refusal_is_told_in_the_servers_words(code: int, reason: Reason) -> None:
    words = 'things is forbidden: User "system:serviceaccount:a:b" cannot list resource "things"'
    f = follow(*[refusal(code, words)] * 3)
    while len(f.clock.rests) < 2:
        next(f.run)
    now = f.reflector.status()
    assert now.stale == f"things: not listed yet; last trouble ({reason}): the API server says {code}: {words}"
    assert (now.revision, now.age) == (None, None)
    assert now.restarts[reason] == 2


def test_of_what_the_server_does_not_know_there_is_none_until_it_does() -> None:
    absent = Answer(404, b"404 page not found")
    f = follow(*[absent] * 9, listed(7, thing("a", 3)), [SILENCE], at=7, reading=RARITIES)
    for _ in range(9):
        assert f.next() == Replaced([], 0)
        now = f.reflector.status()
        assert (now.stale, now.revision) == (None, 0) if f.clock.rests else now.stale is not None
    assert f.next() == Replaced([row("a", 3)], 7)
    assert (f.reflector.status().restarts[Reason.ABSENT], max(f.clock.rests)) == (9, 37.5)


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
    assert f.reflector.status().stale is None
    f.until(90)
    now = f.reflector.status()
    assert now.revision == 8
    assert now.stale is not None
    assert now.stale.endswith("; last trouble (forbidden): the API server says 403: cannot watch things")
    assert f.server.asked[-1]["resourceVersion"] == "8"


# Freshness


def test_a_view_is_as_old_as_the_beginning_of_its_list() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    begun = f.clock.time
    f.next()
    f.until(3)
    assert f.reflector.status().age == pytest.approx(f.clock.time - begun)


def test_an_answer_that_takes_long_says_how_it_was_when_it_was_asked() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.server.slow = 5.0
    begun = f.clock.time
    f.next()
    next(f.run)
    assert f.reflector.status().age == pytest.approx(f.clock.time - begun)
    f.until(15)
    asked = f.clock.time
    while f.server.questions < 2:
        asked = f.clock.time
        next(f.run)
    age = f.reflector.status().age
    assert age is not None
    assert age >= f.clock.time - asked - 0.25 >= 4.5


def test_an_idle_cluster_is_current_although_the_watch_is_silent() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(300)
    now = f.reflector.status()
    assert now.age is not None
    assert now.age < 16
    assert now.stale is None
    assert restarted(f) == {}
    assert f.server.questions == 20


def test_an_idle_resource_in_a_busy_cluster_is_current_once_a_bookmark_has_come() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(15)
    f.server.at = 50
    f.until(16)
    age = f.reflector.status().age
    assert age is not None
    assert age > 15
    f.server.streams[0].goes_on(bookmark(50), SILENCE)
    f.until(1)
    age = f.reflector.status().age
    assert age is not None
    assert age < 3


def test_a_watch_that_does_not_get_to_where_the_cluster_is_is_replaced_by_a_short_one() -> None:
    f = follow(listed(7), [SILENCE], [bookmark(99)], [SILENCE], at=99)
    f.next()
    assert f.until(95) == [Bookmark(99)]
    assert [query.get("timeoutSeconds") for query in f.server.asked] == [None, "360", "10", "360"]
    assert [query.get("resourceVersion") for query in f.server.asked] == [None, "7", "7", "99"]
    assert restarted(f) == {Reason.SILENT: 1, Reason.ENDED: 1}
    assert f.reflector.status().stale is None


def test_whoever_is_in_a_hurry_knows_within_seconds_how_the_cluster_is() -> None:
    f = follow(listed(7), [SILENCE], [bookmark(50), SILENCE], [SILENCE], at=7)
    f.next()
    f.server.at = 50
    f.reflector.hurry()
    assert f.until(3) == [Bookmark(50)]
    assert [query.get("timeoutSeconds") for query in f.server.asked] == [None, "360", "4"]
    assert f.server.streams[0].closed
    assert f.server.questions == 1
    age = f.reflector.status().age
    assert age is not None
    assert age < 3
    assert restarted(f) == {}


def test_what_a_dead_connection_kept_back_comes_with_the_next_watch() -> None:
    f = follow(listed(7), [SILENCE], [told("DELETED", thing("a", 8)), bookmark(99), SILENCE], at=99)
    f.next()
    assert f.until(95) == [Deleted(row("a", 8), 8), Bookmark(99)]


def test_bookmarks_that_stay_behind_do_not_pass_for_news() -> None:
    """An API server whose watch cache hangs goes on to send the bookmark it has."""
    f = follow(listed(7), listed(99), at=99)
    f.server.otherwise = [bookmark(8), SILENCE]
    f.next()
    assert Replaced([], 99) not in f.until(290)
    f.server.at = 99
    assert Replaced([], 99) in f.until(20)
    assert f.reflector.status().revision == 99
    assert restarted(f)[Reason.BEHIND] == 1
    assert restarted(f)[Reason.SILENT] >= 2


def test_a_view_that_nobody_can_confirm_grows_old_and_says_why() -> None:
    f = follow(listed(7), [SILENCE], [SILENCE], at=7)
    f.next()
    f.server.at = 7
    f.until(1)
    f.server.at = WatchError(Reason.TIMEOUT, "no answer within 10 s")
    f.until(130)
    now = f.reflector.status()
    assert now.stale is not None
    assert now.stale.startswith("things: not known to be current for 13")
    assert now.stale.endswith("; last trouble (timeout): no answer within 10 s")
    assert restarted(f) == {}


def test_a_process_that_was_frozen_is_old_when_it_wakes_until_it_has_asked() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.clock.time += 3600
    assert f.reflector.status().stale is not None
    next(f.run)
    assert f.reflector.status().stale is None


def _frozen_with_a_question_open() -> Following:
    """A process that sleeps for minutes while it waits for a bookmark."""
    f = follow(listed(7), [SILENCE], [bookmark(99)], [SILENCE], at=99)
    f.next()
    f.until(20)
    f.clock.time += 320
    return f


def test_what_came_while_a_process_was_frozen_is_read_before_anything_is_doubted() -> None:
    f = _frozen_with_a_question_open()
    f.server.streams[0].goes_on(bookmark(99), SILENCE)
    assert f.until(1) == [Bookmark(99)]
    assert restarted(f) == {}
    assert f.reflector.status().stale is None


def test_a_process_that_was_frozen_watches_anew_before_it_lists_anew() -> None:
    f = _frozen_with_a_question_open()
    assert f.until(20) == [Bookmark(99)]
    assert restarted(f) == {Reason.SILENT: 1, Reason.ENDED: 1}
    assert f.reflector.status().lists == 1


def test_a_clock_that_jumps_back_makes_nothing_younger_than_now() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.clock.time -= 500
    assert f.reflector.status().age == 0


def test_whoever_stops_lets_go_of_the_stream() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.run.close()
    assert f.server.streams[0].closed


def test_a_line_may_be_as_long_as_the_bound_and_no_longer() -> None:
    assert list(Lines(4).feed(b"abcd\n\n \nef\n")) == [b"abcd", b"ef"]
    with pytest.raises(WatchError, match="more than 4 bytes"):
        list(Lines(4).feed(b"abcde"))
