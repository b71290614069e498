"""The stores of namespaces and nodes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.kube.resource_codec import Bookmark, Replaced, WatchEvent
from tallygate.objects.devices import DeviceClass
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    NAMESPACE_CODEC,
    NODE_CODEC,
    DeviceClassStore,
    MemberNamespaces,
    NamespaceRecord,
    NamespaceStore,
    NodeStore,
    ObjectRecord,
)
from tallygate.state.ports import NamespaceLister


def item(name: str, revision: int, uid: str = "", **more: Any) -> dict[str, Any]:
    """Return an object as the API server sends it."""
    labels = more.pop("labels", None)
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(revision), "labels": labels}, **more}


def namespace(kind: str, content: dict[str, Any]) -> WatchEvent[NamespaceRecord]:
    """Return the event of a line of a watch."""
    return NAMESPACE_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def namespaces(revision: int, *items: dict[str, Any]) -> Replaced[NamespaceRecord]:
    """Return the event of a list."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    return Replaced(NAMESPACE_CODEC.decode_page(body).items, revision)


def is_vision(name: str, labels: Mapping[str, str]) -> bool:
    """Select namespaces by the label team."""
    return name != "excluded" and labels.get("team") == "vision"


VISION = {"team": "vision"}


def test_a_store_is_a_lister_and_is_empty_before_the_first_list() -> None:
    store: NamespaceStore = NamespaceStore()
    lister: NamespaceLister = store
    assert (lister.labels("a"), store.revision, store.list_members("k", is_vision)) == (None, None, None)
    store.apply(namespaces(7, item("a", 3, labels=VISION), item("b", 5)))
    assert (lister.labels("a"), lister.labels("b"), lister.labels("c")) == (VISION, {}, None)
    assert (store.revision, len(store)) == (7, 2)


def test_labels_follow_the_events_and_old_events_are_ignored() -> None:
    store = NamespaceStore()
    store.apply(namespaces(7, item("a", 3)))
    store.apply(namespace("MODIFIED", item("a", 9, labels=VISION)))
    store.apply(namespace("MODIFIED", item("a", 8)))
    store.apply(namespace("ADDED", item("b", 10)))
    store.apply(namespace("DELETED", item("b", 11)))
    store.apply(namespace("ADDED", item("b", 10)))
    assert (store.labels("a"), store.labels("b"), store.revision) == (VISION, None, 11)


def test_members_are_the_namespaces_selected_as_of_the_revision() -> None:
    store = NamespaceStore()
    store.apply(namespaces(7, item("a", 3, labels=VISION), item("b", 5), item("excluded", 6, labels=VISION)))
    assert store.list_members("k", is_vision) == MemberNamespaces(frozenset({"a"}), 7, unchanged_since=7)
    store.apply(Bookmark(20))
    assert store.list_members("k", is_vision) == MemberNamespaces(frozenset({"a"}), 20, unchanged_since=7)
    store.apply(namespace("MODIFIED", item("b", 21, labels=VISION)))
    store.apply(namespace("DELETED", item("a", 22)))
    assert store.list_members("k", is_vision) == MemberNamespaces(frozenset({"b"}), 22, unchanged_since=22)


def test_members_are_computed_once_while_labels_are_unchanged() -> None:
    store, names = NamespaceStore(), []

    def selects(name: str, _: Mapping[str, str]) -> bool:
        names.append(name)
        return True

    store.apply(namespaces(7, item("a", 3)))
    store.list_members("k", selects)
    store.apply(namespace("MODIFIED", item("a", 8)))
    store.list_members("k", selects)
    assert names == ["a"]


def test_a_listener_gets_only_added_deleted_and_changed_names() -> None:
    store = NamespaceStore()
    changes: list[tuple[set[str], int | None]] = []
    store.add_listener(lambda names: changes.append((set(names), store.revision)))
    store.apply(namespaces(7, item("a", 3), item("b", 4)))
    store.apply(namespace("MODIFIED", item("a", 8)))
    store.apply(namespace("MODIFIED", item("a", 9, labels=VISION)))
    store.apply(namespace("DELETED", item("b", 10)))
    store.apply(namespace("DELETED", item("unknown", 11)))
    store.apply(Bookmark(12))
    store.apply(namespaces(13, item("a", 9, labels=VISION)))
    store.apply(namespaces(14, item("a", 14, uid="another", labels=VISION), item("c", 14)))
    assert changes == [({"a", "b"}, 7), ({"a"}, 9), ({"b"}, 10), ({"a", "c"}, 14)]


