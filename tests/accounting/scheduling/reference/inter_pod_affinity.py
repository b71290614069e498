"""framework/plugins/interpodaffinity/filtering.go and plugin.go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import Json, Labels, get_labels, get_name, get_namespace
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.selectors import NOTHING
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from tests.accounting.scheduling.reference.terms import AffinityTerm

Counts = Counter[tuple[str, str]]
"""topologyToMatchedTermCount: by key and value of a node's label. A count of zero is removed."""

_NO_NAMESPACE: Labels = {}


@dataclass(slots=True)
class _State:
    """preFilterState: the pod's terms with the selected namespaces, and the number of matching pods by topology."""

    affinity: list[AffinityTerm]
    anti_affinity: list[AffinityTerm]
    namespace_labels: Labels
    affinity_counts: Counts
    anti_affinity_counts: Counts
    existing_counts: Counts

    def clone(self) -> _State:
        return replace(
            self,
            affinity_counts=Counter(self.affinity_counts),
            anti_affinity_counts=Counter(self.anti_affinity_counts),
            existing_counts=Counter(self.existing_counts),
        )

    def update(self, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Implement `updateWithPod`."""
        existing = [each for each in other.anti_affinity if each.matches(pod.pod, self.namespace_labels)]
        _update(self.existing_counts, existing, node, by)
        if _matches_all(self.affinity, other.pod):
            _update(self.affinity_counts, self.affinity, node, by)
        incoming = [each for each in self.anti_affinity if each.matches(other.pod, _NO_NAMESPACE)]
        _update(self.anti_affinity_counts, incoming, node, by)


class InterPodAffinity(Plugin):
    """Required affinity and anti-affinity between pods, in both directions."""

    name = "InterPodAffinity"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement PreFilter, getExistingAntiAffinityCounts, getIncomingAffinityAntiAffinityCounts."""
        state = _State(
            [_merge_namespaces(cycle, each) for each in pod.affinity],
            [_merge_namespaces(cycle, each) for each in pod.anti_affinity],
            _get_namespace_labels(cycle.cluster, pod.pod),
            Counter(),
            Counter(),
            Counter(),
        )
        for node in cycle.cluster.nodes:
            for other in node.pods:
                state.update(pod, other, node, 1)
        if not (state.existing_counts or state.affinity or state.anti_affinity):
            return None, SKIP
        cycle.states[self.name] = state
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement InterPodAffinity.Filter."""
        state: _State = cycle.states[self.name]
        if not _satisfies_affinity(state, pod, node):
            return unresolvable("node(s) didn't match pod affinity rules")
        keys = [each.topology_key for each in state.anti_affinity if each.topology_key in node.labels]
        if _has_positive_count(state.anti_affinity_counts, [(key, node.labels[key]) for key in keys]):
            return unschedulable("node(s) didn't match pod anti-affinity rules")
        if _has_positive_count(state.existing_counts, node.labels.items()):
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Implement AddPod, RemovePod."""
        cycle.states[self.name].update(pod, other, node, by)


def _satisfies_affinity(state: _State, pod: PodInfo, node: NodeInfo) -> bool:
    """Implement satisfyPodAffinity, which also accepts the first pod of a group with affinity to itself."""
    if any(each.topology_key not in node.labels for each in state.affinity):
        return False
    pairs = [(each.topology_key, node.labels[each.topology_key]) for each in state.affinity]
    if all(state.affinity_counts.get(each, 0) > 0 for each in pairs):
        return True
    return not state.affinity_counts and _matches_all(state.affinity, pod.pod)


def _has_positive_count(counts: Counts, pairs: Iterable[tuple[str, str]]) -> bool:
    """Implement `satisfyPodAntiAffinity` and satisfyExistingPodsAntiAffinity."""
    return any(counts.get(each, 0) > 0 for each in pairs)


def _matches_all(terms: list[AffinityTerm], pod: Json) -> bool:
    """Implement `podMatchesAllAffinityTerms`."""
    return bool(terms) and all(each.matches(pod, _NO_NAMESPACE) for each in terms)


def _update(counts: Counts, terms: list[AffinityTerm], node: NodeInfo, by: int) -> None:
    """Implement `topologyToMatchedTermCount`.update."""
    for key in (each.topology_key for each in terms if each.topology_key in node.labels):
        pair = key, node.labels[key]
        counts[pair] += by
        if counts[pair] == 0:
            del counts[pair]


def _merge_namespaces(cycle: Cycle, term: AffinityTerm) -> AffinityTerm:
    """Return the term with the namespaces that its selector matches (mergeAffinityTermNamespacesIfNotEmpty).

    The Go function replaces the selector of a copy by Nothing(). So the selector stays, and is matched against pods
    without the labels of their namespaces: a selector with negative requirements only matches every namespace. In v1.37
    it replaces the selector itself.
    """
    selector = term.namespace_selector
    if selector.is_empty:
        return term
    found = [each for each in cycle.cluster.list_objects("Namespace") if selector.matches(get_labels(each))]
    merged = replace(term, namespaces=term.namespaces | {get_name(each) for each in found})
    return replace(merged, namespace_selector=NOTHING) if cycle.minor >= 37 else merged


def _get_namespace_labels(cluster: Cluster, pod: Json) -> Labels:
    """Implement GetNamespaceLabelsSnapshot."""
    namespace = cluster.find("Namespace", get_namespace(pod))
    return get_labels(namespace) if namespace is not None else _NO_NAMESPACE
