"""Pods that want to be near each other, or away from each other.

Source: plugins/interpodaffinity/filtering.go and plugin.go, v1.36.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.nodes import Nodes
from webhook.accounting.cluster.terms import Term
from webhook.accounting.fit.domains import domains, places_of, sharing
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_good, for_now

_Standing = tuple[Term, Mapping[int, int]]
"""A term of pods on nodes, and how many of them are at which places."""


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
    wanted = [cluster.labelled.matching(each.selector, _reach(each, cluster)) for each in terms]
    taken = places_of(each.on for each in wanted[0].intersection(*wanted[1:]))
    inside = {each.topology_key: domains(nodes, each.topology_key)[0] >= 0 for each in terms}
    if not any(each[taken].any() for each in inside.values()) and _wants_itself(pod, cluster):
        return _all(inside.values())
    return _all(sharing(nodes, key, taken) for key in inside)


def _wants_itself(pod: Incoming, cluster: Cluster) -> bool:
    """Whether all terms are about the pod itself."""
    reaches = ((each, _reach(each, cluster)) for each in pod.company.affinity)
    return all(
        (reach is None or pod.namespace in reach) and each.selector.matches(pod.labels) for each, reach in reaches
    )


def _avoided(pod: Incoming, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that the pod avoids."""
    avoided = np.zeros(cluster.nodes.size, dtype=np.bool_)
    for each in pod.company.anti_affinity:
        shapes = cluster.labelled.matching(each.selector, _reach(each, cluster))
        avoided |= sharing(cluster.nodes, each.topology_key, places_of(shape.on for shape in shapes))
    return avoided


def _guarded(pod: Incoming, cluster: Cluster) -> Mask:
    """The places in a domain with a pod that avoids the pod."""
    standing = list(cluster.repelling.against(pod.namespace, cluster.labels_of(pod.namespace), pod.labels))
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
        for other, sign in cluster.supposed.values()
        if (place := cluster.nodes.place(other.node)) is not None
        for term in other.shape.anti_affinity
        if term.is_about(pod.namespace, cluster.labels_of(pod.namespace), pod.labels)
    ]
    if not any(sign > 0 for _, _, sign in thought):
        return False
    real = Counter({(term, place): pods for term, on in standing for place, pods in on.items()})
    for term, place, sign in thought:
        real[term, place] -= sign
    return not any(_is_inside(cluster.nodes, term, place) for (term, place), pods in real.items() if pods > 0)


def _is_inside(nodes: Nodes, term: Term, place: int) -> bool:
    return bool(domains(nodes, term.topology_key)[0][place] >= 0)


def _by_key(standing: Iterable[_Standing]) -> Mapping[str, list[Mapping[int, int]]]:
    grouped = defaultdict(list)
    for term, on in standing:
        grouped[term.topology_key].append(on)
    return grouped


def _reach(term: Term, cluster: Cluster) -> frozenset[str] | None:
    """The namespaces that a term of the pod is about; None for all (mergeAffinityTermNamespacesIfNotEmpty).

    A selector finds the namespaces that are known, unless it finds every one.
    """
    selector = term.namespace_selector
    if selector.is_empty:
        return None
    return term.namespaces | {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}


def _all(masks: Iterable[Mask]) -> Mask:
    everywhere: Mask = np.logical_and.reduce(list(masks))
    return everywhere
