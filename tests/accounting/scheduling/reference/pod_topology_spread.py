"""framework/plugins/podtopologyspread/filtering.go and common.go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.node_selectors import matches_required
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    get_labels,
    get_namespace,
    get_spec,
    is_being_deleted,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.selectors import Selector, create_selector, parse_label_selector
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

    def includes_node(self, pod: Json, node: NodeInfo) -> bool:
        """Implement `matchNodeInclusionPolicies`."""
        if self.honors_affinity and not matches_required(pod, node.node):
            return False
        return not (self.honors_taints and has_untolerated_taint(node.node, pod))


@dataclass(slots=True)
class _State:
    """preFilterState: the number of matching pods by constraint and value of its label.

    criticalPaths is left out: it caches the minimum of these numbers, which is computed each time here.
    """

    constraints: list[_Constraint]
    counts: list[Counter[str]]

    def clone(self) -> _State:
        return _State(self.constraints, [Counter(each) for each in self.counts])

    def minimum(self, index: int) -> int:
        """Return minMatchNum: zero where there are fewer domains than minDomains."""
        counts = self.counts[index]
        return 0 if len(counts) < self.constraints[index].min_domains else min(counts.values())


class PodTopologySpread(Plugin):
    """The skew between the number of pods in a domain and the smallest such number."""

    name = "PodTopologySpread"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement PodTopologySpread.PreFilter. The default constraints only affect scores."""
        constraints = _read_constraints(pod.pod)
        if not constraints:
            return None, SKIP
        counts = [_count_by_domain(cycle.cluster, pod.pod, each, constraints, cycle.minor) for each in constraints]
        cycle.states[self.name] = _State(constraints, counts)
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement PodTopologySpread.Filter."""
        state: _State = cycle.states[self.name]
        for index, each in enumerate(state.constraints):
            value = node.labels.get(each.topology_key)
            if value is None:
                return unresolvable(f"{_NO_MATCH} (missing required label)")
            itself = each.selector.matches(get_labels(pod.pod))
            if state.counts[index][value] + itself - state.minimum(index) > each.max_skew:
                return unschedulable(_NO_MATCH)
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Implement `updateWithPod`.

        Unlike the first count it counts terminating pods, and all if the selector is empty.
        """
        state: _State = cycle.states[self.name]
        if get_namespace(other.pod) != get_namespace(pod.pod) or not _has_all_keys(node.labels, state.constraints):
            return
        for each, counts in zip(state.constraints, state.counts, strict=True):
            if each.selector.matches(get_labels(other.pod)) and each.includes_node(pod.pod, node):
                counts[node.labels[each.topology_key]] += by


def _count_by_domain(
    cluster: Cluster, pod: Json, constraint: _Constraint, constraints: list[_Constraint], minor: int
) -> Counter[str]:
    """Implement `calPreFilterState`, for one constraint: only nodes with the labels of all of them are domains."""
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        if _has_all_keys(node.labels, constraints) and constraint.includes_node(pod, node):
            counts[node.labels[constraint.topology_key]] += _count_matching(
                node, constraint.selector, get_namespace(pod), minor
            )
    return counts


def _count_matching(node: NodeInfo, selector: Selector, namespace: str, minor: int) -> int:
    """Implement `countPodsMatchSelector`: up to v1.37 an empty selector counts no pod."""
    if selector.is_empty and minor < 38:
        return 0
    pods = [each.pod for each in node.pods if not is_being_deleted(each.pod)]
    return sum(get_namespace(each) == namespace and selector.matches(get_labels(each)) for each in pods)


def _has_all_keys(labels: Labels, constraints: list[_Constraint]) -> bool:
    """Implement `nodeLabelsMatchSpreadConstraints`."""
    return all(each.topology_key in labels for each in constraints)


def _read_constraints(pod: Json) -> list[_Constraint]:
    """Implement `filterTopologySpreadConstraints`, with DoNotSchedule."""
    listed = get_spec(pod).get("topologySpreadConstraints") or []
    return [_read_constraint(pod, each) for each in listed if each["whenUnsatisfiable"] == "DoNotSchedule"]


def _read_constraint(pod: Json, constraint: Json) -> _Constraint:
    """Return a constraint with the defaults of absent fields."""
    min_domains = constraint.get("minDomains")
    return _Constraint(
        max_skew=constraint["maxSkew"],
        topology_key=constraint["topologyKey"],
        selector=_read_selector(pod, constraint),
        min_domains=1 if min_domains is None else min_domains,
        honors_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honors_taints=(constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
    )


def _read_selector(pod: Json, constraint: Json) -> Selector:
    """Return the selector with the pod's own values of matchLabelKeys (mergeLabelSetWithSelector)."""
    selector = parse_label_selector(constraint.get("labelSelector"))
    own = {key: get_labels(pod)[key] for key in constraint.get("matchLabelKeys") or [] if key in get_labels(pod)}
    if not own or selector.requirements is None:
        return selector
    return Selector((*(create_selector(own).requirements or ()), *selector.requirements))
