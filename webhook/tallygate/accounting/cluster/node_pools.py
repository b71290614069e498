"""Pools of nodes: their NodePools, NodeClaims and nodes, and the last node of a pool that no longer has any.

Karpenter names the pool of a node by a label, and its NodePool has the labels, the taints and the limits. Other pools
are groups of the cluster autoscaler or of a provider, known by a label or an annotation of their nodes alone.
"""

from collections.abc import Sequence
from sys import intern

from msgspec.structs import replace

from tallygate.accounting.cluster.pool_shapes import (
    NODE_POOL_LABEL,
    PoolNodes,
    create_example_shape,
    create_group_shape,
    create_pool_shape,
)
from tallygate.accounting.node_shape import HOSTNAME, NodeShape
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim, NodeClaimSpec, NodeClaimStatus
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus

_GROUP_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
)
GROUP_ANNOTATION = "cluster.x-k8s.io/owner-name"
"""The annotation of Cluster API with the MachineSet or MachinePool of a node."""

_NODE_POOL_PREFIX = "nodepool/"
_MAX_REMEMBERED = 100
"""The pools without nodes of which the last node is known; the one that was emptied first is forgotten first."""


class NodePools:
    """The pools of a cluster: its NodePools and NodeClaims, and the nodes that belong to a pool, as they are put in.

    When the last node and the last claim of a pool are removed, the last node stays known, unless its NodePool was
    removed.
    """

    def __init__(self) -> None:
        self._node_pools: dict[str, KarpenterNodePool] = {}
        self._nodes: dict[str, dict[str, SchedulingNode]] = {}
        self._claims: dict[str, dict[str, NodeClaim]] = {}
        self._pools_by_node: dict[str, str] = {}
        self._pools_by_claim: dict[str, str] = {}
        self._last_nodes: dict[str, SchedulingNode] = {}
        self._shapes: dict[str, NodeShape | None] = {}
        self._listed: tuple[NodeShape, ...] | None = ()
        self._had_node_pools = False

    def put_node(self, node: SchedulingNode) -> None:
        """Add a node, or replace its previous version, if it belongs to a pool."""
        name, pool = _get_name(node.metadata), find_pool(node.metadata or ObjectMeta())
        if self._pools_by_node.get(name, pool) != pool:
            self.remove_node(name)
        if pool:
            nodes = self._nodes.setdefault(pool, {})
            nodes[name] = _share_fields(node, next(iter(nodes.values()), None))
            self._pools_by_node[name] = pool
            self._mark_changed(pool)

    def remove_node(self, name: str) -> None:
        """Remove a node, if it belongs to a pool."""
        pool = self._pools_by_node.pop(name, "")
        if pool:
            last = _estimate_nodes([self._nodes[pool].pop(name)], [])
            self._finish_removal(pool, last)

    def put_node_pool(self, node_pool: KarpenterNodePool) -> None:
        """Add a NodePool, or replace its previous version."""
        pool, self._had_node_pools = f"{_NODE_POOL_PREFIX}{_get_name(node_pool.metadata)}", True
        self._node_pools[pool] = node_pool
        self._mark_changed(pool)

    def remove_node_pool(self, name: str) -> None:
        pool = f"{_NODE_POOL_PREFIX}{name}"
        self._node_pools.pop(pool, None)
        self._last_nodes.pop(pool, None)
        self._mark_changed(pool)

    def put_node_claim(self, claim: NodeClaim) -> None:
        """Add a NodeClaim, or replace its previous version."""
        name, pool = _get_name(claim.metadata), find_pool(claim.metadata or ObjectMeta())
        if self._pools_by_claim.get(name, pool) != pool:
            self.remove_node_claim(name)
        if pool:
            self._claims.setdefault(pool, {})[name] = claim
            self._pools_by_claim[name] = pool
            self._mark_changed(pool)

    def remove_node_claim(self, name: str) -> None:
        pool = self._pools_by_claim.pop(name, "")
        if pool:
            last = _estimate_nodes([], [self._claims[pool].pop(name)])
            self._finish_removal(pool, last)

    def list_shapes(self) -> tuple[NodeShape, ...]:
        """Return the shape of each pool that can have more nodes; the same object until a pool changes.

        Of a group without nodes, nothing is known, unless its last node is remembered.
        """
        if self._listed is None:
            pools = {*self._nodes, *self._claims, *self._node_pools, *self._last_nodes}
            for pool in pools - self._shapes.keys():
                self._shapes[pool] = self._find_shape(pool)
            found = (self._shapes[pool] for pool in sorted(pools))
            self._listed = tuple(found_pool for found_pool in found if found_pool is not None and found_pool.most != 0)
        return self._listed

    def _find_shape(self, pool: str) -> NodeShape | None:
        nodes = self._list_nodes(pool)
        if (node_pool := self._node_pools.get(pool)) is not None:
            return create_pool_shape(pool, node_pool, nodes)
        if not nodes.sized:
            return None
        create_shape = create_example_shape if pool.startswith(_NODE_POOL_PREFIX) else create_group_shape
        return create_shape(pool, nodes)

    def _list_nodes(self, pool: str) -> PoolNodes:
        nodes, claims = list(self._nodes.get(pool, {}).values()), list(self._claims.get(pool, {}).values())
        last = [self._last_nodes[pool]] if pool in self._last_nodes else []
        startup = [taint for claim in claims for taint in (claim.spec or NodeClaimSpec()).startup_taints or ()]
        return PoolNodes(len(nodes), _estimate_nodes(nodes, claims) or last, startup)

    def _mark_changed(self, pool: str) -> None:
        self._shapes.pop(pool, None)
        self._listed = None

    def _finish_removal(self, pool: str, last: Sequence[SchedulingNode]) -> None:
        """Remember the removed node if the pool has no other, and remove what is empty."""
        self._mark_changed(pool)
        is_removed = pool.startswith(_NODE_POOL_PREFIX) and self._had_node_pools and pool not in self._node_pools
        is_known = any(map(_has_amounts, self._nodes.get(pool, {}).values())) or any(
            map(_has_amounts, self._claims.get(pool, {}).values())
        )
        if last and not is_known and not is_removed:
            self._last_nodes.pop(pool, None)
            self._last_nodes[pool] = last[0]
            if len(self._last_nodes) > _MAX_REMEMBERED:
                self._last_nodes.pop(next(iter(self._last_nodes)))
        for members in (self._nodes, self._claims):
            if pool in members and not members[pool]:
                del members[pool]


