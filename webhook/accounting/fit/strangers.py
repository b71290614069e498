"""Namespaces that are chosen by their labels, of which the labels are not known."""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm
from webhook.accounting.fit.incoming import Incoming

_MOST_NAMED = 3


def unknown(pod: Incoming, cluster: Cluster) -> Iterator[str]:
    """What the answer leaves open: namespaces are taken to have no labels, and it matters."""
    strange = sorted(_asked_for(pod, cluster) - cluster.namespaces.keys())
    if strange:
        more = f" and {len(strange) - _MOST_NAMED} more" if len(strange) > _MOST_NAMED else ""
        yield f"affinity: the labels of namespaces are not known: {', '.join(strange[:_MOST_NAMED])}{more}"


def _asked_for(pod: Incoming, cluster: Cluster) -> set[str]:
    """The namespaces whose labels say whom some term is about: the pod's own terms, or those of pods on nodes."""
    found: set[str] = set()
    if any(map(_looks, (*pod.company.affinity, *pod.company.anti_affinity))):
        found |= cluster.label_index.namespaces() | {pod.namespace}
    standing = cluster.anti_affinity_index.find_candidate_terms(pod.namespace, pod.labels)
    if any(_looks(each) and each.selector.matches(pod.labels) for each in standing):
        found.add(pod.namespace)
    return found


def _looks(term: AffinityTerm) -> bool:
    return bool(term.namespace_selector.conditions)
