"""One attempt of the scheduler to place a pod: the feasible nodes, or a message and the result of preemption.

Source: schedulingAlgorithm, schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPostFilterPlugins
in framework/runtime/framework.go, applySchedulingGatedCondition in pkg/registry/core/pod/strategy.go, v1.36.

Source of the preemption: Preempt, findCandidates and DryRunPreemption in framework/preemption/preemption.go,
PodEligibleToPreemptOthers and GetOffsetAndNumCandidates in plugins/defaultpreemption/default_preemption.go; for the
choice of a node pickOneNodeForPreemption in framework/preemption/preemption.go, v1.36.

Most nodes are excluded for all of them at once. That finds what `select_victims_on_node` would find node by node where
only resources decide: the node has no pod of a lower priority, or a resource is short even without all of them
(SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go, v1.36).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.diagnosis import Diagnosis, format_fit_error, format_reason_counts
from tallygate.accounting.scheduling.filters import INTER_POD_PLUGINS, select_feasible
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_bind_errors_of_choices
from tallygate.accounting.scheduling.plugins.dynamic_resources import describe_post_filter
from tallygate.accounting.scheduling.plugins.node_eligibility import find_pre_score_error
from tallygate.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from tallygate.accounting.scheduling.plugins.resource_claims import find_hold_reason
from tallygate.accounting.scheduling.victims import (
    NO_VICTIMS,
    NoCandidate,
    PreemptionCandidate,
    find_earliest_start,
    select_victims_on_node,
)
from tallygate.accounting.selectors import join_errors

_GATED = "Scheduling is blocked due to non-empty scheduling gates"  # the API server writes it into the pod's status
# DynamicResources is the first post-filter plugin. Its pre-filter stores a state before the filters run, unless an
# earlier plugin rejects the pod; "not found" is its error about the missing state.
_STATE_NOT_FOUND = "not found"

_POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
_VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_MIN_CANDIDATES_PERCENTAGE = 10  # minCandidateNodesPercentage
_MIN_CANDIDATES = 100  # minCandidateNodesAbsolute
_PRIORITY_OFFSET = 1 << 31  # makes every priority positive, so that more victims never weigh less
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """The result: `candidates`, the `best_candidates` of them, or `message`, the reason why there are none.

    `is_error` is set if the message is an error of the scheduler. `keeps_nomination` is set if a node that is nominated
    for the pod already stays nominated. `is_undecided` is set if the limit on dry runs was reached without a candidate.

    The scheduler starts its search at a random node and stops at enough candidates: if fewer than all nodes are enough,
    it may select another one.
    """

    candidates: tuple[PreemptionCandidate, ...] = ()
    best_candidates: tuple[PreemptionCandidate, ...] = ()
    message: str = ""
    is_error: bool = False
    keeps_nomination: bool = False
    is_undecided: bool = False

    @property
    def selected(self) -> PreemptionCandidate | None:
        """One of the best candidates: the scheduler nominates its node and evicts its victims."""
        return self.best_candidates[0] if self.best_candidates else None


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The nodes of which the scheduler selects one; without any, `message` is the scheduler's message.

    `diagnosis` stays None for a pod with scheduling gates, and for one with a `hold_reason`: a claim that is not ready
    keeps it out of the queue, without a message. `preemption` stays None if preemption did not run.
    `nominated_nodes` has the nodes of which one is nominated for a pod that fits no node: by preemption now, or by an
    earlier one. `bind_errors` has those of the nodes that the scheduler may select and on which the binding fails, with
    the message; if it fails on each of these, the message is that of the result.
    """

    diagnosis: Diagnosis | None
    nodes: tuple[str, ...] = ()
    message: str = ""
    preemption: PreemptionResult | None = None
    nominated_nodes: tuple[str, ...] = ()
    hold_reason: str = ""
    bind_errors: Mapping[str, str] = field(default_factory=dict)


