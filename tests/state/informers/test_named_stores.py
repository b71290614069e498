"""Namespaces and nodes as they are now."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from webhook.kube.api_errors import ApiError
from webhook.kube.resource_codec import Bookmark, Replaced, WatchEvent
from webhook.state.informers.named_stores import (
    NAMESPACE_CODEC,
    NODE_CODEC,
    MemberNamespaces,
    NamespaceRecord,
    NamespaceStore,
    NodeRecord,
    NodeStore,
)
from webhook.state.ports import NamespaceLister


def item(name: str, revision: int, uid: str = "", **more: Any) -> dict[str, Any]:
    """An object as the API server sends it."""
    labels = more.pop("labels", None)
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(revision), "labels": labels}, **more}


def namespace(kind: str, content: dict[str, Any]) -> WatchEvent[NamespaceRecord]:
    """What a line of a watch says."""
    return NAMESPACE_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def namespaces(revision: int, *items: dict[str, Any]) -> Replaced[NamespaceRecord]:
    """What a list says."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    return Replaced(NAMESPACE_CODEC.decode_page(body).items, revision)


def is_vision(name: str, labels: Mapping[str, str]) -> bool:
    """A selector."""
    return name != "excluded" and labels.get("team") == "vision"


VISION = {"team": "vision"}


def test_a_view_is_a_lister_and_knows_none_before_the_first_list() -> None:
    view: NamespaceStore = NamespaceStore()
    lister: NamespaceLister = view
    assert (lister.labels("a"), view.revision, view.list_members("k", is_vision)) == (None, None, None)
    view.apply(namespaces(7, item("a", 3, labels=VISION), item("b", 5)))
    assert (lister.labels("a"), lister.labels("b"), lister.labels("c")) == (VISION, {}, None)
    assert (view.revision, len(view)) == (7, 2)


def test_labels_follow_the_events_and_old_ones_are_passed_over() -> None:
    view = NamespaceStore()
    view.apply(namespaces(7, item("a", 3)))
    view.apply(namespace("MODIFIED", item("a", 9, labels=VISION)))
    view.apply(namespace("MODIFIED", item("a", 8)))
    view.apply(namespace("ADDED", item("b", 10)))
    view.apply(namespace("DELETED", item("b", 11)))
    view.apply(namespace("ADDED", item("b", 10)))
    assert (view.labels("a"), view.labels("b"), view.revision) == (VISION, None, 11)


def test_members_are_the_namespaces_selected_as_of_the_revision() -> None:
    view = NamespaceStore()
    view.apply(namespaces(7, item("a", 3, labels=VISION), item("b", 5), item("excluded", 6, labels=VISION)))
    assert view.list_members("k", is_vision) == MemberNamespaces(frozenset({"a"}), 7, unchanged_since=7)
    view.apply(Bookmark(20))
    assert view.list_members("k", is_vision) == MemberNamespaces(frozenset({"a"}), 20, unchanged_since=7)
    view.apply(namespace("MODIFIED", item("b", 21, labels=VISION)))
    view.apply(namespace("DELETED", item("a", 22)))
    assert view.list_members("k", is_vision) == MemberNamespaces(frozenset({"b"}), 22, unchanged_since=22)


def test_members_are_worked_out_once_for_as_long_as_nothing_changes() -> None:
    view, asked = NamespaceStore(), []

    def selects(name: str, _: Mapping[str, str]) -> bool:
        asked.append(name)
        return True

    view.apply(namespaces(7, item("a", 3)))
    view.list_members("k", selects)
    view.apply(namespace("MODIFIED", item("a", 8)))
    view.list_members("k", selects)
    assert asked == ["a"]


def test_who_listens_is_told_what_came_went_or_changed_and_nothing_else() -> None:
    view = NamespaceStore()
    told: list[tuple[set[str], int | None]] = []
    view.add_listener(lambda names: told.append((set(names), view.revision)))
    view.apply(namespaces(7, item("a", 3), item("b", 4)))
    view.apply(namespace("MODIFIED", item("a", 8)))
    view.apply(namespace("MODIFIED", item("a", 9, labels=VISION)))
    view.apply(namespace("DELETED", item("b", 10)))
    view.apply(namespace("DELETED", item("nobody", 11)))
    view.apply(Bookmark(12))
    view.apply(namespaces(13, item("a", 9, labels=VISION)))
    view.apply(namespaces(14, item("a", 14, uid="another", labels=VISION), item("c", 14)))
    assert told == [({"a", "b"}, 7), ({"a"}, 9), ({"b"}, 10), ({"a", "c"}, 14)]


def test_labels_handed_out_cannot_be_changed() -> None:
    view = NamespaceStore()
    view.apply(namespaces(7, item("a", 3, labels=VISION)))
    with pytest.raises(TypeError):
        view.labels("a")["team"] = "other"  # type: ignore[index]  # that is what is tried


@pytest.mark.parametrize("reading", [NAMESPACE_CODEC, NODE_CODEC])
def test_an_object_without_a_name_makes_its_page_none(reading: Any) -> None:
    with pytest.raises(ApiError, match="without uid or name"):
        reading.decode_page(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"uid":"u"}}]}')


def node(kind: str, revision: int, dongles: str, heartbeat: str = "now") -> WatchEvent[NodeRecord]:
    """What a line of a watch of nodes says."""
    status = {"allocatable": {"example.com/dongle": dongles}, "conditions": [{"lastHeartbeatTime": heartbeat}]}
    content = item("n1", revision, labels={"zone": "a"}, status=status)
    return NODE_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def test_nodes_are_kept_with_what_they_have_and_a_heartbeat_is_no_change() -> None:
    view = NodeStore()
    told: list[set[str]] = []
    view.add_listener(lambda names: told.append(set(names)))
    view.apply(Replaced([], 1))
    view.apply(node("ADDED", 2, "4"))
    view.apply(node("MODIFIED", 3, "4", "later"))
    (kept,) = view.list_nodes()
    assert kept.metadata is not None
    assert kept.status is not None
    assert kept.status.allocatable is not None
    assert (kept.metadata.name, kept.metadata.labels) == ("n1", {"zone": "a"})
    assert bytes(kept.status.allocatable["example.com/dongle"]) == b'"4"'
    view.apply(node("MODIFIED", 4, "5"))
    view.apply(node("DELETED", 5, "5"))
    assert told == [{"n1"}] * 3
    assert (len(view.list_nodes()), view.revision) == (0, 5)
