"""The shape of a new node of a pool, by its newest node: what the pool settles, and what it leaves open.

A new node gets a value of its own for some labels, and Karpenter chooses among several sizes of node. What a pool does
not settle is left open, so that no pod is excluded by it.

Source: sigs.k8s.io/karpenter pkg/apis/v1, v1.8; cluster-autoscaler utils/taints, v1.36.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.accounting.node_shape import ZONE, KnownSize, NodeShape
from tallygate.accounting.pod_resources import parse_resource_list
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import ResourceList
from tallygate.objects.karpenter import (
    KarpenterNodePool,
    NodeClaimSpec,
    NodeClaimTemplate,
    NodePoolSpec,
    NodePoolStatus,
)
from tallygate.objects.meta import SelectorRequirement
from tallygate.objects.scheduling import SchedulingNode, Taint

NODE_POOL_LABEL = "karpenter.sh/nodepool"
"""The label of Karpenter with the NodePool of a node or a claim."""

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label with the type of the machine, which decides the amounts of a node."""

_OS = "kubernetes.io/os"
_ZONE_LABELS = frozenset({ZONE, "failure-domain.beta.kubernetes.io/zone"})
_LABELS_WITHOUT_SIZE = _ZONE_LABELS | {
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "karpenter.sh/capacity-type",
}
_TRANSIENT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
_TRANSIENT_KEYS = frozenset({"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"})
_NODES = "nodes"
_ON_EVERY_NODE = frozenset({_NODES, "cpu", "memory"})


class PoolNodes(NamedTuple):
    """The nodes of a pool: their number, and those with amounts, without their hostnames, the newest first.

    Without such a node, `sized` has the nodes that the claims estimate, or the last node that was seen. `startup` are
    taints that are removed later.
    """

    total: int
    sized: Sequence[SchedulingNode]
    startup: Sequence[Taint] = ()


def has_size(label: str) -> bool:
    """Return whether nodes with different values of a label may have different amounts."""
    return label not in _LABELS_WITHOUT_SIZE


def create_group_shape(pool: str, nodes: PoolNodes) -> NodeShape:
    """Return the shape of a group of nodes: what its nodes have in common is settled, a zone only by two of them."""
    newest, all_labels = nodes.sized[0], [_get_labels(node) for node in nodes.sized]
    labels = _get_labels(newest)
    open_labels = {key for key, value in labels.items() if any(label.get(key) != value for label in all_labels)}
    open_labels |= {key for label in all_labels for key in label if key not in labels}
    if len(all_labels) < 2:  # noqa: PLR2004  # one node shows nothing in common
        open_labels |= _ZONE_LABELS
    return NodeShape(
        pool,
        {key: value for key, value in labels.items() if key not in open_labels},
        _get_allocatable(newest),
        tuple(_list_lasting_taints(newest, nodes.startup)),
        open_labels=frozenset(open_labels),
        is_example=INSTANCE_TYPE in open_labels,
        is_found=True,
    )


def create_example_shape(pool: str, nodes: PoolNodes) -> NodeShape:
    """Return the shape of a pool of Karpenter whose NodePool is not known: all that is not its pool is open."""
    newest, settled = nodes.sized[0], {NODE_POOL_LABEL, _OS}
    labels = _get_labels(newest)
    return NodeShape(
        pool,
        {key: value for key, value in labels.items() if key in settled},
        _get_allocatable(newest),
        tuple(_list_lasting_taints(newest, nodes.startup)),
        open_labels=frozenset({key for node in nodes.sized for key in _get_labels(node)} - settled),
        is_example=True,
        is_found=True,
    )


def create_pool_shape(pool: str, node_pool: KarpenterNodePool, nodes: PoolNodes) -> NodeShape:
    """Return the shape of a NodePool of Karpenter: its template settles labels and taints.

    Without any node, no amount is known.
    """
    spec = node_pool.spec or NodePoolSpec()
    template = spec.template or NodeClaimTemplate()
    claim_spec = template.spec or NodeClaimSpec()
    choices = _list_choices(claim_spec.requirements or ())
    settled = {
        **((template.metadata.labels if template.metadata else None) or {}),
        **{key: values[0] for key, values in choices.items() if len(values) == 1},
        NODE_POOL_LABEL: (node_pool.metadata.name if node_pool.metadata else None) or "",
    }
    labels = _get_labels(nodes.sized[0]) if nodes.sized else {}
    settled |= {_OS: labels[_OS]} if _OS in labels and _OS not in settled and _OS not in choices else {}
    choices = {key: values for key, values in choices.items() if key not in settled}
    open_labels = labels.keys() - settled.keys() | {
        requirement.key for requirement in claim_spec.requirements or () if requirement.key not in settled
    }
    return NodeShape(
        pool,
        settled,
        _get_allocatable(nodes.sized[0]) if nodes.sized else {},
        tuple(claim_spec.taints or ()),
        _count_most(spec, node_pool.status, nodes.sized[0] if nodes.sized else None, nodes),
        open_labels=frozenset(open_labels),
        is_example=INSTANCE_TYPE not in settled,
        is_found=True,
        is_unsized=not nodes.sized,
        choices=choices,
        sizes=tuple(_list_sizes(choices, spec, node_pool.status, nodes)),
    )


