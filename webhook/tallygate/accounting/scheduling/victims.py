"""The victims on one node: the pods to evict so that a pod fits there.

Source: SelectVictimsOnNode and, for PodDisruptionBudgets, filterPodsWithPDBViolation in
plugins/defaultpreemption/default_preemption.go, v1.36.

Source of the order of importance: MoreImportantPod and GetEarliestPodStartTime in pkg/scheduler/util/utils.go, v1.36.
There the start time of a pod that has not started is the current time of each call, so that of several such pods the
first in a list counts as younger. From 1.37 on it is the time at which the pods of a node are listed (NewVictim in
framework/preemption/types.go, MoreImportantVictim in framework/preemption/util.go), so that the first in a list counts
as older.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster, ClusterFork, fork
from tallygate.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.scheduling.filters import run_filters_with_nominated_pods
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.node_resources_fit import find_shortfalls
from tallygate.accounting.selectors import MATCH_NOTHING, Selector, SelectorError, parse_selector
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus


class _BudgetState:
    """One budget, and the number of further pods that may be evicted under it."""

    def __init__(self, budget: PodDisruptionBudget, version: KubernetesVersion) -> None:
        status = budget.status or PodDisruptionBudgetStatus()
        self._namespace = (budget.metadata or ObjectMeta()).namespace or ""
        self._selector = _parse_selector(budget)
        self._disrupted = status.disrupted_pods or {}
        self._allowed = status.disruptions_allowed
        self._covers_all = version.has(Switch.MATCHES_EMPTY_BUDGET_SELECTORS)

    def record_disruption(self, pod: PodInfo) -> bool:
        """Count the eviction of a pod, unless it is in `disruptedPods`, and return whether it violates the budget."""
        if not self._is_matching(pod) or pod.name in self._disrupted:
            return False
        self._allowed -= 1
        return self._allowed < 0

    def _is_matching(self, pod: PodInfo) -> bool:
        """Return whether the budget covers a pod.

        Before MATCHES_EMPTY_BUDGET_SELECTORS one with an empty selector covers none, and none covers a pod without
        labels; one without a selector never covers any.
        """
        return (
            self._namespace == pod.namespace
            and (self._covers_all or (bool(pod.group.labels) and not self._selector.is_empty))
            and self._selector.matches(pod.group.labels)
        )


NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_STARTED = "~"  # sorts after every timestamp


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node on which a pod would fit without `victims`, the most important first.

    `violation_count` is the number of victims whose eviction violates a budget.
    """

    node_index: int
    victims: tuple[PodInfo, ...]
    violation_count: int


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """A node on which preemption does not help, and the reasons; `is_error` is set for an error of the scheduler."""

    reasons: tuple[str, ...]
    is_error: bool = False


def select_victims_on_node(pod: IncomingPod, cluster: Cluster, node_index: int) -> PreemptionCandidate | NoCandidate:
    """Select the pods of lower priority to evict from one node. The cluster is unchanged afterwards."""
    lower_priority_pods = [
        info for info in cluster.get_node_pods(node_index).values() if info.group.priority < pod.priority
    ]
    with fork(cluster) as forked:
        for candidate in lower_priority_pods:
            forked.remove(candidate)
        diagnosis = run_filters_with_nominated_pods(pod, cluster, np.array([node_index]))
        if diagnosis.rejected.any():
            return (
                NoCandidate((diagnosis.error,), is_error=True)
                if diagnosis.error
                else NoCandidate(diagnosis.reasons(node_index))
            )
        sorted_pods = sort_by_importance(lower_priority_pods, cluster.version)
        return _reprieve_pods(pod, cluster, node_index, forked, sorted_pods)