def find_pool(meta: ObjectMeta) -> str:
    """Return the pool of a node or a claim by its labels and annotations; empty if it belongs to none."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    if name := labels.get(NODE_POOL_LABEL):
        return f"{_NODE_POOL_PREFIX}{name}"
    names = (*(labels.get(key) for key in _GROUP_LABELS), annotations.get(GROUP_ANNOTATION))
    group = next(filter(None, names), "")
    return f"nodegroup/{group}" if group else ""


def keep_pool_fields(meta: ObjectMeta) -> ObjectMeta:
    """Return the name and the labels of a node, and what else its pool is known by."""
    group = (meta.annotations or {}).get(GROUP_ANNOTATION)
    annotations = {GROUP_ANNOTATION: group} if group else None
    created = meta.creation_timestamp if find_pool(meta) else None
    return ObjectMeta(name=meta.name, labels=meta.labels, annotations=annotations, creation_timestamp=created)


def _get_name(meta: ObjectMeta | None) -> str:
    return (meta.name if meta else None) or ""


def _share_fields(node: SchedulingNode, other: SchedulingNode | None) -> SchedulingNode:
    """Return a node of a pool without its hostname, which has equal texts and amounts in common with another one.

    The nodes of a pool are alike, so that they take a third of the memory.
    """
    labels = (node.metadata.labels if node.metadata else None) or {}
    shared = {intern(key): intern(value) for key, value in labels.items() if key != HOSTNAME}
    metadata = replace(node.metadata or ObjectMeta(), labels=shared)
    has_equal_status = other is not None and other.status == node.status
    return replace(node, metadata=metadata, status=other.status if has_equal_status and other else node.status)


def _has_amounts(each: SchedulingNode | NodeClaim) -> bool:
    return bool(each.status and each.status.allocatable)


def _estimate_nodes(nodes: Sequence[SchedulingNode], claims: Sequence[NodeClaim]) -> Sequence[SchedulingNode]:
    """Return the nodes with amounts, the newest first; without one, the nodes that the claims estimate."""
    ready = [node for node in nodes if _has_amounts(node)]
    if ready:
        return sorted(ready, key=_create_age_key, reverse=True)
    estimated = [claim for claim in claims if _has_amounts(claim)]
    return [_create_estimated_node(claim) for claim in sorted(estimated, key=_create_age_key, reverse=True)]


def _create_estimated_node(claim: NodeClaim) -> SchedulingNode:
    meta, status = claim.metadata or ObjectMeta(), claim.status or NodeClaimStatus()
    return SchedulingNode(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        spec=NodeSpec(taints=(claim.spec or NodeClaimSpec()).taints),
        status=SchedulingNodeStatus(capacity=status.capacity, allocatable=status.allocatable),
    )


def _create_age_key(each: SchedulingNode | NodeClaim) -> tuple[str, str]:
    return (each.metadata.creation_timestamp if each.metadata else None) or "", _get_name(each.metadata)


def merge_shapes(written: Sequence[NodeShape], found: Sequence[NodeShape]) -> tuple[NodeShape, ...]:
    """Return the written shapes, and those of pools of which no written one has the name."""
    names = {shape.name for shape in written}
    return (*written, *(shape for shape in found if shape.name.partition("/")[2] not in names))
