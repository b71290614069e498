"""The plugins that depend on other pods: InterPodAffinity and PodTopologySpread.

InterPodAffinity is required affinity and anti-affinity between pods. Source: plugins/interpodaffinity/filtering.go and
plugin.go, v1.36.

PodTopologySpread spreads pods over domains, each of which is the nodes with one value of a label. Source:
plugins/podtopologyspread/filtering.go and common.go, v1.36.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import ABSENT, Mask, NodeIndices
from tallygate.accounting.cluster.node_columns import NodeColumns
from tallygate.accounting.cluster.pod_info import AffinityTerm
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unresolvable, mark_unschedulable
from tallygate.accounting.scheduling.incoming_pod import HardSpreadConstraint, IncomingPod
from tallygate.accounting.scheduling.plugins.node_eligibility import mask_untolerated_taints, match_pod
from tallygate.accounting.selectors import MATCH_EVERYTHING, MATCH_NOTHING, Selector

_NO_LABELS: Mapping[str, str] = MappingProxyType({})

_ExistingTerm = tuple[AffinityTerm, Mapping[int, int]]
"""A term of pods on nodes, and the number of these pods by node index."""


def pre_filter_inter_pod_affinity(pod: IncomingPod, _cluster: Cluster) -> str | None:
    """Return the reason why a pod with invalid terms fits no node; None if its terms are valid."""
    return pod.inter_pod.pre_filter_message or None


def filter_inter_pod_affinity(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that violate the pod's affinity, its anti-affinity, or the anti-affinity of existing pods."""
    satisfied = np.ones(len(nodes), dtype=np.bool_)
    if pod.inter_pod.affinity:
        satisfied = _mask_affinity(pod, cluster)[nodes]
        yield mark_unresolvable("node(s) didn't match pod affinity rules", ~satisfied)
    violating = _mask_anti_affinity(pod, cluster)[nodes] & satisfied
    yield mark_unschedulable("node(s) didn't match pod anti-affinity rules", violating)
    violating_existing = _mask_existing_anti_affinity(pod, cluster)[nodes] & satisfied & ~violating
    yield mark_unschedulable("node(s) didn't satisfy existing pods anti-affinity rules", violating_existing)


def _mask_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """Return a mask of the nodes that have, in a domain of each term, a pod that matches all terms.

    If no domain has such a pod, and the pod matches its own terms, it may be the first one, in any domains.
    """
    columns, terms = cluster.nodes, pod.inter_pod.affinity
    selector, namespaces = _combine_terms(terms, cluster)
    occupied = _find_nodes_with_pods(selector, namespaces, cluster)
    domain_masks = {term.topology_key: find_domains(columns, term.topology_key)[0] >= 0 for term in terms}
    matches_itself = selector.matches(pod.labels) and (namespaces is None or pod.namespace in namespaces)
    if matches_itself and not any(mask[occupied].any() for mask in domain_masks.values()):
        return _intersect(domain_masks.values())
    return _intersect(mask_shared_domains(columns, key, occupied) for key in domain_masks)


def _combine_terms(terms: Iterable[AffinityTerm], cluster: Cluster) -> tuple[Selector, frozenset[str] | None]:
    """Return the selector and the namespaces of the pods that all terms match; None for all namespaces."""
    namespace_sets = [names for term in terms if (names := resolve_namespaces(term, cluster)) is not None]
    selector = reduce(Selector.intersect, (term.selector for term in terms), MATCH_EVERYTHING)
    return selector, frozenset.intersection(*namespace_sets) if namespace_sets else None


def resolve_namespaces(term: AffinityTerm, cluster: Cluster) -> frozenset[str] | None:
    """Return the namespaces of a term of the pod; None for all.

    A selector matches the known namespaces with its labels. Before 1.37 a selector that matches empty labels too, such
    as a NotIn, matches every namespace: mergeAffinityTermNamespacesIfNotEmpty empties only a copy of it and leaves the
    term's own in place, and AffinityTerm.Matches then gets nil for the namespace labels.
    """
    selector = term.namespace_selector
    is_dropped = cluster.version.has(Switch.DROPS_NAMESPACE_SELECTORS)
    if selector.is_empty if is_dropped else selector.matches(_NO_LABELS):
        return None
    if selector == MATCH_NOTHING:
        return term.namespaces
    return term.namespaces | {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}


def _find_nodes_with_pods(selector: Selector, namespaces: frozenset[str] | None, cluster: Cluster) -> NodeIndices:
    return np.flatnonzero(cluster.selector_counts.count_pods(selector, namespaces, cluster.nodes.size).pods)