def _reprieve_pods(
    pod: IncomingPod, cluster: Cluster, node_index: int, forked: ClusterFork, lower_priority_pods: Sequence[PodInfo]
) -> PreemptionCandidate | NoCandidate:
    """Restore every pod that can stay: first pods whose eviction violates a budget, each group by importance."""
    version = cluster.version
    violating, non_violating = split_by_budget(lower_priority_pods, cluster.budgets, version)
    victims = [victim for victim in violating if not _reprieve_pod(victim, pod, cluster, node_index, forked)]
    violation_count = len(victims)
    victims += [victim for victim in non_violating if not _reprieve_pod(victim, pod, cluster, node_index, forked)]
    if not victims:
        if version.has(Switch.REPORTS_NO_VICTIMS):
            return NoCandidate((NO_VICTIMS,))
        return NoCandidate(
            (f'expected at least one victim pod on node "{cluster.nodes.get_name(node_index)}"',), is_error=True
        )
    sorted_victims = sort_by_importance(victims, version) if violating and non_violating else victims
    return PreemptionCandidate(node_index, tuple(sorted_victims), violation_count)


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget], version: KubernetesVersion
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split pods into those whose eviction, one after the other, violates a budget, and the others, in order.

    Before 1.37 a pod counts under every budget that covers it, also after one of them is violated. From then on it
    counts under no further one (FilterVictimsWithPDBViolation in framework/preemption/util.go); the scheduler's order
    of budgets is random.
    """
    states = [_BudgetState(budget, version) for budget in budgets]
    if version.has(Switch.COUNTS_ONE_VIOLATED_BUDGET):
        violating = [any(budget.record_disruption(pod) for budget in states) for pod in pods]
    else:
        violating = [sum([budget.record_disruption(pod) for budget in states]) > 0 for pod in pods]
    return (
        [pod for pod, is_violating in zip(pods, violating, strict=True) if is_violating],
        [pod for pod, is_violating in zip(pods, violating, strict=True) if not is_violating],
    )


def _reprieve_pod(candidate: PodInfo, pod: IncomingPod, cluster: Cluster, node_index: int, forked: ClusterFork) -> bool:
    forked.restore(candidate)
    has_shortfall = any(find_shortfalls(pod, cluster, node_index))
    if not has_shortfall and _uses_resources_only(candidate, pod, cluster, node_index):
        return True
    if not has_shortfall and not run_filters_with_nominated_pods(pod, cluster, np.array([node_index])).rejected.any():
        return True
    forked.remove(candidate)
    return False


def _uses_resources_only(candidate: PodInfo, pod: IncomingPod, cluster: Cluster, node_index: int) -> bool:
    """Return whether a pod on the node competes with the incoming pod only for resources.

    A check of the resources then replaces a run of the filters.
    """
    has_inter_pod_constraints = bool(pod.inter_pod.affinity or pod.inter_pod.anti_affinity or pod.inter_pod.spread)
    needs_resources_only = not (has_inter_pod_constraints or pod.ports or list_scheduling_volumes(pod.spec))
    return needs_resources_only and not candidate.group.anti_affinity and node_index not in cluster.get_nominated_pods()


def sort_by_importance(pods: Iterable[PodInfo], version: KubernetesVersion) -> list[PodInfo]:
    """Sort pods by priority, highest first; pods of one priority by start time, earliest first, then by UID."""
    if version.has(Switch.ORDERS_EQUAL_VICTIMS):
        return sorted(pods, key=lambda pod: (-pod.group.priority, _get_start_time(pod), pod.uid))
    if version.has(Switch.FIXES_START_TIMES):
        return sorted(pods, key=lambda pod: (-pod.group.priority, _get_start_time(pod)))
    return [pod for _, pod in sorted(enumerate(pods), key=_rank_pod)]


def _rank_pod(indexed_pod: tuple[int, PodInfo]) -> tuple[int, str, int]:
    index, pod = indexed_pod
    return -pod.group.priority, _get_start_time(pod), index if pod.start_time else -index


def _get_start_time(pod: PodInfo) -> str:
    return pod.start_time or _NOT_STARTED


def find_earliest_start(pods: Sequence[PodInfo]) -> str:
    """Return the earliest start time among the pods of the highest priority."""
    highest = max(pod.group.priority for pod in pods)
    return min(_get_start_time(pod) for pod in pods if pod.group.priority == highest)


def _parse_selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return parse_selector((budget.spec or PodDisruptionBudgetSpec()).selector)
    except SelectorError:
        return MATCH_NOTHING
