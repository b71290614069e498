"""How much work a pod asks for, told by its words alone, before any of them is looked at.

A pod may hold a megabyte of affinity to other pods, of which each term is a walk over all pods on nodes. Who answers
many people does not begin with such a pod.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.neighbours import reach
from webhook.objects.meta import LabelSelector, NodeSelector, SelectorRequirement
from webhook.objects.scheduling import Affinity, PodAffinity, PodAffinityTerm, SchedulingPod, SchedulingPodSpec

_WALK = 50  # a term about pods: a walk over those on nodes, where a word about nodes is a glance at a column
_PORT = 20
_COMPARISON = 40  # of a label as a number, which may have another value on each node
_VALUES = 16  # so many of a list are as quickly looked up as one word


def effort(pod: SchedulingPod, most: int) -> int | None:
    """How many words about nodes a pod has, or as many as would take as long: less than a hundred for most pods.

    None for more than `most`, where counting ends.
    """
    meta, spec = pod.metadata, pod.spec or SchedulingPodSpec()
    plain = len((meta.labels if meta else None) or ()) + len(spec.volumes or ())
    words = 0
    for each in chain((plain,), _of_nodes(spec), _of_pods(spec), _of_containers(spec)):
        words += each
        if words > most:
            return None
    return words


def walks(pod: Incoming, cluster: Cluster) -> int:
    """How many shapes of pods on nodes have to be walked over, at most, for all that a pod says of others."""
    company = pod.company
    terms = [(each.selector, reach(each, cluster)) for each in (*company.affinity, *company.anti_affinity)]
    constraints = [(each.selector, frozenset({pod.namespace})) for each in company.spread]
    return sum(
        cluster.label_index.count_max_candidates(selector, within) for selector, within in (*terms, *constraints)
    )


def words_of_others(pod: SchedulingPod) -> int:
    """The part of it that a pod on a node goes on to ask for, whenever another one is placed: whom it keeps away."""
    affinity = pod.spec.affinity if pod.spec else None
    return sum(map(_term, _terms(affinity.pod_anti_affinity if affinity else None)))


def _of_nodes(spec: SchedulingPodSpec) -> Iterator[int]:
    yield len(spec.node_selector or ()) + len(spec.tolerations or ())
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required or NodeSelector()).node_selector_terms or ():
        yield 1 + _requirements(chain(term.match_expressions or (), term.match_fields or ()))


def _of_pods(spec: SchedulingPodSpec) -> Iterator[int]:
    affinity = spec.affinity or Affinity()
    yield from map(_term, chain(_terms(affinity.pod_affinity), _terms(affinity.pod_anti_affinity)))
    for constraint in spec.topology_spread_constraints or ():
        yield _WALK + _selector(constraint.label_selector) + len(constraint.match_label_keys or ())


def _of_containers(spec: SchedulingPodSpec) -> Iterator[int]:
    for each in chain(spec.containers or (), spec.init_containers or ()):
        asked = each.resources
        names = len((asked.requests or {}).keys() | (asked.limits or {}).keys()) if asked else 0
        yield 1 + names + _PORT * sum(bool(port.host_port) for port in each.ports or ())


def _terms(affinity: PodAffinity | None) -> Iterable[PodAffinityTerm]:
    return (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()


def _term(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys or ()) + len(term.mismatch_label_keys or ())
    selectors = _selector(term.label_selector) + _selector(term.namespace_selector)
    return _WALK + keys + selectors + len(term.namespaces or ()) // _VALUES


def _selector(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels or ()) + _requirements(selector.match_expressions or ())


def _requirements(listed: Iterable[SelectorRequirement]) -> int:
    return sum(
        (_COMPARISON if each.operator in ("Gt", "Lt") else 1) + len(each.values or ()) // _VALUES for each in listed
    )
