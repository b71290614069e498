"""Pools of nodes, and the shape of a new node of each: a likely copy of its newest node.

Karpenter names the pool of a node by a label, and its NodePool has the labels, the taints and the limits. Other pools
are groups of the cluster autoscaler or of a provider, known by a label or an annotation of their nodes alone.

A new node gets a value of its own for some labels, and Karpenter chooses among several sizes of node. What a pool does
not settle is left open, so that no pod is excluded by it.

Source: sigs.k8s.io/karpenter pkg/apis/v1, v1.8; cluster-autoscaler utils/taints, v1.36.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tallygate.webhook.accounting.amounts import is_milli
from tallygate.webhook.accounting.cluster.node_columns import NodeColumns
from tallygate.webhook.accounting.node_shape import HOSTNAME, NodeShape
from tallygate.webhook.accounting.pod_resources import parse_resource_list
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.objects.core import ResourceList
from tallygate.webhook.objects.karpenter import (
    KarpenterNodePool,
    NodeClaim,
    NodeClaimSpec,
    NodeClaimStatus,
    NodeClaimTemplate,
    NodePoolSpec,
    NodePoolStatus,
)
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus, Taint

_NODE_POOL_LABEL = "karpenter.sh/nodepool"
_GROUP_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
)
GROUP_ANNOTATION = "cluster.x-k8s.io/owner-name"
"""The annotation of Cluster API with the MachineSet or MachinePool of a node."""

_OS = "kubernetes.io/os"
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_ZONE_LABELS = frozenset({"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"})
_TRANSIENT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
_TRANSIENT_KEYS = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
_NODES = "nodes"


class NodePools:
    """The pools of a cluster: its NodePools and NodeClaims, and the nodes that belong to a pool, as they are put in."""

    def __init__(self) -> None:
        self._node_pools: dict[str, KarpenterNodePool] = {}
        self._nodes: dict[str, dict[str, SchedulingNode]] = {}
        self._claims: dict[str, list[NodeClaim]] = {}

    def put_node(self, node: SchedulingNode) -> None:
        """Add a node, or replace its previous version, if it belongs to a pool."""
        pool = _find_pool(node.metadata or ObjectMeta())
        if pool:
            self._nodes.setdefault(pool, {})[_get_name(node.metadata)] = node

    def put_node_pool(self, node_pool: KarpenterNodePool) -> None:
        """Add a NodePool."""
        self._node_pools[f"nodepool/{_get_name(node_pool.metadata)}"] = node_pool

    def put_node_claim(self, claim: NodeClaim) -> None:
        """Add a NodeClaim."""
        pool = _find_pool(claim.metadata or ObjectMeta())
        if pool:
            self._claims.setdefault(pool, []).append(claim)

    def list_shapes(self) -> tuple[NodeShape, ...]:
        """Return the shape of each pool that can have more nodes, as far as a node or a claim of it is known."""
        shapes = (self._find_shape(pool) for pool in sorted({*self._nodes, *self._claims}))
        return tuple(each for each in shapes if each is not None and each.most != 0)

    def _find_shape(self, pool: str) -> NodeShape | None:
        nodes, claims = list(self._nodes.get(pool, {}).values()), self._claims.get(pool, [])
        newest = _find_newest(nodes, claims)
        if newest is None:
            return None
        node_pool = self._node_pools.get(pool)
        startup = [each for claim in claims for each in (claim.spec or NodeClaimSpec()).startup_taints or ()]
        if node_pool is None:
            return _create_group_shape(pool, newest, nodes, startup)
        return _create_pool_shape(pool, newest, node_pool, len(nodes))


def _find_pool(meta: ObjectMeta) -> str:
    """Return the pool of a node or a claim by its labels and annotations; empty if it belongs to none."""
    labels, annotations = meta.labels or {}, meta.annotations or {}
    if name := labels.get(_NODE_POOL_LABEL):
        return f"nodepool/{name}"
    names = (*(labels.get(key) for key in _GROUP_LABELS), annotations.get(GROUP_ANNOTATION))
    group = next(filter(None, names), "")
    return f"nodegroup/{group}" if group else ""


def _get_name(meta: ObjectMeta | None) -> str:
    return (meta.name if meta else None) or ""


def _find_newest(nodes: Sequence[SchedulingNode], claims: Sequence[NodeClaim]) -> SchedulingNode | None:
    """Return the newest node with allocatable amounts; without one, the node that the newest claim estimates."""
    ready = [each for each in nodes if each.status and each.status.allocatable]
    if ready:
        return max(ready, key=lambda each: _create_age_key(each.metadata))
    estimated = [each for each in claims if each.status and each.status.allocatable]
    if not estimated:
        return None
    claim = max(estimated, key=lambda each: _create_age_key(each.metadata))
    meta, status = claim.metadata or ObjectMeta(), claim.status or NodeClaimStatus()
    return SchedulingNode(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        spec=NodeSpec(taints=(claim.spec or NodeClaimSpec()).taints),
        status=SchedulingNodeStatus(capacity=status.capacity, allocatable=status.allocatable),
    )


def _create_age_key(meta: ObjectMeta | None) -> tuple[str, str]:
    return (meta.creation_timestamp if meta else None) or "", _get_name(meta)


def _create_group_shape(
    pool: str, newest: SchedulingNode, nodes: Sequence[SchedulingNode], startup: Sequence[Taint]
) -> NodeShape:
    """Return the shape of a group of nodes: what its nodes have in common is settled, a zone only by two of them."""
    all_labels = [(each.metadata.labels if each.metadata else None) or {} for each in nodes]
    labels = (newest.metadata.labels if newest.metadata else None) or {}
    is_settled = {key: all(each.get(key) == value for each in all_labels) for key, value in labels.items()}
    open_labels = {key for key, settled in is_settled.items() if not settled}
    open_labels |= {key for each in all_labels for key in each if key not in labels}
    if len(nodes) < 2:  # noqa: PLR2004  # one node shows nothing in common
        open_labels |= _ZONE_LABELS
    return NodeShape(
        pool,
        {key: value for key, value in labels.items() if key not in open_labels and key != HOSTNAME},
        _get_allocatable(newest),
        tuple(_list_lasting_taints((newest.spec.taints if newest.spec else None) or (), startup)),
        open_labels=frozenset(open_labels - {HOSTNAME}),
        is_example=_INSTANCE_TYPE in open_labels or _NODE_POOL_LABEL in labels,
        is_found=True,
    )


def _list_lasting_taints(taints: Sequence[Taint], startup: Sequence[Taint]) -> Iterator[Taint]:
    removed = {(each.key, each.effect) for each in startup}
    for each in taints:
        is_transient = each.key.startswith(_TRANSIENT_PREFIXES) or each.key in _TRANSIENT_KEYS
        if not is_transient and (each.key, each.effect) not in removed:
            yield each


def _create_pool_shape(pool: str, newest: SchedulingNode, node_pool: KarpenterNodePool, node_count: int) -> NodeShape:
    """Return the shape of a NodePool of Karpenter: its template settles labels and taints."""
    spec = node_pool.spec or NodePoolSpec()
    template = spec.template or NodeClaimTemplate()
    claim_spec = template.spec or NodeClaimSpec()
    settled = {
        **((template.metadata.labels if template.metadata else None) or {}),
        **dict(_list_required_values(claim_spec)),
        _NODE_POOL_LABEL: _get_name(node_pool.metadata),
    }
    labels = (newest.metadata.labels if newest.metadata else None) or {}
    settled |= {_OS: labels[_OS]} if _OS in labels and _OS not in settled else {}
    open_labels = labels.keys() - settled.keys() - {HOSTNAME} | {
        each.key for each in claim_spec.requirements or () if each.key not in settled
    }
    capacity = (newest.status.capacity if newest.status else None) or _get_allocatable(newest)
    return NodeShape(
        pool,
        settled,
        _get_allocatable(newest),
        tuple(claim_spec.taints or ()),
        _count_most(spec, node_pool.status or NodePoolStatus(), capacity, node_count),
        open_labels=frozenset(open_labels),
        is_example=_INSTANCE_TYPE not in settled,
        is_found=True,
    )


def _list_required_values(spec: NodeClaimSpec) -> Iterator[tuple[str, str]]:
    """Yield the labels for which a requirement leaves one value."""
    for each in spec.requirements or ():
        if each.operator == "In" and len(each.values or ()) == 1:
            yield each.key, (each.values or [""])[0]


def _get_allocatable(node: SchedulingNode) -> ResourceList:
    return (node.status.allocatable if node.status else None) or {}


def _count_most(spec: NodePoolSpec, status: NodePoolStatus, capacity: ResourceList, node_count: int) -> int | None:
    """Return the number of nodes that can be added to a pool, None without a limit; a fixed pool adds missing ones."""
    if spec.replicas is not None:
        return max(spec.replicas - node_count, 0)
    limits, used = parse_resource_list(spec.limits), parse_resource_list(status.resources)
    sizes = {_NODES: Quantity.from_int(1), **parse_resource_list(capacity)}
    counts = [_divide(limits[name], used.get(name), size) for name, size in sizes.items() if name in limits and size]
    return min(counts, default=None)


def _divide(limit: Quantity, used: Quantity | None, size: Quantity) -> int:
    """Return how many times a size fits between the used amount and the limit."""
    rest = limit if used is None else limit - used
    dividend, divisor, _ = rest.align(size)
    return max(dividend // divisor, 0)


def list_pool_examples(nodes: NodeColumns) -> list[NodeShape]:
    """Return an example of each pool of Karpenter by one of its nodes: all that is not its pool is open.

    The NodePools are not known, so that an example excludes only pods that do not tolerate its taints, select another
    pool, or request what it does not have at all.
    """
    column = nodes.find_label_column(_NODE_POOL_LABEL)
    if column is None:
        return []
    indices = nodes.get_indices()
    numbers = column.ids[indices]
    found = {name: indices[numbers == number] for name, number in column.numbers().items()}
    return [_create_example(name, nodes, int(of_pool[0])) for name, of_pool in sorted(found.items()) if len(of_pool)]


def _create_example(name: str, nodes: NodeColumns, index: int) -> NodeShape:
    labels, settled = nodes.get_labels(index), {_NODE_POOL_LABEL, _OS}
    return NodeShape(
        f"nodepool/{name}",
        {key: value for key, value in labels.items() if key in settled},
        {
            resource: msgspec.Raw(f'"{amount}{"m" if is_milli(resource) else ""}"'.encode())
            for resource, amount in nodes.get_allocatable(index).items()
        },
        tuple(_list_lasting_taints(nodes.taints.value(index) or (), ())),
        open_labels=frozenset(labels.keys() - settled - {HOSTNAME}),
        is_example=True,
        is_found=True,
    )


def merge_shapes(written: Sequence[NodeShape], found: Sequence[NodeShape]) -> tuple[NodeShape, ...]:
    """Return the written shapes, and those of pools of which no written one has the name."""
    names = {each.name for each in written}
    return (*written, *(each for each in found if each.name.partition("/")[2] not in names))
