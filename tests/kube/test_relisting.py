"""Relisting: after an expired revision or an invalid list, and only then."""

import pytest

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.resource_codec import Bookmark, Replaced
from tallygate.kube.transport import Response
from tests.kube.scripted_server import (
    SILENCE,
    Reply,
    bookmark,
    count_restarts,
    create_reflector,
    error_response,
    event_line,
    list_page,
    record,
    status,
    thing,
)


@pytest.mark.parametrize(
    "expired",
    [
        error_response(410, "too old resource version: 7 (90)"),
        [event_line("ERROR", status(410, "too old resource version: 7 (90)", reason="Expired"))],
    ],
)
def test_an_expired_revision_is_relisted(expired: Reply) -> None:
    f = create_reflector(
        list_page(7, thing("a", 3)), expired, list_page(90, thing("b", 80)), [SILENCE], current_revision=90
    )
    assert [f.next() for _ in range(2)] == [Replaced([record("a", 3)], 7), Replaced([record("b", 80)], 90)]
    f.collect_for(1)
    assert f.server.queries[2] == {"limit": "500"}
    assert f.server.queries[3]["resourceVersion"] == "90"
    assert count_restarts(f) == {ApiErrorReason.EXPIRED: 1}


def test_a_watch_that_fails_three_times_at_one_revision_is_relisted() -> None:
    broken = [event_line("ERROR", status(500, "etcd event received with PrevKv=nil", reason="InternalError"))]
    f = create_reflector(
        list_page(7, thing("a", 3)),
        broken,
        broken,
        broken,
        list_page(90, thing("b", 80)),
        [SILENCE],
        current_revision=90,
    )
    assert [f.next() for _ in range(2)] == [Replaced([record("a", 3)], 7), Replaced([record("b", 80)], 90)]
    assert count_restarts(f) == {ApiErrorReason.SERVER_ERROR: 3}
    assert [query.get("resourceVersion") for query in f.server.queries] == [None, "7", "7", "7", None]


def test_errors_between_successful_watches_cause_no_relist() -> None:
    broken = [event_line("ERROR", status(500, "etcd is away"))]
    f = create_reflector(
        list_page(7), broken, broken, [bookmark(8)], broken, broken, [bookmark(9), SILENCE], current_revision=9
    )
    assert [f.next() for _ in range(3)] == [Replaced([], 7), Bookmark(8), Bookmark(9)]
    assert count_restarts(f) == {ApiErrorReason.SERVER_ERROR: 4, ApiErrorReason.ENDED: 1}


def test_a_list_with_an_expired_continue_token_is_restarted_with_larger_pages() -> None:
    f = create_reflector(
        list_page(7, thing("a", 3), next_page="t1"),
        error_response(
            410, "The provided continue parameter is too old", metadata={"continue": "goes-on-inconsistently"}
        ),
        list_page(9, thing("b", 8)),
    )
    assert f.next() == Replaced([record("b", 8)], 9)
    assert [query.get("limit") for query in f.server.queries] == ["500", "500", "2000"]
    assert "goes-on-inconsistently" not in str(f.server.queries)


def test_a_list_with_pages_of_two_revisions_is_restarted() -> None:
    f = create_reflector(
        list_page(7, thing("a", 3), next_page="t"), list_page(8, thing("b", 8)), list_page(9, thing("c", 9))
    )
    assert f.next() == Replaced([record("c", 9)], 9)
    assert count_restarts(f) == {ApiErrorReason.INCONSISTENT: 1}


def test_a_list_whose_pages_repeat_is_restarted() -> None:
    f = create_reflector(
        list_page(7, thing("a", 3), next_page="t"),
        list_page(7, thing("a", 3), next_page="t"),
        list_page(9, thing("c", 9)),
    )
    assert f.next() == Replaced([record("c", 9)], 9)
    assert count_restarts(f) == {ApiErrorReason.UNREADABLE: 1}


def test_a_cluster_with_a_lower_revision_is_relisted() -> None:
    f = create_reflector(
        list_page(700, thing("a", 600)), [SILENCE], list_page(90, thing("b", 80)), [SILENCE], current_revision=90
    )
    assert f.next() == Replaced([record("a", 600)], 700)
    assert f.collect_for(20) == [Replaced([record("b", 80)], 90)]
    assert count_restarts(f) == {ApiErrorReason.REWOUND: 1}
    assert f.reflector.get_status().revision == 90


def test_a_revision_from_before_the_rewind_does_not_make_the_store_stale() -> None:
    f = create_reflector(list_page(700), [SILENCE], list_page(90), [SILENCE], current_revision=750)
    f.next()
    f.collect_for(16)
    f.server.current_revision = 90
    f.collect_for(200)
    assert count_restarts(f) == {ApiErrorReason.REWOUND: 1}
    assert f.reflector.get_status().stale is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata":{"resourceVersion":"0"},"items":[]}', b"{" * 99999]
)
def test_an_invalid_page_is_requested_again(body: bytes) -> None:
    f = create_reflector(Response(200, body), list_page(7))
    assert f.next() == Replaced([], 7)
    assert count_restarts(f) == {ApiErrorReason.UNREADABLE: 1}
