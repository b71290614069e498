"""Where a revision is gone or a list is none, everything is listed anew, and only then."""

import pytest

from tests.kube.scripted_server import (
    SILENCE,
    Reply,
    bookmark,
    follow,
    listed,
    refusal,
    restarted,
    row,
    status,
    thing,
    told,
)
from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.resource_codec import Bookmark, Replaced
from webhook.kube.transport import Response


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
    assert restarted(f) == {ApiErrorReason.EXPIRED: 1}


def test_an_event_that_the_server_cannot_tell_is_listed_past() -> None:
    broken = [told("ERROR", status(500, "etcd event received with PrevKv=nil", reason="InternalError"))]
    f = follow(listed(7, thing("a", 3)), broken, broken, broken, listed(90, thing("b", 80)), [SILENCE], at=90)
    assert [f.next() for _ in range(2)] == [Replaced([row("a", 3)], 7), Replaced([row("b", 80)], 90)]
    assert restarted(f) == {ApiErrorReason.SERVER_ERROR: 3}
    assert [query.get("resourceVersion") for query in f.server.asked] == [None, "7", "7", "7", None]


def test_errors_between_watches_that_get_on_are_no_reason_to_list_anew() -> None:
    broken = [told("ERROR", status(500, "etcd is away"))]
    f = follow(listed(7), broken, broken, [bookmark(8)], broken, broken, [bookmark(9), SILENCE], at=9)
    assert [f.next() for _ in range(3)] == [Replaced([], 7), Bookmark(8), Bookmark(9)]
    assert restarted(f) == {ApiErrorReason.SERVER_ERROR: 4, ApiErrorReason.ENDED: 1}


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
    assert restarted(f) == {ApiErrorReason.INCONSISTENT: 1}


def test_a_list_whose_pages_go_round_in_a_circle_is_given_up() -> None:
    f = follow(listed(7, thing("a", 3), more="t"), listed(7, thing("a", 3), more="t"), listed(9, thing("c", 9)))
    assert f.next() == Replaced([row("c", 9)], 9)
    assert restarted(f) == {ApiErrorReason.UNREADABLE: 1}


def test_a_cluster_that_went_back_in_time_is_listed_anew() -> None:
    f = follow(listed(700, thing("a", 600)), [SILENCE], listed(90, thing("b", 80)), [SILENCE], at=90)
    assert f.next() == Replaced([row("a", 600)], 700)
    assert f.until(20) == [Replaced([row("b", 80)], 90)]
    assert restarted(f) == {ApiErrorReason.REWOUND: 1}
    assert f.reflector.get_status().revision == 90


def test_what_was_asked_before_the_cluster_went_back_raises_no_doubt_after() -> None:
    f = follow(listed(700), [SILENCE], listed(90), [SILENCE], at=750)
    f.next()
    f.until(16)
    f.server.at = 90
    f.until(200)
    assert restarted(f) == {ApiErrorReason.REWOUND: 1}
    assert f.reflector.get_status().stale is None


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata":{"resourceVersion":"0"},"items":[]}', b"{" * 99999]
)
def test_a_page_that_is_none_is_asked_for_again(body: bytes) -> None:
    f = follow(Response(200, body), listed(7))
    assert f.next() == Replaced([], 7)
    assert restarted(f) == {ApiErrorReason.UNREADABLE: 1}
