"""What a server lists and tells of a resource is told on whole, in order, with its revisions."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kube.scripted_server import SILENCE, bookmark, follow, listed, row, thing, told
from webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from webhook.kube.transport import Response


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
    assert follow(Response(200, b'{"metadata":{"resourceVersion":"9"},"items":null}')).next() == Replaced([], 9)


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


def test_whoever_stops_lets_go_of_the_stream() -> None:
    f = follow(listed(7), [SILENCE], at=7)
    f.next()
    f.until(1)
    f.run.close()
    assert f.server.streams[0].closed
