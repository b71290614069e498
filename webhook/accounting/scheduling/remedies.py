"""Remedies for a pod that fits no node: changes of the pod, of its claims or of nodes, each verified by a trial.

A trial makes one change, and two together where no single one helps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from tallygate.webhook.accounting.amounts import Amounts, format_amount
from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.columns import NodeIndices
from tallygate.webhook.accounting.scheduling.device_remedies import try_device_changes
from tallygate.webhook.accounting.scheduling.filters import run_filters
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.plugins import node_eligibility, node_resources_fit
from tallygate.webhook.accounting.scheduling.plugins.dynamic_resources import filter_dynamic_resources
from tallygate.webhook.accounting.scheduling.plugins.resource_claims import needs_devices
from tallygate.webhook.objects.scheduling import Taint, Toleration

_CORDON_TAINT_KEY = "node.kubernetes.io/unschedulable"
_MAX_COMBINED = 2
"""The maximal number of changes that are tried together."""

_Describe = Callable[[IncomingPod, Cluster, int], str]
"""A function that describes a change for the node at an index; an empty text if the node needs no change."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change, as text, and the nodes that are feasible after it."""

    change: str
    nodes: tuple[str, ...]


class _Change(NamedTuple):
    """A change to try: `apply` returns the pod after the change, or None when the pod gives no cause for it."""

    apply: Callable[[IncomingPod, Cluster], IncomingPod | None]
    describe: _Describe


def find_remedies(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> tuple[Remedy, ...]:
    """Return the changes that help, each with those of these nodes that are feasible after it.

    The result is empty if more than two changes are necessary. Changes to nodes are sorted by the size of the
    shortfall, the smallest first.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    for change_count in range(1, _MAX_COMBINED + 1):
        nodes_by_change: dict[str, list[str]] = {}
        for changes in combinations(_CHANGES, change_count):
            for change, node_name in _try_changes(pod, cluster, nodes, changes):
                nodes_by_change.setdefault(change, []).append(node_name)
        if change_count == 1 and needs_devices(pod, cluster):
            for change, node_name in try_device_changes(pod, cluster, nodes):
                nodes_by_change.setdefault(change, []).append(node_name)
        if nodes_by_change:
            return tuple(Remedy(change, tuple(sorted(node_names))) for change, node_names in nodes_by_change.items())
    return ()


def _try_changes(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, changes: Sequence[_Change]
) -> Iterator[tuple[str, str]]:
    """Yield the description and node name for each node that is feasible after these changes."""
    modified = pod
    for next_change in changes:
        candidate = next_change.apply(modified, cluster)
        if candidate is None:
            return
        modified = candidate
    feasible = run_filters(modified, cluster, nodes).feasible
    if modified.requests is not pod.requests:  # devices back some of them
        feasible = _select_with_devices(pod, cluster, feasible)
    for node_index in sorted(
        feasible.tolist(), key=lambda each: node_resources_fit.measure_shortfall(pod, cluster, each)
    ):
        descriptions = [each.describe(pod, cluster, node_index) for each in changes]
        if all(descriptions):
            yield " and ".join(descriptions), cluster.nodes.get_name(node_index)


def _select_with_devices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    """Return the nodes whose devices suffice for a pod."""
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
        each for node_taints in cluster.nodes.taints.numbers() for each in node_taints if each.key != _CORDON_TAINT_KEY
    ]
    return _with_tolerations(pod, [Toleration(each.key, "Exists", effect=each.effect) for each in all_taints])


def _describe_toleration(pod: IncomingPod, cluster: Cluster, node_index: int) -> str:
    tolerations = pod.spec.tolerations or ()
    untolerated = [
        each
        for each in _blocking_taints(cluster, node_index, is_cordon=False)
        if not node_eligibility.is_tolerated(tolerations, each)
    ]
    return f"tolerate {', '.join(map(_format_taint, untolerated))}" if untolerated else ""


def _blocking_taints(cluster: Cluster, node_index: int, *, is_cordon: bool) -> tuple[Taint, ...]:
    """Return the taints of a node that block pods: the cordon taint, or all others."""
    node_taints = cluster.nodes.taints.value(node_index) or ()
    return tuple(
        each
        for each in node_taints
        if each.effect in node_eligibility.BLOCKING_EFFECTS and (each.key == _CORDON_TAINT_KEY) is is_cordon
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
    """Describe the short amount of each resource on a node."""
    shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
    parts = [f"{format_amount(each.resource, each.short)} more {each.resource}" for each in shortfalls]
    return f"{' and '.join(parts)} on the node" if parts else ""


def _describe_as(text: str) -> _Describe:
    return lambda _pod, _cluster, _node_index: text


_CHANGES: Sequence[_Change] = (
    _Change(_drop_requests, _describe_shortfalls),
    _Change(_tolerate_all, _describe_toleration),
    _Change(_tolerate_cordon, _describe_uncordon),
    _Change(_drop_node_selector, _describe_labels),
    _Change(_drop_node_affinity, _describe_as("leave its node affinity out")),
    _Change(_drop_spread_constraints, _describe_as("leave its spread constraints out")),
    _Change(_drop_pod_affinity, _describe_as("leave its affinity to pods out")),
    _Change(_drop_host_ports, _describe_as("leave its host ports out")),
)
