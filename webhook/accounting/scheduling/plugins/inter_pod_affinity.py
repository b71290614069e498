"""Pods that want to be near each other, or away from each other.

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


def list_counted_nodes(counts: Iterable[Mapping[int, int]]) -> NodeIndices:
    """The places at which something is counted, once for each mapping that has it."""
    return np.fromiter(chain.from_iterable(counts), dtype=np.intp)


def mask_shared_domains(columns: NodeColumns, key: str, occupied: NodeIndices) -> Mask:
    """Of each place, whether it is in one domain with one of those that are taken."""
    ids, id_count = find_domains(columns, key)
    is_occupied = np.zeros(id_count + 1, dtype=np.bool_)  # the last one is that of ABSENT
    is_occupied[ids[occupied]] = True
    is_occupied[ABSENT] = False
    shared: Mask = is_occupied[ids]
    return shared


_NO_LABELS: Mapping[str, str] = MappingProxyType({})

_ExistingTerm = tuple[AffinityTerm, Mapping[int, int]]
"""A term of pods on nodes, and how many of them are at which places."""


def pre_filter_inter_pod_affinity(pod: IncomingPod, _cluster: Cluster) -> str | None:
    """Why a pod is placed nowhere whose own words of other pods cannot be read."""
    return pod.inter_pod.pre_filter_message or None


def filter_inter_pod_affinity(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Nodes away from those whom the pod wants near it, near those whom it avoids, and near those who avoid it."""
    satisfied = np.ones(len(nodes), dtype=np.bool_)
    if pod.inter_pod.affinity:
        satisfied = _mask_affinity(pod, cluster)[nodes]
        yield mark_unresolvable("node(s) didn't match pod affinity rules", ~satisfied)
    violating = _mask_anti_affinity(pod, cluster)[nodes] & satisfied
    yield mark_unschedulable("node(s) didn't match pod anti-affinity rules", violating)
    violating_existing = _mask_existing_anti_affinity(pod, cluster)[nodes] & satisfied & ~violating
    yield mark_unschedulable("node(s) didn't satisfy existing pods anti-affinity rules", violating_existing)


def _mask_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """The places in a domain of each term that holds a pod of whom all the terms are.

    Where no domain holds any, the pod may be the first of those that want to be with each other, in any domains.
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
    """Whom all of some terms are about: selected by what, in which namespaces; None for all."""
    namespace_sets = [names for each in terms if (names := resolve_namespaces(each, cluster)) is not None]
    selector = reduce(Selector.intersect, (each.selector for each in terms), MATCH_EVERYTHING)
    return selector, frozenset.intersection(*namespace_sets) if namespace_sets else None


def _mask_anti_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that the pod avoids."""
    violating = np.zeros(cluster.nodes.size, dtype=np.bool_)
    for term in pod.inter_pod.anti_affinity:
        violating |= mask_shared_domains(
            cluster.nodes,
            term.topology_key,
            _find_nodes_with_pods(term.selector, resolve_namespaces(term, cluster), cluster),
        )
    return violating


def _find_nodes_with_pods(selector: Selector, namespaces: frozenset[str] | None, cluster: Cluster) -> NodeIndices:
    """The places that have a pod which is selected in these namespaces."""
    return np.flatnonzero(cluster.selector_counts.count_pods(selector, namespaces, cluster.nodes.size).pods)


def _mask_existing_anti_affinity(pod: IncomingPod, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that avoids the pod."""
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
    """Whether only pods that are thought to be there avoid a pod that has no terms itself.

    The plugin is skipped then (PreFilter): it does not hear of them.
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
    real_counts = Counter({(term, place): pods for term, on in existing_terms for place, pods in on.items()})
    for term, node_index, sign in forked_terms:
        real_counts[term, node_index] -= sign
    return not any(_is_in_domain(cluster.nodes, term, place) for (term, place), pods in real_counts.items() if pods > 0)


def _is_in_domain(columns: NodeColumns, term: AffinityTerm, node_index: int) -> bool:
    return bool(find_domains(columns, term.topology_key)[0][node_index] >= 0)


def _group_by_topology_key(existing_terms: Iterable[_ExistingTerm]) -> Mapping[str, list[Mapping[int, int]]]:
    grouped = defaultdict(list)
    for term, counts in existing_terms:
        grouped[term.topology_key].append(counts)
    return grouped


def resolve_namespaces(term: AffinityTerm, cluster: Cluster) -> frozenset[str] | None:
    """The namespaces that a term of the pod is about; None for all.

    A selector finds those that are known and have the labels. One that matches no labels at all too, such as a NotIn,
    is about every namespace: mergeAffinityTermNamespacesIfNotEmpty leaves it in place, in vain emptying a copy, and
    no namespace's labels are looked at then (AffinityTerm.Matches with nil).
    """
    selector = term.namespace_selector
    if selector.matches(_NO_LABELS):
        return None
    if selector == MATCH_NOTHING:
        return term.namespaces
    return term.namespaces | {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}


def _intersect(masks: Iterable[Mask]) -> Mask:
    intersection: Mask = np.logical_and.reduce(list(masks))
    return intersection
