"""The watched nodes: which changes count, and in which order they are taken."""

import msgspec

from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.state.informers.node_records import OwnedNodeRecord, OwnedNodeStore, create_owned_node_record
from tests.cli.advertise.published_node import OURS, SEAT, Object, create_node


def _record(node: Object) -> OwnedNodeRecord:
    return create_owned_node_record(msgspec.json.decode(msgspec.json.encode(node), type=OwnedNode))


class _Watcher:
    def __init__(self) -> None:
        self.calls, self.deleted = 0, list[str]()
        self.store = OwnedNodeStore(self._count, self.deleted.append)

    def _count(self) -> None:
        self.calls += 1

    def take_all(self) -> list[str]:
        """Return the names of all changed nodes."""
        return list(iter(self.store.take_changed, None))


def test_a_heartbeat_is_no_change_but_its_version_is_known() -> None:
    watcher = _Watcher()
    watcher.store.apply(Replaced([_record(create_node("n2")), _record(create_node("n1"))], 7))
    assert (watcher.take_all(), watcher.calls, len(watcher.store)) == (["n2", "n1"], 1, 2)
    watcher.store.apply(Changed(_record(create_node("n1", version="8")), 8))
    watcher.store.apply(Bookmark(9))
    assert (watcher.take_all(), watcher.calls) == ([], 1)
    found = watcher.store.find("n1")
    assert found is not None
    assert found.metadata.resource_version == "8"


def test_amounts_and_their_managers_count() -> None:
    watcher = _Watcher()
    watcher.store.apply(Replaced([_record(create_node())], 7))
    watcher.take_all()
    for number, managers in enumerate(({}, {OURS: [SEAT]}, {"kubelet": [SEAT]})):
        watcher.store.apply(Changed(_record(create_node(capacity={SEAT: "4"}, managers=managers)), 8 + number))
        assert watcher.take_all() == ["n1"]


def test_a_deleted_node_and_one_of_the_same_name_are_reported() -> None:
    watcher = _Watcher()
    watcher.store.apply(Replaced([_record(create_node("n1")), _record(create_node("n2"))], 7))
    again = create_node("n1")
    again["metadata"]["uid"] = "other"
    watcher.store.apply(Changed(_record(again), 8))
    watcher.store.apply(Deleted(_record(create_node("n2")), 9))
    watcher.store.apply(Deleted(_record(create_node("n2")), 9))
    assert (watcher.deleted, watcher.store.find("n2")) == (["u-n1", "u-n2"], None)
    watcher.store.apply(Replaced([], 10))
    assert watcher.deleted == ["u-n1", "u-n2", "other"]


def test_the_oldest_change_is_taken_first_and_a_mark_is_kept_once() -> None:
    watcher = _Watcher()
    watcher.store.apply(Replaced([_record(create_node(name)) for name in ("a", "b", "c")], 7))
    assert watcher.store.take_changed() == "a"
    watcher.store.mark_changed("a")
    watcher.store.mark_changed("b")
    assert watcher.take_all() == ["b", "c", "a"]
    watcher.store.mark_all_changed()
    assert watcher.take_all() == ["a", "b", "c"]
