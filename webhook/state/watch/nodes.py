"""Nodes as they are now: labels, and what they have."""

import msgspec

from webhook.objects.cluster import Node, NodeStatus
from webhook.objects.meta import ObjectMeta
from webhook.state.watch.named import Named
from webhook.state.watch.wire import Reading, revision_of


class NodeRow(msgspec.Struct, frozen=True):
    """One node; `content` is what `node` reads. A heartbeat changes only the revision."""

    uid: str
    name: str
    revision: int
    content: bytes
    namespace: str = ""

    @property
    def substance(self) -> object:
        """Labels, capacity and allocatable."""
        return self.content

    def node(self) -> Node:
        """The node as far as it is kept: name, labels, capacity, allocatable."""
        return _NODE.decode(self.content)


class NodeView(Named[NodeRow]):
    """Every node as of its revision."""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, decoded now."""
        return tuple(row.node() for row in self.rows())


def digest(node: Node) -> NodeRow:
    """The row of a stored node.

    Raises:
        ValueError: it lacks what every stored node has.
    """
    meta = node.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a node without uid or name")
    status = node.status or NodeStatus()
    kept = Node(ObjectMeta(name=meta.name, labels=meta.labels), NodeStatus(status.capacity, status.allocatable))
    return NodeRow(meta.uid, meta.name, revision_of(meta.resource_version or ""), _ENCODER.encode(kept))


_ENCODER = msgspec.json.Encoder(order="deterministic")
_NODE = msgspec.json.Decoder(Node)

NODES = Reading("nodes", "/api/v1/nodes", Node, digest)
