"""What the scheduler does when a pod fits nowhere: whom it asks to leave, or why it asks nobody.

Source: Preempt, findCandidates and DryRunPreemption in framework/preemption/preemption.go, PodEligibleToPreemptOthers
and GetOffsetAndNumCandidates in plugins/defaultpreemption/default_preemption.go, v1.36.

On which of several nodes pods are asked to leave.

Source: pickOneNodeForPreemption in framework/preemption/preemption.go, v1.36.

Nodes on which it is in vain to ask anybody to leave, found for all of them at once.

What `dry_run` would find node by node where only room decides: there is nobody of a lower priority, or the pod lacks
something though all of those left (SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.scheduling.filters import Diagnosis, format_reason_counts
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from webhook.accounting.scheduling.victims import (
    NoCandidate,
    PreemptionCandidate,
    find_earliest_start,
    select_victims_on_node,
)
from webhook.accounting.selectors import join_errors

_PRIORITY_OFFSET = 1 << 31  # makes every priority positive, so that more victims never weigh less


def pick_best_candidates(candidates: Sequence[PreemptionCandidate]) -> tuple[PreemptionCandidate, ...]:
    """The candidates than which none is better. Of several the scheduler takes any."""
    remaining = list(candidates)
    for penalty in (_count_violations, _get_highest_priority, _sum_priorities, _count_victims):
        remaining = _keep_minimal(remaining, penalty)
    latest_start = max((find_earliest_start(each.victims) for each in remaining), default="")
    return tuple([each for each in remaining if find_earliest_start(each.victims) == latest_start])


def _keep_minimal(
    candidates: list[PreemptionCandidate], penalty: Callable[[PreemptionCandidate], int]
) -> list[PreemptionCandidate]:
    minimum = min(map(penalty, candidates), default=0)
    return [each for each in candidates if penalty(each) == minimum]


def _count_violations(candidate: PreemptionCandidate) -> int:
    return candidate.violation_count


def _get_highest_priority(candidate: PreemptionCandidate) -> int:
    return candidate.victims[0].group.priority


def _sum_priorities(candidate: PreemptionCandidate) -> int:
    return sum(each.group.priority + _PRIORITY_OFFSET for each in candidate.victims)


def _count_victims(candidate: PreemptionCandidate) -> int:
    return len(candidate.victims)


NO_VICTIMS = "No preemption victims found for incoming pod"
_PODS = "pods"


def exclude_hopeless_nodes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> tuple[Mask, Counter[str]]:
    """Which of these nodes surely do not help, and how many of them say what.

    A node that may help passes all that is asked before room, where ports alone depend on other pods; and pods that it
    is promised to may take more of it. Such nodes are told from others by who is there only.
    """
    without_victims = np.asarray(
        cluster.priority_usage.sum_lower_priorities(pod.priority, _PODS, cluster.nodes.pods.array)[nodes] == 0,
        dtype=np.bool_,
    )
    reason_counts = Counter({NO_VICTIMS: int(without_victims.sum())})
    is_checked = (
        np.zeros(len(nodes), dtype=np.bool_) if pod.ports else ~without_victims & ~_mask_nominated(cluster, nodes)
    )
    short = np.zeros(len(nodes), dtype=np.bool_)
    for reason, insufficient in _find_insufficient_resources(pod, cluster, nodes) if is_checked.any() else ():
        reason_counts[reason] += int((insufficient & is_checked).sum())
        short |= insufficient
    return without_victims | (short & is_checked), +reason_counts


def _mask_nominated(cluster: Cluster, nodes: NodeIndices) -> Mask:
    return np.isin(nodes, list(cluster.get_nominated_pods()))


def _find_insufficient_resources(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, Mask]]:
    """What nodes lack though all of a lower priority leave, and which do."""
    yield "Too many pods", _mask_short(pod, cluster, nodes, _PODS, 1)
    for name, requested in pod.requests.items():
        yield (
            f"Insufficient {name}",
            _mask_short(pod, cluster, nodes, name, requested) & ~mask_device_backed(cluster, nodes, name),
        )


def _mask_short(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, name: str, requested: int) -> Mask:
    columns = cluster.nodes
    allocatable, used = (
        columns.find_allocatable_column(name),
        columns.pods if name == _PODS else columns.find_used_column(name),
    )
    free = np.zeros(len(nodes), dtype=np.int64) if allocatable is None else allocatable.array[nodes]
    if used is not None:
        free = free - (used.array - cluster.priority_usage.sum_lower_priorities(pod.priority, name, used.array))[nodes]
    return np.asarray(free < requested, dtype=np.bool_)


_POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
_VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_MIN_CANDIDATES_PERCENTAGE = 10  # minCandidateNodesPercentage
_MIN_CANDIDATES = 100  # minCandidateNodesAbsolute


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """What comes of it: `candidates` to choose from, `best` of them, or `refusal`, why there are none.

    `is_fault` when the refusal is an error of the scheduler's. `keeps_promise` when a node that is promised to the pod
    already stays so. `is_sampled` when the scheduler looks for candidates
    from anywhere among the nodes and stops when it has enough, so that it may choose another.
    """

    candidates: tuple[PreemptionCandidate, ...] = ()
    best_candidates: tuple[PreemptionCandidate, ...] = ()
    message: str = ""
    is_error: bool = False
    keeps_nomination: bool = False
    is_sampled: bool = False

    @property
    def selected(self) -> PreemptionCandidate | None:
        """One of the best: the scheduler nominates its node, and asks its victims to leave."""
        return self.best_candidates[0] if self.best_candidates else None


def preempt(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> PreemptionResult:
    """Whom the scheduler asks to leave for a pod that the nodes reject so. The cluster is as before afterwards."""
    ineligibility = _find_ineligibility(pod, cluster, diagnosis)
    if ineligibility:
        return PreemptionResult(message=ineligibility, keeps_nomination=True)
    nodes = diagnosis.resolvable
    max_candidates = min(max(len(nodes) * _MIN_CANDIDATES_PERCENTAGE // 100, _MIN_CANDIDATES), len(nodes))
    is_excluded, reason_counts = exclude_hopeless_nodes(pod, cluster, nodes)
    candidates, non_candidates = _dry_run_preemption(pod, cluster, nodes[~is_excluded].tolist(), max_candidates)
    if candidates:
        return PreemptionResult(candidates, pick_best_candidates(candidates), is_sampled=max_candidates < len(nodes))
    errors = sorted({each.reasons[0] for each in non_candidates if each.is_error})
    if errors:
        return PreemptionResult(message=join_errors(errors), is_error=True, keeps_nomination=True)
    total = len(diagnosis.nodes)
    reason_counts[_NOT_HELPFUL] = total - len(nodes)
    reason_counts.update(chain.from_iterable(each.reasons for each in non_candidates))
    return PreemptionResult(message=format_reason_counts(total, reason_counts))


def _find_ineligibility(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> str:
    """Why a pod may ask nobody to leave, if so."""
    if pod.spec.preemption_policy == "Never":
        return _POLICY_NEVER
    node_index = cluster.nodes.find_index(pod.nominated_node) if pod.nominated_node else None
    if node_index is None or node_index not in diagnosis.resolvable:
        return ""
    pods = cluster.get_node_pods(node_index).values()
    is_terminating = any(
        each.group.priority < pod.priority and each.is_terminating and each.is_preempted for each in pods
    )
    return _VICTIM_TERMINATING if is_terminating else ""


def _dry_run_preemption(
    pod: IncomingPod, cluster: Cluster, nodes: Sequence[int], max_candidates: int
) -> tuple[tuple[PreemptionCandidate, ...], list[NoCandidate]]:
    """So many candidates, and the nodes that were found to be none."""
    candidates: list[PreemptionCandidate] = []
    non_candidates: list[NoCandidate] = []
    for node_index in nodes:
        result = select_victims_on_node(pod, cluster, node_index)
        if isinstance(result, NoCandidate):
            non_candidates.append(result)
            continue
        candidates.append(result)
        if len(candidates) >= max_candidates and any(not each.violation_count for each in candidates):
            break
    return tuple(candidates), non_candidates
