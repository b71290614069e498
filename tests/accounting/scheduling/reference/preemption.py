"""framework/plugins/defaultpreemption/default_preemption.go and framework/preemption/preemption.go."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.accounting.scheduling.reference.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.reference.disruption import split_by_budgets
from tests.accounting.scheduling.reference.fit_error import NodeToStatus, format_fit_error
from tests.accounting.scheduling.reference.framework import count, run_filters_with_nominated
from tests.accounting.scheduling.reference.importance import find_earliest_start, sort_by_importance
from tests.accounting.scheduling.reference.objects import get_priority, get_spec, get_status, is_being_deleted
from tests.accounting.scheduling.reference.plugin import Cycle
from tests.accounting.scheduling.reference.status import (
    SUCCESS,
    Code,
    Status,
    error_status,
    unresolvable,
    unschedulable,
)

_PRIORITIES = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, its victims, the most important first, and the number of budget violations."""

    node: str
    victims: list[PodInfo]
    violations: int


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """PostFilterResult and Status: the nodes of which one is nominated; None leaves the pod's nomination as it is."""

    status: Status
    nominated: frozenset[str] | None


def post_filter(cycle: Cycle, pod: PodInfo, statuses: NodeToStatus) -> PostFilterResult:
    """Implement DefaultPreemption.PostFilter."""
    found = _preempt(cycle, pod, statuses)
    reasons = (f"preemption: {found.status.message}",) if found.status.message else ()
    return PostFilterResult(Status(found.status.code, reasons), found.nominated)


def _preempt(cycle: Cycle, pod: PodInfo, statuses: NodeToStatus) -> PostFilterResult:
    """Implement Evaluator.Preempt, findCandidates, DryRunPreemption.

    Of more than 100 nodes the scheduler tries 100 at least and stops when it has as many; here all are tried. There is
    always a victim: with all pods back the node is as it was when the pod did not fit.
    """
    refusal = _find_refusal(cycle, pod, statuses)
    if refusal:
        return PostFilterResult(unschedulable(refusal), None)
    tried = NodeToStatus(absent=unresolvable("Preemption is not helpful for scheduling"))
    candidates, errors = [], set()
    for node in statuses.list_nodes(cycle.cluster, Code.UNSCHEDULABLE):
        candidate, status = _select_victims(cycle.clone(), pod, node.snapshot())
        if status.is_success:
            candidates.append(candidate)
        else:
            tried.explicit[node.name] = status
        if status.code is Code.ERROR:
            errors.add(status.message)
    if candidates:
        nominated = pick_nodes(candidates)
        victims = next(each.victims for each in candidates if each.node in nominated)
        placement = f"found a potential placement for pod on node {min(nominated)}, preempting {len(victims)} victims"
        return PostFilterResult(Status(Code.SUCCESS, (placement,) if cycle.minor >= 37 else ()), nominated)
    if errors:
        return PostFilterResult(error_status(_join_errors(sorted(errors))), None)
    return PostFilterResult(unschedulable(format_fit_error(len(cycle.cluster.nodes), tried)), frozenset())


def _join_errors(errors: list[str]) -> str:
    """Return NewAggregate(errors).Error()."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _find_refusal(cycle: Cycle, pod: PodInfo, statuses: NodeToStatus) -> str:
    """Return why the pod may not preempt (PodEligibleToPreemptOthers); empty when it may."""
    if get_spec(pod.pod).get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = get_status(pod.pod).get("nominatedNodeName")
    node = cycle.cluster.find_node(nominated) if nominated else None
    if node is None or statuses.get(node.name).code is Code.UNRESOLVABLE:
        return ""
    if any(_may_preempt(pod, each) and _is_preempted(each) for each in node.pods):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _may_preempt(pod: PodInfo, victim: PodInfo) -> bool:
    """Implement `isPreemptionAllowed`."""
    return get_priority(victim.pod) < get_priority(pod.pod)


def _is_preempted(pod: PodInfo) -> bool:
    """Implement `podTerminatingByPreemption`."""
    conditions = get_status(pod.pod).get("conditions") or []
    target = next((each for each in conditions if each.get("type") == "DisruptionTarget"), None)
    if target is None or not is_being_deleted(pod.pod):
        return False
    return (target.get("status"), target.get("reason")) == ("True", "PreemptionByScheduler")


def _select_victims(cycle: Cycle, pod: PodInfo, node: NodeInfo) -> tuple[Candidate, Status]:
    """Implement SelectVictimsOnNode: remove all possible victims, then reprieve pods, the most important first."""
    potential = [each for each in node.pods if _may_preempt(pod, each)]
    for each in potential:
        _move(cycle, pod, each, node, -1)
    if not potential:
        return Candidate(node.name, [], 0), unresolvable("No preemption victims found for incoming pod")
    status = run_filters_with_nominated(cycle, pod, node)
    if not status.is_success:
        return Candidate(node.name, [], 0), status
    violating, others = split_by_budgets(
        sort_by_importance(potential, cycle.minor), cycle.cluster.list_objects("PodDisruptionBudget"), cycle.minor
    )
    broken = [each for each in violating if not _is_reprieved(cycle, pod, each, node)]
    victims = broken + [each for each in others if not _is_reprieved(cycle, pod, each, node)]
    if violating and others:
        victims = sort_by_importance(victims, cycle.minor)
    return Candidate(node.name, victims, len(broken)), SUCCESS


def _is_reprieved(cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo) -> bool:
    """Implement reprievePod: return whether the pod fits with the other pod back on the node."""
    _move(cycle, pod, other, node, 1)
    fits = run_filters_with_nominated(cycle, pod, node).is_success
    if not fits:
        _move(cycle, pod, other, node, -1)
    return fits


def _move(cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
    """Implement `addPod` (by 1) and removePod (by -1)."""
    if by > 0:
        node.add(other)
    else:
        node.remove(other)
    count(cycle, pod, other, node, by)


def pick_nodes(candidates: list[Candidate]) -> frozenset[str]:
    """Return the nodes that are equal to pickOneNodeForPreemption, of which it takes any."""
    scores: tuple[Callable[[Candidate], float], ...] = (
        lambda each: -each.violations,
        lambda each: -get_priority(each.victims[0].pod),
        lambda each: -sum(get_priority(victim.pod) + _PRIORITIES for victim in each.victims),
        lambda each: -len(each.victims),
        lambda each: find_earliest_start(each.victims),
    )
    for score in scores:
        best = max(score(each) for each in candidates)
        candidates = [each for each in candidates if score(each) == best]
    return frozenset(each.node for each in candidates)
