"""Nodes as they are now: labels, what they have, and whom they let in."""

import msgspec

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus
from webhook.state.watch.named import ObjectStore
from webhook.state.watch.wire import ResourceCodec, parse_revision


class NodeRecord(msgspec.Struct, frozen=True):
    """One node; `content` is what `node` reads. A heartbeat changes only the revision."""

    uid: str
    name: str
    revision: int
    content: bytes
    namespace: str = ""

    @property
    def compared_value(self) -> object:
        """All that is kept of it."""
        return self.content

    def to_node(self) -> SchedulingNode:
        """The node as far as it is kept: name, labels, taints, capacity, allocatable, features."""
        return _NODE_DECODER.decode(self.content)


class NodeStore(ObjectStore[NodeRecord]):
    """Every node as of its revision."""

    def list_nodes(self) -> tuple[SchedulingNode, ...]:
        """All nodes, decoded now."""
        return tuple(record.to_node() for record in self.list_records())


def create_node_record(node: SchedulingNode) -> NodeRecord:
    """The row of a stored node.

    Raises:
        ValueError: it lacks what every stored node has.
    """
    meta = node.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a node without uid or name")
    spec, status = node.spec or NodeSpec(), node.status or SchedulingNodeStatus()
    stored_node = SchedulingNode(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        spec=NodeSpec(spec.taints, spec.unschedulable) if spec.taints or spec.unschedulable else None,
        status=SchedulingNodeStatus(status.capacity, status.allocatable, declared_features=status.declared_features),
    )
    return NodeRecord(
        meta.uid, meta.name, parse_revision(meta.resource_version or ""), _NODE_ENCODER.encode(stored_node)
    )


_NODE_ENCODER = msgspec.json.Encoder(order="deterministic")
_NODE_DECODER = msgspec.json.Decoder(SchedulingNode)

NODE_CODEC = ResourceCodec("nodes", "/api/v1/nodes", SchedulingNode, create_node_record)