def schedule_one(
    pod: IncomingPod,
    cluster: Cluster,
    diagnosis: Diagnosis,
    max_dry_runs: int | None = None,
    *,
    may_preempt: bool = True,
) -> ScheduleResult:
    """Return the result of one attempt for a pod with this diagnosis. The cluster is unchanged afterwards.

    Without `may_preempt` the pod is one of a PodGroup, for which no preemption runs before the end of the cycle.
    With `max_dry_runs` the first preemption candidate of as many likely nodes is selected, not the best of all nodes.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
        SelectorError: if a claim has an invalid selector.
    """
    current_nomination = (pod.nominated_node,) if pod.nominated_node else ()
    if pod.spec.scheduling_gates:
        return ScheduleResult(None, (), _GATED, nominated_nodes=current_nomination)
    hold_reason = find_hold_reason(pod, cluster)
    if hold_reason:
        return ScheduleResult(None, nominated_nodes=current_nomination, hold_reason=hold_reason)
    if diagnosis.error:
        return ScheduleResult(diagnosis, (), diagnosis.error)
    nodes = _select_nodes(pod, cluster, diagnosis)
    if len(nodes):
        error = find_pre_score_error(pod) if len(nodes) > 1 else ""
        return ScheduleResult(diagnosis, (), error) if error else _bind(pod, cluster, diagnosis, nodes)
    if not len(diagnosis.nodes) or not may_preempt:
        return ScheduleResult(diagnosis, (), format_fit_error(diagnosis))
    if diagnosis.pre_filter_status is not None and not diagnosis.pre_filter_status.is_by_devices:
        message = format_fit_error(diagnosis, _STATE_NOT_FOUND)
        return ScheduleResult(diagnosis, (), message, nominated_nodes=current_nomination)
    preemption = _preempt(pod, cluster, diagnosis, max_dry_runs)
    nominated = tuple(cluster.nodes.get_name(candidate.node_index) for candidate in preemption.best_candidates)
    return ScheduleResult(
        diagnosis,
        (),
        format_fit_error(
            diagnosis, _format_post_filter_message(preemption, cluster, describe_post_filter(pod, cluster, diagnosis))
        ),
        preemption,
        nominated or (current_nomination if preemption.keeps_nomination else ()),
    )


