"""Remedies for a pod that fits no node: changes of the pod, of its claims or of nodes, each verified by a trial.

A trial makes one change, and two together where no single one helps. Where several nodes lack amounts, one more node
like one of them is tried: devices are not added to each of many nodes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Raw
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.node_shape import HOSTNAME, NodeShape
from tallygate.accounting.scheduling.device_remedies import try_claim_changes, try_deletions
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import find_fitting
from tallygate.accounting.scheduling.plugins import node_eligibility, node_resources_fit
from tallygate.accounting.scheduling.plugins.dynamic_resources import filter_dynamic_resources
from tallygate.accounting.scheduling.plugins.resource_claims import needs_devices
from tallygate.objects.scheduling import Taint, Toleration

_CORDON_TAINT_KEY = "node.kubernetes.io/unschedulable"
_MAX_COMBINED = 2
"""The maximal number of changes that are tried together."""
_MAX_ENLARGED = 3
"""The maximal number of nodes that get more of what they lack, where no node of a kind has enough."""
_MAX_TRIED_NODES = 8

_Describe = Callable[[IncomingPod, Cluster, int], str]
"""A function that describes a change for the node at an index; an empty text if the node needs no change."""


class RemedyCost(IntEnum):
    """The cost of a remedy, ascending: a change of the pod or its claims, one of other objects, or a machine."""

    POD = 0
    OBJECT = 1
    MACHINE = 2


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change, as text, and the nodes that are feasible after it; empty for one more node."""

    change: str
    nodes: tuple[str, ...]
    cost: RemedyCost = field(default=RemedyCost.POD, compare=False)


class _Change(NamedTuple):
    """A change to try: `apply` returns the pod after the change, or None when the pod gives no cause for it."""

    apply: Callable[[IncomingPod, Cluster], IncomingPod | None]
    describe: _Describe
    cost: RemedyCost = RemedyCost.POD


