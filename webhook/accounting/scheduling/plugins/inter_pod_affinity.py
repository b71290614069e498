"""The plugin InterPodAffinity: required affinity and anti-affinity between pods.

Source: plugins/interpodaffinity/filtering.go and plugin.go, v1.36.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from types import MappingProxyType

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import ABSENT, Mask, NodeIndices
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.scheduling.filter_status import FilterStatus, mark_unresolvable, mark_unschedulable
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins.pod_topology_spread import find_domains
from webhook.accounting.selectors import MATCH_EVERYTHING, MATCH_NOTHING, Selector

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
    domain_masks = {each.topology_key: find_domains(columns, each.topology_key)[0] >= 0 for each in terms}
    matches_itself = selector.matches(pod.labels) and (namespaces is None or pod.namespace in namespaces)
    if matches_itself and not any(each[occupied].any() for each in domain_masks.values()):
        return _intersect(domain_masks.values())
    return _intersect(mask_shared_domains(columns, key, occupied) for key in domain_masks)


def _combine_terms(terms: Iterable[AffinityTerm], cluster: Cluster) -> tuple[Selector, frozenset[str] | None]:
    """Return the selector and the namespaces of the pods that all terms match; None for all namespaces."""
    namespace_sets = [names for each in terms if (names := resolve_namespaces(each, cluster)) is not None]
    selector = reduce(Selector.intersect, (each.selector for each in terms), MATCH_EVERYTHING)
    return selector, frozenset.intersection(*namespace_sets) if namespace_sets else None


def resolve_namespaces(term: AffinityTerm, cluster: Cluster) -> frozenset[str] | None:
    """Return the namespaces of a term of the pod; None for all.

    A selector matches the known namespaces with its labels. A selector that matches empty labels too, such as a NotIn,
    matches every namespace: mergeAffinityTermNamespacesIfNotEmpty empties only a copy of it and leaves the term's own
    in place, and AffinityTerm.Matches then gets nil for the namespace labels.
    """
    selector = term.namespace_selector
    if selector.matches(_NO_LABELS):
        return None
    if selector == MATCH_NOTHING:
        return term.namespaces
    return term.namespaces | {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}


def _find_nodes_with_pods(selector: Selector, namespaces: frozenset[str] | None, cluster: Cluster) -> NodeIndices:
    """Return the indices of the nodes with a matching pod in these namespaces."""
    return np.flatnonzero(cluster.selector_counts.count_pods(selector, namespaces, cluster.nodes.size).pods)


def _intersect(masks: Iterable[Mask]) -> Mask:
    intersection: Mask = np.logical_and.reduce(list(masks))
    return intersection


def mask_shared_domains(columns: NodeColumns, key: str, occupied: NodeIndices) -> Mask:
    """Return a mask of the nodes that share a domain of the topology key with an occupied node."""
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
