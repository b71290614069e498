"""Pods that want to be near each other, or away from each other.

Source: plugins/interpodaffinity/filtering.go and plugin.go, v1.36.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.domains import domains, places_of, sharing
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good, for_now
from webhook.accounting.selectors import MATCH_EVERYTHING, MATCH_NOTHING, Selector

_NO_LABELS: Mapping[str, str] = MappingProxyType({})

_Standing = tuple[AffinityTerm, Mapping[int, int]]
"""A term of pods on nodes, and how many of them are at which places."""


def refusal(pod: Incoming, _cluster: Cluster) -> str | None:
    """Why a pod is placed nowhere whose own words of other pods cannot be read."""
    return pod.company.refusal or None


def apart(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes away from those whom the pod wants near it, near those whom it avoids, and near those who avoid it."""
    near = np.ones(len(places), dtype=np.bool_)
    if pod.company.affinity:
        near = _near(pod, cluster)[places]
        yield for_good("node(s) didn't match pod affinity rules", ~near)
    avoided = _avoided(pod, cluster)[places] & near
    yield for_now("node(s) didn't match pod anti-affinity rules", avoided)
    guarded = _guarded(pod, cluster)[places] & near & ~avoided
    yield for_now("node(s) didn't satisfy existing pods anti-affinity rules", guarded)


def _near(pod: Incoming, cluster: Cluster) -> Mask:
    """The places in a domain of each term that holds a pod of whom all the terms are.

    Where no domain holds any, the pod may be the first of those that want to be with each other, in any domains.
    """
    nodes, terms = cluster.nodes, pod.company.affinity
    selector, reach = _together(terms, cluster)
    taken = _taken(selector, reach, cluster)
    inside = {each.topology_key: domains(nodes, each.topology_key)[0] >= 0 for each in terms}
    wants_itself = selector.matches(pod.labels) and (reach is None or pod.namespace in reach)
    if wants_itself and not any(each[taken].any() for each in inside.values()):
        return _all(inside.values())
    return _all(sharing(nodes, key, taken) for key in inside)


def _together(terms: Iterable[AffinityTerm], cluster: Cluster) -> tuple[Selector, frozenset[str] | None]:
    """Whom all of some terms are about: selected by what, in which namespaces; None for all."""
    reaches = [within for each in terms if (within := reach(each, cluster)) is not None]
    selector = reduce(Selector.intersect, (each.selector for each in terms), MATCH_EVERYTHING)
    return selector, frozenset.intersection(*reaches) if reaches else None


def _avoided(pod: Incoming, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that the pod avoids."""
    avoided = np.zeros(cluster.nodes.size, dtype=np.bool_)
    for each in pod.company.anti_affinity:
        avoided |= sharing(cluster.nodes, each.topology_key, _taken(each.selector, reach(each, cluster), cluster))
    return avoided


def _taken(selector: Selector, reach: frozenset[str] | None, cluster: Cluster) -> Places:
    """The places that have a pod which is selected in these namespaces."""
    return np.flatnonzero(cluster.selector_counts.count_pods(selector, reach, cluster.nodes.size).pods)


def _guarded(pod: Incoming, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that avoids the pod."""
    standing = list(
        cluster.anti_affinity_index.find_terms_against(
            pod.namespace, cluster.get_namespace_labels(pod.namespace), pod.labels
        )
    )
    guarded = np.zeros(cluster.nodes.size, dtype=np.bool_)
    if _is_passed_over(pod, cluster, standing):
        return guarded
    for key, on in _by_key(standing).items():
        guarded |= sharing(cluster.nodes, key, places_of(on))
    return guarded


def _is_passed_over(pod: Incoming, cluster: Cluster, standing: Iterable[_Standing]) -> bool:
    """Whether only pods that are thought to be there avoid a pod that has no terms itself.

    The plugin is skipped then (PreFilter): it does not hear of them.
    """
    if pod.company.affinity or pod.company.anti_affinity:
        return False
    thought = [
        (term, place, sign)
        for other, sign in cluster.fork_changes.values()
        if (place := cluster.nodes.find_index(other.node)) is not None
        for term in other.group.anti_affinity
        if term.matches(pod.namespace, cluster.get_namespace_labels(pod.namespace), pod.labels)
    ]
    if not any(sign > 0 for _, _, sign in thought):
        return False
    real = Counter({(term, place): pods for term, on in standing for place, pods in on.items()})
    for term, place, sign in thought:
        real[term, place] -= sign
    return not any(_is_inside(cluster.nodes, term, place) for (term, place), pods in real.items() if pods > 0)


def _is_inside(nodes: NodeColumns, term: AffinityTerm, place: int) -> bool:
    return bool(domains(nodes, term.topology_key)[0][place] >= 0)


def _by_key(standing: Iterable[_Standing]) -> Mapping[str, list[Mapping[int, int]]]:
    grouped = defaultdict(list)
    for term, on in standing:
        grouped[term.topology_key].append(on)
    return grouped


def reach(term: AffinityTerm, cluster: Cluster) -> frozenset[str] | None:
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


def _all(masks: Iterable[Mask]) -> Mask:
    everywhere: Mask = np.logical_and.reduce(list(masks))
    return everywhere