def test_returned_labels_cannot_be_changed() -> None:
    store = NamespaceStore()
    store.apply(namespaces(7, item("a", 3, labels=VISION)))
    with pytest.raises(TypeError):
        store.labels("a")["team"] = "other"  # type: ignore[index]  # the failing assignment


@pytest.mark.parametrize("codec", [NAMESPACE_CODEC, NODE_CODEC])
def test_an_object_without_a_name_makes_its_page_invalid(codec: Any) -> None:
    with pytest.raises(ApiError, match="without uid or name"):
        codec.decode_page(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"uid":"u"}}]}')


def node(kind: str, revision: int, dongles: str, heartbeat: str = "now") -> WatchEvent[ObjectRecord[bytes]]:
    """Return the event of a line of a watch of nodes."""
    status = {"allocatable": {"example.com/dongle": dongles}, "conditions": [{"lastHeartbeatTime": heartbeat}]}
    content = item("n1", revision, labels={"zone": "a"}, status=status)
    return NODE_CODEC.decode_event(json.dumps({"type": kind, "object": content}).encode())


def test_nodes_are_stored_with_their_content_and_a_heartbeat_is_no_change() -> None:
    store = NodeStore()
    changes: list[set[str]] = []
    store.add_listener(lambda names: changes.append(set(names)))
    store.apply(Replaced([], 1))
    store.apply(node("ADDED", 2, "4"))
    store.apply(node("MODIFIED", 3, "4", "later"))
    (stored,) = store.list_nodes()
    assert stored.metadata is not None
    assert stored.status is not None
    assert stored.status.allocatable is not None
    assert (stored.metadata.name, stored.metadata.labels) == ("n1", {"zone": "a"})
    assert bytes(stored.status.allocatable["example.com/dongle"]) == b'"4"'
    store.apply(node("MODIFIED", 4, "5"))
    store.apply(node("DELETED", 5, "5"))
    assert changes == [{"n1"}] * 3
    assert (len(store.list_nodes()), store.revision) == (0, 5)


def device_class(revision: int, resource: str, *expressions: str) -> WatchEvent[ObjectRecord[DeviceClass]]:
    """Return an event with a class of devices of an extended resource, with these selectors."""
    selectors = [{"cel": {"expression": each}} for each in expressions]
    spec = {"extendedResourceName": resource, "selectors": [*selectors, {}]}
    line = {"type": "MODIFIED", "object": item("gpu", revision) | {"spec": spec}}
    return DEVICE_CLASS_CODEC.decode_event(json.dumps(line).encode())


def test_a_class_has_its_selectors_and_a_change_of_these_keeps_the_resources() -> None:
    store = DeviceClassStore()
    store.apply(Replaced((), 1))
    store.apply(device_class(2, "v.example/gpu", "true"))
    assert (store.find_selectors("gpu"), store.find_selectors("other")) == (("true", ""), None)
    resources = store.get_resources_by_class()
    store.apply(device_class(3, "v.example/gpu", "false"))
    assert store.find_selectors("gpu") == ("false", "")
    assert store.get_resources_by_class() is resources
    store.apply(device_class(4, "v.example/other", "false"))
    assert store.get_resources_by_class() == {"gpu": "v.example/other"}


def test_only_annotations_that_set_limits_are_kept_and_a_change_of_them_notifies() -> None:
    store, changes = NamespaceStore(), list[frozenset[str]]()
    store.add_listener(changes.append)

    def change(name: str, revision: int, **annotations: str) -> None:
        metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": str(revision), "annotations": annotations}
        store.apply(namespace("MODIFIED", {"metadata": metadata}))

    store.apply(namespaces(1))
    change("a", 2, note="x")
    none = store.get_limit_annotations()
    change("a", 3, note="y")
    assert store.get_limit_annotations() is none
    assert changes == [frozenset({"a"})], "another annotation notifies no listener"
    change("a", 4, **{"note": "y", "limits.tallygate.dev/gpus": "nvidia.com/gpu=6"})
    kept = store.get_limit_annotations()
    assert kept == {"a": {"gpus": "nvidia.com/gpu=6"}}
    assert len(changes) == 2
    change("b", 5)
    assert store.get_limit_annotations() is kept, "the same object until one changes"
    change("a", 6)
    assert store.get_limit_annotations() == {}
    change("a", 7, **{"limits.tallygate.dev/gpus": "nvidia.com/gpu=7"})
    store.apply(namespaces(8))
    assert store.get_limit_annotations() == {}, "a list without the namespace"
