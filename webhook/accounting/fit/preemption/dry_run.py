"""Who would have to leave one node, so that a pod fits there.

Source: SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.fork import ClusterFork, fork
from webhook.accounting.cluster.pod_info import PodInfo, list_scheduling_volumes
from webhook.accounting.fit.filtering import run_filters_with_nominated_pods
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.preemption.budgets import split_by_budget
from webhook.accounting.fit.preemption.importance import sort_by_importance
from webhook.accounting.fit.resources import find_shortfalls


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node on which a pod would fit if `victims` left, the most important first.

    So many `violations` of a budget it takes.
    """

    place: int
    victims: tuple[PodInfo, ...]
    violation_count: int


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """A node on which nobody's leaving helps, and why; `is_fault` when the scheduler takes it for one of its own."""

    reasons: tuple[str, ...]
    is_error: bool = False


def select_victims_on_node(pod: IncomingPod, cluster: Cluster, node_index: int) -> PreemptionCandidate | NoCandidate:
    """What would have to happen on one node with pods of a lower priority. The cluster is as before afterwards."""
    lower_priority_pods = [
        each for each in cluster.get_node_pods(node_index).values() if each.group.priority < pod.priority
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
        return _reprieve_pods(pod, cluster, node_index, forked, sort_by_importance(lower_priority_pods))


def _reprieve_pods(
    pod: IncomingPod, cluster: Cluster, node_index: int, forked: ClusterFork, lower_priority_pods: Sequence[PodInfo]
) -> PreemptionCandidate | NoCandidate:
    """Let every pod stay that can, first those whose leaving breaks a budget, then the others, the important first."""
    violating, non_violating = split_by_budget(lower_priority_pods, cluster.budgets)
    victims = [each for each in violating if not _reprieve_pod(each, pod, cluster, node_index, forked)]
    violation_count = len(victims)
    victims += [each for each in non_violating if not _reprieve_pod(each, pod, cluster, node_index, forked)]
    if not victims:
        return NoCandidate(
            (f'expected at least one victim pod on node "{cluster.nodes.get_name(node_index)}"',), is_error=True
        )
    sorted_victims = sort_by_importance(victims) if violating and non_violating else victims
    return PreemptionCandidate(node_index, tuple(sorted_victims), violation_count)


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
    """Whether a pod on the node is in the other's way by what it takes of it only, so that no more need be asked."""
    has_inter_pod_constraints = bool(pod.inter_pod.affinity or pod.inter_pod.anti_affinity or pod.inter_pod.spread)
    needs_resources_only = not (has_inter_pod_constraints or pod.ports or list_scheduling_volumes(pod.spec))
    return needs_resources_only and not candidate.group.anti_affinity and node_index not in cluster.get_nominated_pods()
