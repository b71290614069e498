"""framework/plugins/interpodaffinity/filtering.go and plugin.go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.objects import Json, Labels, labels_of, name_of, namespace_of
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from tests.accounting.scheduling.reference.terms import AffinityTerm

Counts = Counter[tuple[str, str]]
"""topologyToMatchedTermCount: by key and value of a node's label. What comes to zero is taken out."""

_NO_NAMESPACE: Labels = {}


@dataclass(slots=True)
class _State:
    """preFilterState: the pod's terms with the namespaces they select, and how many pods match where."""

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
        """`updateWithPod`."""
        hating = [each for each in other.anti_affinity if each.matches(pod.pod, self.namespace_labels)]
        _update(self.existing_counts, hating, node, by)
        if _matches_all(self.affinity, other.pod):
            _update(self.affinity_counts, self.affinity, node, by)
        hated = [each for each in self.anti_affinity if each.matches(other.pod, _NO_NAMESPACE)]
        _update(self.anti_affinity_counts, hated, node, by)


class InterPodAffinity(Plugin):
    """Pods that must be together, and pods that must not, whoever of them says so."""

    name = "InterPodAffinity"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """InterPodAffinity.PreFilter, getExistingAntiAffinityCounts, getIncomingAffinityAntiAffinityCounts."""
        state = _State(
            [_with_namespaces(cycle.cluster, each) for each in pod.affinity],
            [_with_namespaces(cycle.cluster, each) for each in pod.anti_affinity],
            _labels_of_namespace(cycle.cluster, pod.pod),
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
        """InterPodAffinity.Filter."""
        state: _State = cycle.states[self.name]
        if not _satisfies_affinity(state, pod, node):
            return unresolvable("node(s) didn't match pod affinity rules")
        keys = [each.topology_key for each in state.anti_affinity if each.topology_key in node.labels]
        if _any_counted(state.anti_affinity_counts, [(key, node.labels[key]) for key in keys]):
            return unschedulable("node(s) didn't match pod anti-affinity rules")
        if _any_counted(state.existing_counts, node.labels.items()):
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """AddPod, RemovePod."""
        cycle.states[self.name].update(pod, other, node, by)


def _satisfies_affinity(state: _State, pod: PodInfo, node: NodeInfo) -> bool:
    """satisfyPodAffinity: or the pod is the first of a group that wants to be with itself."""
    if any(each.topology_key not in node.labels for each in state.affinity):
        return False
    pairs = [(each.topology_key, node.labels[each.topology_key]) for each in state.affinity]
    if all(state.affinity_counts.get(each, 0) > 0 for each in pairs):
        return True
    return not state.affinity_counts and _matches_all(state.affinity, pod.pod)


def _any_counted(counts: Counts, pairs: Iterable[tuple[str, str]]) -> bool:
    """`satisfyPodAntiAffinity` and satisfyExistingPodsAntiAffinity."""
    return any(counts.get(each, 0) > 0 for each in pairs)


def _matches_all(terms: list[AffinityTerm], pod: Json) -> bool:
    """`podMatchesAllAffinityTerms`."""
    return bool(terms) and all(each.matches(pod, _NO_NAMESPACE) for each in terms)


def _update(counts: Counts, terms: list[AffinityTerm], node: NodeInfo, by: int) -> None:
    """`topologyToMatchedTermCount`.update."""
    for key in (each.topology_key for each in terms if each.topology_key in node.labels):
        pair = key, node.labels[key]
        counts[pair] += by
        if counts[pair] == 0:
            del counts[pair]


def _with_namespaces(cluster: Cluster, term: AffinityTerm) -> AffinityTerm:
    """mergeAffinityTermNamespacesIfNotEmpty: the namespaces that the selector finds are added to those named.

    It means to put Nothing() in the selector's place and puts it in that of a copy. So the selector stays, and is asked
    of pods without their namespace's labels: one that only says what must not be there finds them everywhere.
    """
    selector = term.namespace_selector
    found = (
        [] if selector.is_empty else [each for each in cluster.all("Namespace") if selector.matches(labels_of(each))]
    )
    return replace(term, namespaces=term.namespaces | {name_of(each) for each in found})


def _labels_of_namespace(cluster: Cluster, pod: Json) -> Labels:
    """GetNamespaceLabelsSnapshot."""
    namespace = cluster.find("Namespace", namespace_of(pod))
    return labels_of(namespace) if namespace is not None else _NO_NAMESPACE
