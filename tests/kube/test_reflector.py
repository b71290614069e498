"""The events of a reflector: complete, in order, and with the revisions of the server."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.kube.transport import Response
from tests.kube.scripted_server import SILENCE, bookmark, create_reflector, event_line, list_page, record, thing


def test_a_list_of_one_page_is_delivered_whole_and_watched_from_its_revision() -> None:
    f = create_reflector(list_page(7, thing("a", 3), thing("b", 5)), [SILENCE], current_revision=7)
    assert f.next() == Replaced([record("a", 3), record("b", 5)], 7)
    assert f.collect_for(1) == []
    assert f.server.queries[0] == {"limit": "500"}
    assert f.server.queries[1] == {
        "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "360",
    }  # fmt: skip


def test_several_pages_make_one_list() -> None:
    f = create_reflector(
        list_page(7, thing("a", 3), next_page="t1"),
        list_page(7, thing("b", 5), next_page="t2"),
        list_page(7, thing("c", 6)),
    )
    assert f.next() == Replaced([record("a", 3), record("b", 5), record("c", 6)], 7)
    assert [query.get("continue") for query in f.server.queries] == [None, "t1", "t2"]


def test_an_empty_list_is_a_list() -> None:
    assert create_reflector(Response(200, b'{"metadata":{"resourceVersion":"9"},"items":null}')).next() == Replaced(
        [], 9
    )


def test_events_are_delivered_in_order_with_their_revisions() -> None:
    f = create_reflector(
        list_page(7),
        [
            event_line("ADDED", thing("a", 8)),
            event_line("MODIFIED", thing("a", 9)) + bookmark(11) + event_line("DELETED", thing("a", 12)),
            SILENCE,
        ],
        current_revision=12,
    )
    assert [f.next() for _ in range(5)] == [
        Replaced([], 7),
        Changed(record("a", 8), 8, is_new=True),
        Changed(record("a", 9), 9),
        Bookmark(11),
        Deleted(record("a", 12), 12),
    ]


@settings(deadline=None)
@given(st.data())
def test_the_ends_of_chunks_make_no_difference(data: st.DataObject) -> None:
    content = b"".join(
        json.dumps({"type": "ADDED", "object": thing(f"ä-{n}-\N{BANANA}", n)}, ensure_ascii=False).encode() + b"\n"
        for n in range(8, 12)
    )
    cuts = sorted(data.draw(st.lists(st.integers(1, len(content) - 1), max_size=12, unique=True)))
    chunks = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    f = create_reflector(list_page(7), [*chunks, SILENCE], current_revision=11)
    f.next()
    assert [f.next() for _ in range(4)] == [
        Changed(record(f"ä-{n}-\N{BANANA}", n), n, is_new=True) for n in range(8, 12)
    ]


def test_a_stopped_reflector_closes_the_stream() -> None:
    f = create_reflector(list_page(7), [SILENCE], current_revision=7)
    f.next()
    f.collect_for(1)
    f.events.close()
    assert f.server.streams[0].closed
