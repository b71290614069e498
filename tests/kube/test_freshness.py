"""How old a view is, who confirms it, and what follows where nobody does."""

import pytest

from tests.kube.scripted_server import SILENCE, Following, bookmark, follow, listed, restarted, row, thing, told
from webhook.kube.api_errors import ApiError, ApiErrorReason
from webhook.kube.resource_codec import Bookmark, Deleted, Replaced


def test_a_view_is_as_old_as_the_beginning_of_its_list() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    begun = f.clock.time
    f.next()
    f.until(3)
    assert f.reflector.get_status().age == pytest.approx(f.clock.time - begun)


def test_an_answer_that_takes_long_says_how_it_was_when_it_was_asked() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.server.slow = 5.0
    begun = f.clock.time
    f.next()
    next(f.run)
    assert f.reflector.get_status().age == pytest.approx(f.clock.time - begun)
    f.until(15)
    asked = f.clock.time
    while f.server.questions < 2:
        asked = f.clock.time
        next(f.run)
    age = f.reflector.get_status().age
    assert age is not None
    assert age >= f.clock.time - asked - 0.25 >= 4.5


def test_an_idle_cluster_is_current_although_the_watch_is_silent() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(300)
    now = f.reflector.get_status()
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
    age = f.reflector.get_status().age
    assert age is not None
    assert age > 15
    f.server.streams[0].goes_on(bookmark(50), SILENCE)
    f.until(1)
    age = f.reflector.get_status().age
    assert age is not None
    assert age < 3


def test_a_watch_that_does_not_get_to_where_the_cluster_is_is_replaced_by_a_short_one() -> None:
    f = follow(listed(7), [SILENCE], [bookmark(99)], [SILENCE], at=99)
    f.next()
    assert f.until(95) == [Bookmark(99)]
    assert [query.get("timeoutSeconds") for query in f.server.asked] == [None, "360", "10", "360"]
    assert [query.get("resourceVersion") for query in f.server.asked] == [None, "7", "7", "99"]
    assert restarted(f) == {ApiErrorReason.SILENT: 1, ApiErrorReason.ENDED: 1}
    assert f.reflector.get_status().stale is None


def test_whoever_is_in_a_hurry_knows_within_seconds_how_the_cluster_is() -> None:
    f = follow(listed(7), [SILENCE], [bookmark(50), SILENCE], [SILENCE], at=7)
    f.next()
    f.server.at = 50
    f.reflector.request_progress()
    assert f.until(3) == [Bookmark(50)]
    assert [query.get("timeoutSeconds") for query in f.server.asked] == [None, "360", "4"]
    assert f.server.streams[0].closed
    assert f.server.questions == 1
    age = f.reflector.get_status().age
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
    assert f.reflector.get_status().revision == 99
    assert restarted(f)[ApiErrorReason.BEHIND] == 1
    assert restarted(f)[ApiErrorReason.SILENT] >= 2


def test_a_view_that_nobody_can_confirm_grows_old_and_says_why() -> None:
    f = follow(listed(7), [SILENCE], [SILENCE], at=7)
    f.next()
    f.server.at = 7
    f.until(1)
    f.server.at = ApiError(ApiErrorReason.TIMEOUT, "no answer within 10 s")
    f.until(130)
    now = f.reflector.get_status()
    assert now.stale is not None
    assert now.stale.startswith("things: not known to be current for 13")
    assert now.stale.endswith("; last trouble (timeout): no answer within 10 s")
    assert restarted(f) == {}


def test_a_process_that_was_frozen_is_old_when_it_wakes_until_it_has_asked() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.clock.time += 3600
    assert f.reflector.get_status().stale is not None
    next(f.run)
    assert f.reflector.get_status().stale is None


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
    assert f.reflector.get_status().stale is None


def test_a_process_that_was_frozen_watches_anew_before_it_lists_anew() -> None:
    f = _frozen_with_a_question_open()
    assert f.until(20) == [Bookmark(99)]
    assert restarted(f) == {ApiErrorReason.SILENT: 1, ApiErrorReason.ENDED: 1}
    assert f.reflector.get_status().lists == 1


def test_a_clock_that_jumps_back_makes_nothing_younger_than_now() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.clock.time -= 500
    assert f.reflector.get_status().age == 0