def _intersect(masks: Iterable[Mask]) -> Mask:
    intersection: Mask = np.logical_and.reduce(list(masks))
    return intersection


def mask_shared_domains(columns: NodeColumns, key: str, occupied: NodeIndices) -> Mask:
    ids, id_count = find_domains(columns, key)
    is_occupied = np.zeros(id_count + 1, dtype=np.bool_)  # the last element is that of ABSENT
    is_occupied[ids[occupied]] = True
    is_occupied[ABSENT] = False
    shared: Mask = is_occupied[ids]
    return shared


def _mask_anti_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """Return a mask of the nodes that share a domain with a pod that the pod's anti-affinity excludes."""
    violating = np.zeros(cluster.nodes.size, dtype=np.bool_)
    for term in pod.inter_pod.anti_affinity:
        violating |= mask_shared_domains(
            cluster.nodes,
            term.topology_key,
            _find_nodes_with_pods(term.selector, resolve_namespaces(term, cluster), cluster),
        )
    return violating


def _mask_existing_anti_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """Return a mask of the nodes that share a domain with a pod whose anti-affinity excludes this pod."""
    existing_terms = list(
        cluster.anti_affinity_index.find_terms_against(
            pod.namespace, cluster.get_namespace_labels(pod.namespace), pod.labels
        )
    )
    violating = np.zeros(cluster.nodes.size, dtype=np.bool_)
    if _is_skipped_by_pre_filter(pod, cluster, existing_terms):
        return violating
    for key, counts in _group_by_topology_key(existing_terms).items():
        violating |= mask_shared_domains(cluster.nodes, key, list_counted_nodes(counts))
    return violating


def _is_skipped_by_pre_filter(pod: IncomingPod, cluster: Cluster, existing_terms: Iterable[_ExistingTerm]) -> bool:
    """Return whether a pod has no terms and only pods that the fork assumed have terms against it.

    The pre-filter (PreFilter) skips the plugin then, and so ignores these pods.
    """
    if pod.inter_pod.affinity or pod.inter_pod.anti_affinity:
        return False
    forked_terms = [
        (term, node_index, sign)
        for pod_info, sign in cluster.fork_changes.values()
        if (node_index := cluster.nodes.find_index(pod_info.node)) is not None
        for term in pod_info.group.anti_affinity
        if term.matches(pod.namespace, cluster.get_namespace_labels(pod.namespace), pod.labels)
    ]
    if not any(sign > 0 for _, _, sign in forked_terms):
        return False
    real_counts = Counter(
        {(term, node_index): pods for term, counts in existing_terms for node_index, pods in counts.items()}
    )
    for term, node_index, sign in forked_terms:
        real_counts[term, node_index] -= sign
    return not any(
        _is_in_domain(cluster.nodes, term, node_index) for (term, node_index), pods in real_counts.items() if pods > 0
    )


def _is_in_domain(columns: NodeColumns, term: AffinityTerm, node_index: int) -> bool:
    return bool(find_domains(columns, term.topology_key)[0][node_index] >= 0)


def _group_by_topology_key(existing_terms: Iterable[_ExistingTerm]) -> Mapping[str, list[Mapping[int, int]]]:
    grouped = defaultdict(list)
    for term, counts in existing_terms:
        grouped[term.topology_key].append(counts)
    return grouped


def list_counted_nodes(counts: Iterable[Mapping[int, int]]) -> NodeIndices:
    """Return the node indices of all mappings, an index once for each mapping that has it."""
    return np.fromiter(chain.from_iterable(counts), dtype=np.intp)


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

    Terminating pods do not count, and before MATCHES_EMPTY_SPREAD_SELECTORS an empty selector counts none
    (countPodsMatchSelector); but pods that a fork removed or assumed count always (updateWithPod).
    """
    selector, size = constraint.selector, cluster.nodes.size
    counts_none = selector.is_empty and not cluster.version.has(Switch.MATCHES_EMPTY_SPREAD_SELECTORS)
    if counts_none:
        pod_counts = np.zeros(size, dtype=np.int64)
    else:
        selector_counts = cluster.selector_counts.count_pods(selector, frozenset({pod.namespace}), size)
        pod_counts = selector_counts.pods - selector_counts.terminating
    for pod_info, sign in cluster.fork_changes.values():
        node_index = cluster.nodes.find_index(pod_info.node)
        is_ignored = (counts_none or pod_info.is_terminating) and pod_info.namespace == pod.namespace
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
        matched = match_pod(pod, cluster.nodes)
        nodes = nodes if matched is None else nodes[matched[nodes]]
    if constraint.honors_taints:
        nodes = nodes[~mask_untolerated_taints(pod, cluster)[nodes]]
    return nodes