def _select_nodes(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> NodeIndices:
    """Return the feasible nodes; only the nominated node if it is feasible."""
    feasible = diagnosis.feasible
    nominated_index = cluster.nodes.find_index(pod.nominated_node) if pod.nominated_node else None
    return feasible[feasible == nominated_index] if nominated_index in feasible else feasible


def _bind(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, nodes: NodeIndices) -> ScheduleResult:
    """Return the result for a pod with these feasible nodes: an error if its binding fails on each possible choice."""
    names = tuple(cluster.nodes.get_name(node_index) for node_index in nodes.tolist())
    errors = find_bind_errors_of_choices(pod, cluster, nodes)
    if any(not error for error in errors.values()) or not errors:
        bind_errors = {cluster.nodes.get_name(index): error for index, error in errors.items() if error}
        return ScheduleResult(diagnosis, names, bind_errors=bind_errors)
    return ScheduleResult(diagnosis, (), next(iter(errors.values())))


def _format_post_filter_message(preemption: PreemptionResult, cluster: Cluster, device_message: str) -> str:
    """Return the text that preemption adds to the fit error; before 1.37 it is empty if preemption has victims."""
    if preemption.selected is not None and cluster.version.has(Switch.REPORTS_PREEMPTION):
        node = cluster.nodes.get_name(preemption.selected.node_index)
        victim_count = len(preemption.selected.victims)
        return f"preemption: found a potential placement for pod on node {node}, preempting {victim_count} victims"
    if not preemption.message:
        return ""
    message = f"preemption: {preemption.message}"
    return message if preemption.is_error or not device_message else f"{device_message}, {message}"


def _preempt(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, max_dry_runs: int | None) -> PreemptionResult:
    """Return the result of preemption for a pod with this diagnosis. The cluster is unchanged afterwards."""
    ineligibility = _find_ineligibility(pod, cluster, diagnosis)
    if ineligibility:
        return PreemptionResult(message=ineligibility, keeps_nomination=True)
    resolvable = diagnosis.resolvable
    is_excluded, reason_counts = _exclude_hopeless_nodes(pod, cluster, resolvable)
    nodes = resolvable[~is_excluded]
    if max_dry_runs is None:
        tried, max_candidates = nodes, max(len(resolvable) * _MIN_CANDIDATES_PERCENTAGE // 100, _MIN_CANDIDATES)
    else:
        sorted_nodes = _sort_by_likelihood(pod, cluster, nodes) if len(nodes) > max_dry_runs else nodes
        tried, max_candidates = sorted_nodes[:max_dry_runs], 1
    candidates, non_candidates = _dry_run_preemption(pod, cluster, tried.tolist(), max_candidates)
    if candidates:
        return PreemptionResult(candidates, pick_best_candidates(candidates))
    if len(tried) < len(nodes):
        return PreemptionResult(is_undecided=True)
    errors = sorted({candidate.reasons[0] for candidate in non_candidates if candidate.is_error})
    if errors:
        return PreemptionResult(message=join_errors(errors), is_error=True, keeps_nomination=True)
    total = len(diagnosis.nodes)
    reason_counts[_NOT_HELPFUL] = total - len(resolvable)
    reason_counts.update(chain.from_iterable(candidate.reasons for candidate in non_candidates))
    return PreemptionResult(message=format_reason_counts(total, reason_counts))


def _find_ineligibility(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> str:
    """Return the reason why a pod must not preempt others; empty if it may."""
    if pod.spec.preemption_policy == "Never":
        return _POLICY_NEVER
    node_index = cluster.nodes.find_index(pod.nominated_node) if pod.nominated_node else None
    if node_index is None or node_index not in diagnosis.resolvable:
        return ""
    pods = cluster.get_node_pods(node_index).values()
    is_terminating = any(
        other_pod.group.priority < pod.priority and other_pod.is_terminating and other_pod.is_preempted
        for other_pod in pods
    )
    return _VICTIM_TERMINATING if is_terminating else ""


def _exclude_hopeless_nodes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> tuple[Mask, Counter[str]]:
    """Return a mask of the nodes on which preemption cannot help, and the number of nodes for each reason.

    A resolvable node has passed the filters before NodeResourcesFit, of which only NodePorts depends on other pods; so
    a pod with ports is not checked for resources. Nominated pods may use more of a node, so that a node with some is
    excluded only for lack of pods of a lower priority.
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
    """Yield each reason for which nodes are short without all pods of lower priority, and their mask."""
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


def _sort_by_likelihood(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> NodeIndices:
    """Sort nodes that pass the inter-pod filters first: a node without free resources did not reach these filters."""
    likely = np.isin(nodes, select_feasible(pod, cluster, nodes, INTER_POD_PLUGINS))
    return np.concatenate([nodes[likely], nodes[~likely]])


def _dry_run_preemption(
    pod: IncomingPod, cluster: Cluster, nodes: Sequence[int], max_candidates: int
) -> tuple[tuple[PreemptionCandidate, ...], list[NoCandidate]]:
    """Return up to `max_candidates` candidates, or more if all violate a budget, and the nodes without one."""
    candidates: list[PreemptionCandidate] = []
    non_candidates: list[NoCandidate] = []
    for node_index in nodes:
        result = select_victims_on_node(pod, cluster, node_index)
        if isinstance(result, NoCandidate):
            non_candidates.append(result)
            continue
        candidates.append(result)
        if len(candidates) >= max_candidates and any(not candidate.violation_count for candidate in candidates):
            break
    return tuple(candidates), non_candidates


def pick_best_candidates(candidates: Sequence[PreemptionCandidate]) -> tuple[PreemptionCandidate, ...]:
    """Return the best candidates, all equal. The scheduler selects any of them."""
    remaining = list(candidates)
    for penalty in (_count_violations, _get_highest_priority, _sum_priorities, _count_victims):
        remaining = _keep_minimal(remaining, penalty)
    latest_start = max((find_earliest_start(candidate.victims) for candidate in remaining), default="")
    return tuple([candidate for candidate in remaining if find_earliest_start(candidate.victims) == latest_start])


def _count_violations(candidate: PreemptionCandidate) -> int:
    return candidate.violation_count


def _get_highest_priority(candidate: PreemptionCandidate) -> int:
    return candidate.victims[0].group.priority


def _sum_priorities(candidate: PreemptionCandidate) -> int:
    return sum(victim.group.priority + _PRIORITY_OFFSET for victim in candidate.victims)


def _count_victims(candidate: PreemptionCandidate) -> int:
    return len(candidate.victims)


def _keep_minimal(
    candidates: list[PreemptionCandidate], penalty: Callable[[PreemptionCandidate], int]
) -> list[PreemptionCandidate]:
    minimum = min(map(penalty, candidates), default=0)
    return [candidate for candidate in candidates if penalty(candidate) == minimum]
