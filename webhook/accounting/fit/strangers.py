"""Namespaces that are chosen by their labels, of which the labels are not known."""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm
from webhook.accounting.fit.incoming import IncomingPod

_MAX_LISTED = 3


def find_unmodelled_namespaces(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """What the answer leaves open: namespaces are taken to have no labels, and it matters."""
    unknown_namespaces = sorted(_find_referenced_namespaces(pod, cluster) - cluster.namespaces.keys())
    if unknown_namespaces:
        more = f" and {len(unknown_namespaces) - _MAX_LISTED} more" if len(unknown_namespaces) > _MAX_LISTED else ""
        yield f"affinity: the labels of namespaces are not known: {', '.join(unknown_namespaces[:_MAX_LISTED])}{more}"


def _find_referenced_namespaces(pod: IncomingPod, cluster: Cluster) -> set[str]:
    """The namespaces whose labels say whom some term is about: the pod's own terms, or those of pods on nodes."""
    namespaces: set[str] = set()
    if any(map(_has_namespace_selector, (*pod.inter_pod.affinity, *pod.inter_pod.anti_affinity))):
        namespaces |= cluster.label_index.namespaces() | {pod.namespace}
    existing_terms = cluster.anti_affinity_index.find_candidate_terms(pod.namespace, pod.labels)
    if any(_has_namespace_selector(each) and each.selector.matches(pod.labels) for each in existing_terms):
        namespaces.add(pod.namespace)
    return namespaces


def _has_namespace_selector(term: AffinityTerm) -> bool:
    return bool(term.namespace_selector.conditions)
