"""The plugin PodTopologySpread: pods spread over domains, each of which is the nodes with one value of a label.

Source: plugins/podtopologyspread/filtering.go and common.go, v1.36.
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
"""The domain number of each node, `ABSENT` for a node in no domain."""

PodCounts = NDArray[np.int64]
"""Numbers of pods, by node index or by domain number."""

_CONSTRAINT_NOT_SATISFIED = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_CONSTRAINT_NOT_SATISFIED} (missing required label)"
_MINIMUM_WITHOUT_DOMAINS = (1 << 31) - 1  # the minimum if there is no domain


def filter_topology_spread(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes without a constraint's label, or above its skew; the first violated constraint decides."""
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
    """Return the nodes that are in a domain of every constraint; no other node counts for any constraint."""
    nodes = cluster.nodes.get_indices()
    for constraint in pod.inter_pod.spread:
        nodes = nodes[find_domains(cluster.nodes, constraint.topology_key)[0][nodes] >= 0]
    return nodes


def find_domains(columns: NodeColumns, key: str) -> tuple[TopologyDomains, int]:
    """Return the domain numbers of a label, shape `(size,)`, and their exclusive upper limit."""
    column = columns.find_label_column(key)
    if column is None:
        return np.full(columns.size, ABSENT, dtype=np.int32), 0
    return column.ids, len(column)


def _compute_skews(
    constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster, nodes: NodeIndices
) -> PodCounts:
    """Return the skew of each domain with the pod added, by domain number."""
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


def _count_matching_pods(constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster) -> PodCounts:
    """Return the number of pods in the pod's namespace that a constraint matches on each node.

    Terminating pods do not count, and an empty selector counts none (countPodsMatchSelector); but pods that a fork
    removed or assumed count always (updateWithPod).
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


def _find_global_minimum(domain_counts: PodCounts, min_domains: int) -> int:
    """Return the global minimum (minMatchNum)."""
    if len(domain_counts) < min_domains:
        return 0
    return int(domain_counts.min(initial=_MINIMUM_WITHOUT_DOMAINS))


def _select_included_nodes(
    constraint: HardSpreadConstraint, pod: IncomingPod, cluster: Cluster, nodes: NodeIndices
) -> NodeIndices:
    """Return the nodes that count for a constraint (matchNodeInclusionPolicies)."""
    if constraint.honors_affinity:
        matched = node_affinity.match_pod(pod, cluster.nodes)
        nodes = nodes if matched is None else nodes[matched[nodes]]
    if constraint.honors_taints:
        nodes = nodes[~node_eligibility.mask_untolerated_taints(pod, cluster)[nodes]]
    return nodes
