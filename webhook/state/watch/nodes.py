"""Nodes as they are now: labels, what they have, and whom they let in."""

import msgspec

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus
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
        """All that is kept of it."""
        return self.content

    def node(self) -> SchedulingNode:
        """The node as far as it is kept: name, labels, taints, capacity, allocatable, features."""
        return _NODE.decode(self.content)


class NodeView(Named[NodeRow]):
    """Every node as of its revision."""

    def nodes(self) -> tuple[SchedulingNode, ...]:
        """All nodes, decoded now."""
        return tuple(row.node() for row in self.rows())


def digest(node: SchedulingNode) -> NodeRow:
    """The row of a stored node.

    Raises:
        ValueError: it lacks what every stored node has.
    """
    meta = node.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a node without uid or name")
    spec, status = node.spec or NodeSpec(), node.status or SchedulingNodeStatus()
    kept = SchedulingNode(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        spec=NodeSpec(spec.taints, spec.unschedulable) if spec.taints or spec.unschedulable else None,
        status=SchedulingNodeStatus(status.capacity, status.allocatable, declared_features=status.declared_features),
    )
    return NodeRow(meta.uid, meta.name, revision_of(meta.resource_version or ""), _ENCODER.encode(kept))


_ENCODER = msgspec.json.Encoder(order="deterministic")
_NODE = msgspec.json.Decoder(SchedulingNode)

NODES = Reading("nodes", "/api/v1/nodes", SchedulingNode, digest)