def _list_choices(requirements: Sequence[SelectorRequirement]) -> dict[str, tuple[str, ...]]:
    """Return the possible values of each label that has some: those that all requirements on it leave."""
    found: dict[str, tuple[str, ...]] = {}
    for requirement in requirements:
        if requirement.operator == "In":
            values = dict.fromkeys(requirement.values or ())
            found[requirement.key] = tuple(value for value in found.get(requirement.key, values) if value in values)
    for requirement in requirements:
        if requirement.operator == "NotIn" and requirement.key in found:
            found[requirement.key] = tuple(
                value for value in found[requirement.key] if value not in (requirement.values or ())
            )
        elif requirement.operator not in {"In", "NotIn", "Exists"}:
            found.pop(requirement.key, None)
    return {key: values for key, values in found.items() if values}


def _list_sizes(
    choices: Collection[str], spec: NodePoolSpec, status: NodePoolStatus | None, nodes: PoolNodes
) -> Iterator[KnownSize]:
    keys = [key for key in choices if has_size(key)]
    seen = set[tuple[str | None, ...]]()
    for node in nodes.sized if keys else ():
        labels = _get_labels(node)
        values = tuple(map(labels.get, keys))
        if values not in seen:
            seen.add(values)
            known = {key: labels[key] for key in keys if key in labels}
            yield KnownSize(known, _get_allocatable(node), _count_most(spec, status, node, nodes))


def _list_lasting_taints(node: SchedulingNode, startup: Sequence[Taint]) -> Iterator[Taint]:
    removed = {(taint.key, taint.effect) for taint in startup}
    for taint in (node.spec.taints if node.spec else None) or ():
        is_transient = taint.key.startswith(_TRANSIENT_PREFIXES) or taint.key in _TRANSIENT_KEYS
        if not is_transient and (taint.key, taint.effect) not in removed:
            yield taint


def _get_labels(node: SchedulingNode) -> Mapping[str, str]:
    return (node.metadata.labels if node.metadata else None) or {}


def _get_allocatable(node: SchedulingNode) -> ResourceList:
    return (node.status.allocatable if node.status else None) or {}


def _count_most(
    spec: NodePoolSpec, status: NodePoolStatus | None, node: SchedulingNode | None, nodes: PoolNodes
) -> int | None:
    """Return the number of nodes that can be added to a pool, None without a limit; a fixed pool adds missing ones."""
    if spec.replicas is not None:
        return max(spec.replicas - nodes.total, 0)
    limits, used = parse_resource_list(spec.limits), _sum_used(status, nodes)
    sizes = {_NODES: Quantity.from_int(1), **(_read_capacity(node) if node else {})}
    counts = [_divide(limits[name], used.get(name), size) for name, size in sizes.items() if name in limits and size]
    if any(name in limits and limits[name] <= used.get(name, Quantity.from_int(0)) for name in _ON_EVERY_NODE):
        return 0
    return min(counts, default=None)


def _sum_used(status: NodePoolStatus | None, nodes: PoolNodes) -> Mapping[str, Quantity]:
    """Return what the nodes of a pool have together: by its status, else by its nodes, as Karpenter counts them.

    Source: pkg/controllers/nodepool/counter/controller.go.
    """
    if status is not None and status.resources:
        return parse_resource_list(status.resources)
    used = {_NODES: Quantity.from_int(nodes.total)}
    for node in nodes.sized[: nodes.total]:  # without a node, `sized` has estimates
        for name, amount in _read_capacity(node).items():
            used[name] = used[name] + amount if name in used else amount
    return used


def _read_capacity(node: SchedulingNode) -> Mapping[str, Quantity]:
    return parse_resource_list((node.status.capacity if node.status else None) or _get_allocatable(node))


def _divide(limit: Quantity, used: Quantity | None, size: Quantity) -> int:
    """Return how many times a size fits between the used amount and the limit."""
    rest = limit if used is None else limit - used
    dividend, divisor, _ = rest.align(size)
    return max(dividend // divisor, 0)
