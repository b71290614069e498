"""The watched nodes with the managers of their amounts, and the names of those that have changed."""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from tallygate.kube import resource_codec
from tallygate.objects.owned_nodes import OwnedNode


class OwnedNodeRecord(NamedTuple):
    """A node and the common fields of stored objects."""

    uid: str
    namespace: str
    name: str
    revision: int
    node: OwnedNode


def create_owned_node_record(node: OwnedNode) -> OwnedNodeRecord:
    """Return the record of a node.

    Raises:
        ValueError: if a field is missing that every stored node has.
    """
    metadata = node.metadata
    if not metadata.name or not metadata.uid:
        raise ValueError("a node without name or uid")
    return OwnedNodeRecord(
        metadata.uid, "", metadata.name, resource_codec.parse_revision(metadata.resource_version), node
    )


OWNED_NODE_CODEC: resource_codec.ResourceCodec[OwnedNode, OwnedNodeRecord] = resource_codec.ResourceCodec(
    "nodes", "/api/v1/nodes", OwnedNode, create_owned_node_record
)
"""The codec of nodes with their managers."""


class OwnedNodeStore:
    """The nodes by name; one thread applies events, any other reads. `on_change` is called after a change.

    Changes of other fields than those of `OwnedNode`, such as heartbeats, do not count.
    """

    def __init__(self, on_change: Callable[[], object], on_delete: Callable[[str], object]) -> None:
        self._on_change = on_change
        self._on_delete = on_delete
        self._lock = Lock()
        self._nodes: dict[str, OwnedNodeRecord] = {}
        self._changed: dict[str, None] = {}  # in the order of the changes

    def __len__(self) -> int:
        return len(self._nodes)

    def apply(self, event: resource_codec.WatchEvent[OwnedNodeRecord]) -> None:
        with self._lock:
            match event:
                case resource_codec.Replaced(items, _):
                    missing = self._nodes.keys() - {item.name for item in items}
                    has_changed = any([*map(self._put, items), *map(self._delete, missing)])
                case resource_codec.Changed(item, _):
                    has_changed = self._put(item)
                case resource_codec.Deleted(item, _):
                    has_changed = self._delete(item.name)
                case resource_codec.Bookmark():
                    return
        if has_changed:
            self._on_change()

    def find(self, name: str) -> OwnedNode | None:
        """Return a node, or None if it does not exist."""
        record = self._nodes.get(name)
        return None if record is None else record.node

    def mark_all_changed(self) -> None:
        with self._lock:
            self._changed |= dict.fromkeys(self._nodes)

    def mark_changed(self, name: str) -> None:
        with self._lock:
            self._changed[name] = None

    def take_changed(self) -> str | None:
        """Return the name of the node whose change waits longest, and mark it as unchanged; None without a change."""
        with self._lock:
            name = next(iter(self._changed), None)
            self._changed.pop(name or "", None)
        return name

    def _put(self, record: OwnedNodeRecord) -> bool:
        previous = self._nodes.get(record.name)
        if previous is not None and previous.uid != record.uid:
            self._on_delete(previous.uid)
        self._nodes[record.name] = record
        has_changed = previous is None or _drop_version(previous.node) != _drop_version(record.node)
        if has_changed:
            self._changed[record.name] = None
        return has_changed

    def _delete(self, name: str) -> bool:
        record = self._nodes.pop(name, None)
        if record is not None:
            self._on_delete(record.uid)
            self._changed[name] = None
        return record is not None


def _drop_version(node: OwnedNode) -> OwnedNode:
    return replace(node, metadata=replace(node.metadata, resource_version=""))
