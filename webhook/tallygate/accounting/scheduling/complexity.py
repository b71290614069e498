"""Estimates of the work that a pod causes, from its spec alone, before any part of it is evaluated.

A pod may have a megabyte of affinity terms, each of which scans all pods on nodes. A server with many callers does not
evaluate such a pod.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.inter_pod_constraints import resolve_namespaces
from tallygate.objects.meta import LabelSelector, NodeSelector, SelectorRequirement
from tallygate.objects.scheduling import Affinity, PodAffinity, PodAffinityTerm, SchedulingPod, SchedulingPodSpec

_TERM_COST = 50  # a term about pods scans all pods on nodes; a requirement on nodes is one column lookup
_PORT_COST = 20
_COMPARISON_COST = 40  # a label compared as a number may have another value on each node
_VALUES_PER_UNIT = 16  # the lookup of this many listed values costs as much as one requirement


def estimate_complexity(pod: SchedulingPod, limit: int) -> int | None:
    """Return the cost of a pod in units of one requirement on nodes: less than a hundred for most pods.

    None if the cost exceeds `limit`, where counting ends.
    """
    meta, spec = pod.metadata, pod.spec or SchedulingPodSpec()
    metadata_complexity = len((meta.labels if meta else None) or ()) + len(spec.volumes or ())
    complexity = 0
    for part in chain((metadata_complexity,), _estimate_nodes(spec), _estimate_pods(spec), _estimate_containers(spec)):
        complexity += part
        if complexity > limit:
            return None
    return complexity


def count_scanned_groups(pod: IncomingPod, cluster: Cluster) -> int:
    """Return an upper limit on the scheduling groups that a pod's terms and spread constraints scan."""
    inter_pod = pod.inter_pod
    terms = [
        (term.selector, resolve_namespaces(term, cluster)) for term in (*inter_pod.affinity, *inter_pod.anti_affinity)
    ]
    constraints = [(constraint.selector, frozenset({pod.namespace})) for constraint in inter_pod.spread]
    return sum(
        cluster.label_index.count_max_candidates(selector, namespaces)
        for selector, namespaces in (*terms, *constraints)
    )


def estimate_anti_affinity(pod: SchedulingPod) -> int:
    """Return the cost of a pod's anti-affinity terms, which every later placement pays while the pod is on a node."""
    affinity = pod.spec.affinity if pod.spec else None
    return sum(map(_estimate_term, _list_required_terms(affinity.pod_anti_affinity if affinity else None)))


def _estimate_nodes(spec: SchedulingPodSpec) -> Iterator[int]:
    yield len(spec.node_selector or ()) + len(spec.tolerations or ())
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required or NodeSelector()).node_selector_terms or ():
        yield 1 + _estimate_requirements(chain(term.match_expressions or (), term.match_fields or ()))


def _estimate_pods(spec: SchedulingPodSpec) -> Iterator[int]:
    affinity = spec.affinity or Affinity()
    yield from map(
        _estimate_term,
        chain(_list_required_terms(affinity.pod_affinity), _list_required_terms(affinity.pod_anti_affinity)),
    )
    for constraint in spec.topology_spread_constraints or ():
        yield _TERM_COST + _estimate_selector(constraint.label_selector) + len(constraint.match_label_keys or ())


def _estimate_containers(spec: SchedulingPodSpec) -> Iterator[int]:
    for container in chain(spec.containers or (), spec.init_containers or ()):
        resources = container.resources
        names = len((resources.requests or {}).keys() | (resources.limits or {}).keys()) if resources else 0
        yield 1 + names + _PORT_COST * sum(bool(port.host_port) for port in container.ports or ())


def _list_required_terms(affinity: PodAffinity | None) -> Iterable[PodAffinityTerm]:
    return (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()


def _estimate_term(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys or ()) + len(term.mismatch_label_keys or ())
    selectors = _estimate_selector(term.label_selector) + _estimate_selector(term.namespace_selector)
    return _TERM_COST + keys + selectors + len(term.namespaces or ()) // _VALUES_PER_UNIT


def _estimate_selector(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels or ()) + _estimate_requirements(selector.match_expressions or ())


def _estimate_requirements(requirements: Iterable[SelectorRequirement]) -> int:
    return sum(
        (_COMPARISON_COST if requirement.operator in ("Gt", "Lt") else 1)
        + len(requirement.values or ()) // _VALUES_PER_UNIT
        for requirement in requirements
    )
