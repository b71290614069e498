"""framework/plugins/podtopologyspread/filtering.go and common.go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.node_selectors import matches_required
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    is_being_deleted,
    labels_of,
    namespace_of,
    spec_of,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.selectors import Selector, from_set, label_selector
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from tests.accounting.scheduling.reference.taints import has_untolerated_taint

_NO_MATCH = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class _Constraint:
    """`topologySpreadConstraint`."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def counts(self, pod: Json, node: NodeInfo) -> bool:
        """`matchNodeInclusionPolicies`."""
        if self.honors_affinity and not matches_required(pod, node.node):
            return False
        return not (self.honors_taints and has_untolerated_taint(node.node, pod))


@dataclass(slots=True)
class _State:
    """preFilterState: for each constraint, how many matching pods each value of its label has.

    criticalPaths is left out: it holds the smallest of these numbers, which is looked for each time here.
    """

    constraints: list[_Constraint]
    counts: list[Counter[str]]

    def clone(self) -> _State:
        return _State(self.constraints, [Counter(each) for each in self.counts])

    def minimum(self, index: int) -> int:
        """minMatchNum: zero where there are fewer domains than there should be."""
        counts = self.counts[index]
        return 0 if len(counts) < self.constraints[index].min_domains else min(counts.values())


class PodTopologySpread(Plugin):
    """No domain gets further ahead of the emptiest than the constraint allows."""

    name = "PodTopologySpread"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """PodTopologySpread.PreFilter. The default constraints are about scores alone."""
        constraints = _constraints(pod.pod)
        if not constraints:
            return None, SKIP
        cycle.states[self.name] = _State(
            constraints, [_counts(cycle.cluster, pod.pod, each, constraints) for each in constraints]
        )
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """PodTopologySpread.Filter."""
        state: _State = cycle.states[self.name]
        for index, each in enumerate(state.constraints):
            value = node.labels.get(each.topology_key)
            if value is None:
                return unresolvable(f"{_NO_MATCH} (missing required label)")
            itself = each.selector.matches(labels_of(pod.pod))
            if state.counts[index][value] + itself - state.minimum(index) > each.max_skew:
                return unschedulable(_NO_MATCH)
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """`updateWithPod`. Unlike the first count it takes pods being deleted, and all for an empty selector."""
        state: _State = cycle.states[self.name]
        if namespace_of(other.pod) != namespace_of(pod.pod) or not _has_all_keys(node.labels, state.constraints):
            return
        for each, counts in zip(state.constraints, state.counts, strict=True):
            if each.selector.matches(labels_of(other.pod)) and each.counts(pod.pod, node):
                counts[node.labels[each.topology_key]] += by


def _counts(cluster: Cluster, pod: Json, constraint: _Constraint, constraints: list[_Constraint]) -> Counter[str]:
    """`calPreFilterState`, for one constraint: only nodes with the labels of all of them are domains."""
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        if _has_all_keys(node.labels, constraints) and constraint.counts(pod, node):
            counts[node.labels[constraint.topology_key]] += _matching(node, constraint.selector, namespace_of(pod))
    return counts


def _matching(node: NodeInfo, selector: Selector, namespace: str) -> int:
    """`countPodsMatchSelector`."""
    if selector.is_empty:
        return 0
    pods = [each.pod for each in node.pods if not is_being_deleted(each.pod)]
    return sum(namespace_of(each) == namespace and selector.matches(labels_of(each)) for each in pods)


def _has_all_keys(labels: Labels, constraints: list[_Constraint]) -> bool:
    """`nodeLabelsMatchSpreadConstraints`."""
    return all(each.topology_key in labels for each in constraints)


def _constraints(pod: Json) -> list[_Constraint]:
    """`filterTopologySpreadConstraints`, with DoNotSchedule."""
    listed = spec_of(pod).get("topologySpreadConstraints") or []
    return [_constraint(pod, each) for each in listed if each["whenUnsatisfiable"] == "DoNotSchedule"]


def _constraint(pod: Json, constraint: Json) -> _Constraint:
    """One of them, with what is taken for absent fields."""
    min_domains = constraint.get("minDomains")
    return _Constraint(
        max_skew=constraint["maxSkew"],
        topology_key=constraint["topologyKey"],
        selector=_selector(pod, constraint),
        min_domains=1 if min_domains is None else min_domains,
        honors_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=(constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
    )


def _selector(pod: Json, constraint: Json) -> Selector:
    """The selector, with the pod's own values of matchLabelKeys (mergeLabelSetWithSelector)."""
    selector = label_selector(constraint.get("labelSelector"))
    own = {key: labels_of(pod)[key] for key in constraint.get("matchLabelKeys") or [] if key in labels_of(pod)}
    if not own or selector.requirements is None:
        return selector
    return Selector((*(from_set(own).requirements or ()), *selector.requirements))