def find_remedies(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> tuple[Remedy, ...]:
    """Return the changes that help, each with those of these nodes that are feasible after it.

    The result is empty if more than two changes are necessary. Remedies are sorted by their cost, and changes to nodes
    by the size of the shortfall, the smallest first.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    for change_count in range(1, _MAX_COMBINED + 1):
        found = [
            change
            for changes in combinations(_CHANGES, change_count)
            for change in _try_changes(pod, cluster, nodes, changes)
        ]
        if change_count == 1 and needs_devices(pod, cluster):
            found += _merge(try_claim_changes(pod, cluster, nodes), RemedyCost.POD)
            found += _merge(try_deletions(pod, cluster, nodes), RemedyCost.OBJECT)
        if found:
            return tuple(sorted(found, key=lambda each: each.cost))
    return ()


def _merge(found: Iterable[tuple[str, str]], cost: RemedyCost) -> list[Remedy]:
    nodes_by_change: dict[str, list[str]] = {}
    for change, node_name in found:
        nodes_by_change.setdefault(change, []).append(node_name)
    return [Remedy(change, tuple(sorted(node_names)), cost) for change, node_names in nodes_by_change.items()]


def _try_changes(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, changes: Sequence[_Change]
) -> Sequence[Remedy]:
    modified = pod
    for next_change in changes:
        candidate = next_change.apply(modified, cluster)
        if candidate is None:
            return ()
        modified = candidate
    feasible = run_filters(modified, cluster, nodes).feasible
    if modified.requests is not pod.requests:  # devices back some of them
        feasible = _select_with_devices(pod, cluster, feasible)
    described = []
    for node_index in sorted(
        feasible.tolist(), key=lambda each: node_resources_fit.measure_shortfall(pod, cluster, each)
    ):
        descriptions = [change.describe(pod, cluster, node_index) for change in changes]
        if all(descriptions):
            described.append((node_index, descriptions))
    if _ENLARGEMENT in changes and len(described) > 1:
        with_requests = replace(modified, requests=pod.requests)
        if (one_more := _find_one_more(with_requests, cluster, described, changes.index(_ENLARGEMENT))) is not None:
            return [one_more]
    merged = [(" and ".join(descriptions), cluster.nodes.get_name(index)) for index, descriptions in described]
    return _merge(merged, max(change.cost for change in changes))


def _find_one_more(
    pod: IncomingPod, cluster: Cluster, described: Sequence[tuple[int, list[str]]], position: int
) -> Remedy | None:
    """Return the remedy of one more node like one of these, which lack amounts; larger, where that does not suffice.

    The description at a position is that of more amounts on each node. Return None for a few nodes that are too small,
    and where a new one lacks nothing and fails by something else.
    """
    for node_index, descriptions in described[:_MAX_TRIED_NODES]:
        name = cluster.nodes.get_name(node_index)
        if find_fitting(pod, cluster, _create_shape(cluster, node_index)) is not None:
            parts = [*descriptions[:position], f"one more node like {name}", *descriptions[position + 1 :]]
            return Remedy(" and ".join(parts), (), RemedyCost.MACHINE)
    if len(described) <= _MAX_ENLARGED:
        return None
    node_index, descriptions = described[0]
    missing = _describe_missing(pod, cluster, node_index)
    if not missing:
        return None
    larger = f"a node like {cluster.nodes.get_name(node_index)} with {missing}"
    parts = [*descriptions[:position], larger, *descriptions[position + 1 :]]
    return Remedy(" and ".join(parts), (), RemedyCost.MACHINE)


def _create_shape(cluster: Cluster, node_index: int) -> NodeShape:
    """Return the shape of a node: its labels but the hostname, its taints, and what it has in all."""
    nodes = cluster.nodes
    labels = {key: value for key, value in nodes.get_labels(node_index).items() if key != HOSTNAME}
    allocatable = {
        name: Raw(f'"{format_amount(name, amount)}"'.encode())
        for name, amount in nodes.get_allocatable(node_index).items()
    }
    lasting = [taint for taint in nodes.taints.value(node_index) or () if taint.key != _CORDON_TAINT_KEY]
    return NodeShape(nodes.get_name(node_index), labels, allocatable, lasting)


def _select_with_devices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    rejected = np.zeros(len(nodes), dtype=np.bool_)
    for status in filter_dynamic_resources(pod, cluster, nodes):
        rejected |= status.rejected
    return nodes[~rejected]


def _with_spec(pod: IncomingPod, **fields: object) -> IncomingPod:
    return replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def _with_tolerations(pod: IncomingPod, tolerations: Sequence[Toleration]) -> IncomingPod:
    return _with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), *tolerations])


def _tolerate_cordon(pod: IncomingPod, _cluster: Cluster) -> IncomingPod:
    return _with_tolerations(pod, [Toleration(_CORDON_TAINT_KEY, "Exists")])


def _describe_uncordon(_pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    return (
        "uncordon the node"
        if cluster.nodes.unschedulable[node_index] or _blocking_taints(cluster, node_index, is_cordon=True)
        else ""
    )


def _tolerate_all(pod: IncomingPod, cluster: Cluster) -> IncomingPod:
    all_taints = [
        taint
        for node_taints in cluster.nodes.taints.numbers()
        for taint in node_taints
        if taint.key != _CORDON_TAINT_KEY
    ]
    return _with_tolerations(pod, [Toleration(taint.key, "Exists", effect=taint.effect) for taint in all_taints])


def _describe_toleration(pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    tolerations = pod.spec.tolerations or ()
    untolerated = [
        taint
        for taint in _blocking_taints(cluster, node_index, is_cordon=False)
        if not node_eligibility.is_tolerated(tolerations, taint)
    ]
    return f"tolerate {', '.join(map(_format_taint, untolerated))}" if untolerated else ""


def _blocking_taints(cluster: Cluster, node_index: int, *, is_cordon: bool) -> tuple[Taint, ...]:
    node_taints = cluster.nodes.taints.value(node_index) or ()
    return tuple(
        taint
        for taint in node_taints
        if taint.effect in node_eligibility.BLOCKING_EFFECTS and (taint.key == _CORDON_TAINT_KEY) is is_cordon
    )


def _format_taint(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _drop_node_selector(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    return _with_spec(pod, node_selector=None) if pod.spec.node_selector else None


def _describe_labels(pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    selector, labels = pod.spec.node_selector or {}, cluster.nodes.get_labels(node_index)
    missing = [f"{key}={value}" for key, value in sorted(selector.items()) if labels.get(key) != value]
    return f"label the node {', '.join(missing)}" if missing else ""


def _drop_node_affinity(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return _with_spec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=None))


def _drop_spread_constraints(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    return replace(pod, inter_pod=pod.inter_pod._replace(spread=())) if pod.inter_pod.spread else None


def _drop_pod_affinity(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    inter_pod = pod.inter_pod
    if not (inter_pod.affinity or inter_pod.anti_affinity):
        return None
    return replace(pod, inter_pod=inter_pod._replace(affinity=(), anti_affinity=()))


def _drop_host_ports(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    return replace(pod, ports=()) if pod.ports else None


def _drop_requests(pod: IncomingPod, _cluster: Cluster) -> IncomingPod | None:
    return replace(pod, requests=Amounts()) if pod.requests else None


def _describe_shortfalls(pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
    more = _format_more((each.resource, each.short) for each in shortfalls)
    return f"{more} on the node" if more else ""


def _describe_missing(pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    """Return what a node lacks in all: on a new one like it no other pod uses anything."""
    shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
    return _format_more((each.resource, each.requested - each.allocatable) for each in shortfalls)


def _format_more(amounts: Iterable[tuple[str, int]]) -> str:
    return " and ".join(f"{format_amount(name, amount)} more {name}" for name, amount in amounts if amount > 0)


def _describe_as(text: str) -> _Describe:
    return lambda _pod, _cluster, _node_index: text


_ENLARGEMENT = _Change(_drop_requests, _describe_shortfalls, RemedyCost.MACHINE)
_CHANGES: Sequence[_Change] = (
    _ENLARGEMENT,
    _Change(_tolerate_all, _describe_toleration),
    _Change(_tolerate_cordon, _describe_uncordon, RemedyCost.OBJECT),
    _Change(_drop_node_selector, _describe_labels, RemedyCost.OBJECT),
    _Change(_drop_node_affinity, _describe_as("leave its node affinity out")),
    _Change(_drop_spread_constraints, _describe_as("leave its spread constraints out")),
    _Change(_drop_pod_affinity, _describe_as("leave its affinity to pods out")),
    _Change(_drop_host_ports, _describe_as("leave its host ports out")),
)
