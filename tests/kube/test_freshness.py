"""The age of a watched store: the evidence that confirms it, and the restarts where evidence is missing."""

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.resource_codec import Bookmark, Deleted, Replaced
from tests.kube.scripted_server import (
    SILENCE,
    ReflectorRun,
    bookmark,
    count_restarts,
    create_reflector,
    event_line,
    list_page,
    record,
    thing,
)


def test_the_age_counts_from_the_start_of_the_list() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    started_at = f.clock.time
    f.next()
    f.collect_for(3)
    assert f.reflector.get_status().age == pytest.approx(f.clock.time - started_at)


def test_the_age_counts_from_the_start_of_a_slow_request() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.server.latency_seconds = 5.0
    started_at = f.clock.time
    f.next()
    next(f.events)
    assert f.reflector.get_status().age == pytest.approx(f.clock.time - started_at)
    f.collect_for(15)
    requested_at = f.clock.time
    while f.server.revision_requests < 2:
        requested_at = f.clock.time
        next(f.events)
    age = f.reflector.get_status().age
    assert age is not None
    assert age >= f.clock.time - requested_at - 0.25 >= 4.5


def test_an_idle_cluster_is_current_during_a_silent_watch() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.next()
    f.collect_for(300)
    status = f.reflector.get_status()
    assert status.age is not None
    assert status.age < 16
    assert status.stale is None
    assert count_restarts(f) == {}
    assert f.server.revision_requests == 20


def test_an_idle_resource_in_a_busy_cluster_is_current_after_a_bookmark() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.next()
    f.collect_for(15)
    f.server.current_revision = 50
    f.collect_for(16)
    age = f.reflector.get_status().age
    assert age is not None
    assert age > 15
    f.server.streams[0].replace_script(bookmark(50), SILENCE)
    f.collect_for(1)
    age = f.reflector.get_status().age
    assert age is not None
    assert age < 3


def test_a_watch_that_does_not_reach_the_current_revision_is_replaced_by_a_short_watch() -> None:
    f = create_reflector(list_page(7), [SILENCE], [bookmark(99)], [SILENCE], current_revision=99)
    f.next()
    assert f.collect_for(95) == [Bookmark(99)]
    assert [query.get("timeoutSeconds") for query in f.server.queries] == [None, "360", "10", "360"]
    assert [query.get("resourceVersion") for query in f.server.queries] == [None, "7", "7", "99"]
    assert count_restarts(f) == {ApiErrorReason.SILENT: 1, ApiErrorReason.ENDED: 1}
    assert f.reflector.get_status().stale is None


def test_a_progress_request_confirms_the_store_within_seconds() -> None:
    f = create_reflector(list_page(7), [SILENCE], [bookmark(50), SILENCE], [SILENCE], current_revision=7)
    f.next()
    f.server.current_revision = 50
    f.reflector.request_progress()
    assert f.collect_for(3) == [Bookmark(50)]
    assert [query.get("timeoutSeconds") for query in f.server.queries] == [None, "360", "4"]
    assert f.server.streams[0].closed
    assert f.server.revision_requests == 1
    age = f.reflector.get_status().age
    assert age is not None
    assert age < 3
    assert count_restarts(f) == {}


def test_the_next_watch_delivers_the_events_that_a_dead_connection_lost() -> None:
    f = create_reflector(
        list_page(7), [SILENCE], [event_line("DELETED", thing("a", 8)), bookmark(99), SILENCE], current_revision=99
    )
    f.next()
    assert f.collect_for(95) == [Deleted(record("a", 8), 8), Bookmark(99)]


def test_old_bookmarks_do_not_confirm_the_store() -> None:
    """Simulate an API server whose watch cache hangs: it continues to send its old bookmark."""
    f = create_reflector(list_page(7), list_page(99), current_revision=99)
    f.server.default_stream = [bookmark(8), SILENCE]
    f.next()
    assert Replaced([], 99) not in f.collect_for(290)
    f.server.current_revision = 99
    assert Replaced([], 99) in f.collect_for(20)
    assert f.reflector.get_status().revision == 99
    assert count_restarts(f)[ApiErrorReason.BEHIND] == 1
    assert count_restarts(f)[ApiErrorReason.SILENT] >= 2


def test_an_unconfirmed_store_becomes_stale_and_reports_the_reason() -> None:
    f = create_reflector(list_page(7), [SILENCE], [SILENCE], current_revision=7)
    f.next()
    f.server.current_revision = 7
    f.collect_for(1)
    f.server.current_revision = ApiError(ApiErrorReason.TIMEOUT, "no answer within 10 s")
    f.collect_for(130)
    status = f.reflector.get_status()
    assert status.stale is not None
    assert status.stale.startswith("things: not known to be current for 13")
    assert status.stale.endswith("; last trouble (timeout): no answer within 10 s")
    assert count_restarts(f) == {}


def test_a_resumed_process_is_stale_until_its_first_request() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.next()
    f.collect_for(1)
    f.clock.time += 3600
    assert f.reflector.get_status().stale is not None
    next(f.events)
    assert f.reflector.get_status().stale is None


def _freeze_during_revision_request() -> ReflectorRun:
    """Return a reflector whose process slept for minutes while it waited for a bookmark."""
    f = create_reflector(list_page(7), [SILENCE], [bookmark(99)], [SILENCE], current_revision=99)
    f.next()
    f.collect_for(20)
    f.clock.time += 320
    return f


def test_a_resumed_process_reads_received_events_before_it_restarts_the_watch() -> None:
    f = _freeze_during_revision_request()
    f.server.streams[0].replace_script(bookmark(99), SILENCE)
    assert f.collect_for(1) == [Bookmark(99)]
    assert count_restarts(f) == {}
    assert f.reflector.get_status().stale is None


def test_a_resumed_process_restarts_the_watch_before_it_relists() -> None:
    f = _freeze_during_revision_request()
    assert f.collect_for(20) == [Bookmark(99)]
    assert count_restarts(f) == {ApiErrorReason.SILENT: 1, ApiErrorReason.ENDED: 1}
    assert f.reflector.get_status().lists == 1


def test_the_age_is_never_negative_after_the_clock_jumps_back() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.next()
    f.collect_for(1)
    f.clock.time -= 500
    assert f.reflector.get_status().age == 0
