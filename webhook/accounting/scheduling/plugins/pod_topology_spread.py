"""Pods spread over domains.

Source: plugins/podtopologyspread/filtering.go and common.go, v1.36.

Domains: what nodes with one value of a label make up together.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import ABSENT, NodeIndices
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.scheduling.filter_status import FilterStatus, mark_unresolvable, mark_unschedulable
from webhook.accounting.scheduling.incoming_pod import HardSpreadConstraint, IncomingPod
from webhook.accounting.scheduling.plugins import node_affinity, node_eligibility

TopologyDomains = NDArray[np.int32]
"""The number of each place's domain, `ABSENT` where it is in none."""


def find_domains(columns: NodeColumns, key: str) -> tuple[TopologyDomains, int]:
    """The domains of a label, and how many numbers there may be; each is smaller."""
    column = columns.find_label_column(key)
    if column is None:
        return np.full(columns.size, ABSENT, dtype=np.int32), 0
    return column.ids, len(column)


PodCounts = NDArray[np.int64]
"""How many pods, by place or by domain."""

_CONSTRAINT_NOT_SATISFIED = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_CONSTRAINT_NOT_SATISFIED} (missing required label)"
_MINIMUM_WITHOUT_DOMAINS = (1 << 31) - 1  # what stands for the fewest where there is no domain


def filter_topology_spread(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes in no domain of a constraint, or in one too far ahead: what the first one says that is not kept."""
    feasible = np.ones(len(nodes), dtype=np.bool_)
    labelled_nodes = _find_labelled_nodes(pod, cluster) if pod.inter_pod.spread else nodes
    for constraint in pod.inter_pod.spread:
        domain = find_domains(cluster.nodes, constraint.topology_key)[0][nodes]
        is_unlabelled = feasible & (domain < 0)
        yield mark_unresolvable(_NO_LABEL, is_unlabelled)
        feasible &= ~is_unlabelled
        skews = _compute_skews(
            constraint, pod, cluster, _select_included_nodes(constraint, pod, cluster, labelled_nodes)
        )
        is_over_skew = feasible & (skews[domain] > constraint.max_skew)
        yield mark_unschedulable(_CONSTRAINT_NOT_SATISFIED, is_over_skew)
        feasible &= ~is_over_skew


def _find_labelled_nodes(pod: IncomingPod, cluster: Cluster) -> NodeIndices:
    """The nodes that are in a domain of every constraint; no others count for any."""
    nodes = cluster.nodes.get_indices()
    for constraint in pod.inter_pod.spread:
        nodes = nodes[find_domains(cluster.nodes, constraint.topology_key)[0][nodes] >= 0]
    return nodes


def _select_included_nodes(
    constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster, nodes: NodeIndices
) -> NodeIndices:
    """Those of these nodes that count for a constraint (matchNodeInclusionPolicies)."""
    if constraint.honors_affinity:
        matched = node_affinity.match_pod(pod, cluster.nodes)
        nodes = nodes if matched is None else nodes[matched[nodes]]
    if constraint.honors_taints:
        nodes = nodes[~node_eligibility.mask_untolerated_taints(pod, cluster)[nodes]]
    return nodes


def _compute_skews(
    constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster, nodes: NodeIndices
) -> PodCounts:
    """How far ahead of the one with fewest each domain would be with the pod, by number."""
    ids, id_count = find_domains(cluster.nodes, constraint.topology_key)
    pod_counts = _count_matching_pods(constraint, pod, cluster)[nodes]
    domain_counts: PodCounts = np.bincount(ids[nodes], weights=pod_counts, minlength=id_count + 1).astype(np.int64)
    has_nodes = np.bincount(ids[nodes]) > 0
    self_match = constraint.selector.matches(pod.labels)
    skews: PodCounts = (
        domain_counts
        + self_match
        - _find_global_minimum(domain_counts[: len(has_nodes)][has_nodes], constraint.min_domains)
    )
    return skews


def _find_global_minimum(domain_counts: PodCounts, min_domains: int) -> int:
    """The global minimum (minMatchNum)."""
    if len(domain_counts) < min_domains:
        return 0
    return int(domain_counts.min(initial=_MINIMUM_WITHOUT_DOMAINS))


def _count_matching_pods(constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster) -> PodCounts:
    """How many pods of the pod's namespace a constraint selects at each place.

    Pods being deleted do not count, and none does for a selector of everything (countPodsMatchSelector); but those that
    are thought away or thought to be there do (updateWithPod).
    """
    selector, is_empty, size = constraint.selector, constraint.selector.is_empty, cluster.nodes.size
    if is_empty:
        pod_counts = np.zeros(size, dtype=np.int64)
    else:
        selector_counts = cluster.selector_counts.count_pods(selector, frozenset({pod.namespace}), size)
        pod_counts = selector_counts.pods - selector_counts.terminating
    for pod_info, sign in cluster.fork_changes.values():
        node_index = cluster.nodes.find_index(pod_info.node)
        is_ignored = (is_empty or pod_info.is_terminating) and pod_info.namespace == pod.namespace
        if node_index is not None and is_ignored and selector.matches(pod_info.group.labels):
            pod_counts[node_index] += sign
    return pod_counts
