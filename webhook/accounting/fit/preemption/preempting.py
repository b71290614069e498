"""What the scheduler does when a pod fits nowhere: whom it asks to leave, or why it asks nobody.

Source: Preempt, findCandidates and DryRunPreemption in framework/preemption/preemption.go, PodEligibleToPreemptOthers
and GetOffsetAndNumCandidates in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.filtering import Diagnosis
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.preemption.choice import pick_best_candidates
from webhook.accounting.fit.preemption.dry_run import NoCandidate, PreemptionCandidate, select_victims_on_node
from webhook.accounting.fit.preemption.vain import exclude_hopeless_nodes
from webhook.accounting.fit.sentence import format_reason_counts
from webhook.accounting.selectors import join_errors

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
