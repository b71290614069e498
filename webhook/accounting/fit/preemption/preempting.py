"""What the scheduler does when a pod fits nowhere: whom it asks to leave, or why it asks nobody.

Source: Preempt, findCandidates and DryRunPreemption in framework/preemption/preemption.go, PodEligibleToPreemptOthers
and GetOffsetAndNumCandidates in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.filtering import Filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.preemption.choice import best
from webhook.accounting.fit.preemption.dry_run import Candidate, Useless, dry_run
from webhook.accounting.fit.preemption.vain import in_vain
from webhook.accounting.fit.sentence import summed_up
from webhook.accounting.selectors import join_errors

_NEVER = "not eligible due to preemptionPolicy=Never."
_LEAVING = "not eligible due to a terminating pod on the nominated node."
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_PERCENTAGE = 10  # minCandidateNodesPercentage
_ABSOLUTE = 100  # minCandidateNodesAbsolute


@dataclass(frozen=True, slots=True)
class Preemption:
    """What comes of it: `candidates` to choose from, `best` of them, or `refusal`, why there are none.

    `is_fault` when the refusal is an error of the scheduler's. `keeps_promise` when a node that is promised to the pod
    already stays so. `is_sampled` when the scheduler looks for candidates
    from anywhere among the nodes and stops when it has enough, so that it may choose another.
    """

    candidates: tuple[Candidate, ...] = ()
    best: tuple[Candidate, ...] = ()
    refusal: str = ""
    is_fault: bool = False
    keeps_promise: bool = False
    is_sampled: bool = False

    @property
    def chosen(self) -> Candidate | None:
        """One of the best: the scheduler nominates its node, and asks its victims to leave."""
        return self.best[0] if self.best else None


def preempted(pod: Incoming, cluster: Cluster, said: Filtered) -> Preemption:
    """Whom the scheduler asks to leave for a pod that the nodes reject so. The cluster is as before afterwards."""
    ineligible = _ineligible(pod, cluster, said)
    if ineligible:
        return Preemption(refusal=ineligible, keeps_promise=True)
    places = said.helpful
    wanted = min(max(len(places) * _PERCENTAGE // 100, _ABSOLUTE), len(places))
    vain, reasons = in_vain(pod, cluster, places)
    candidates, useless = _tried(pod, cluster, places[~vain].tolist(), wanted)
    if candidates:
        return Preemption(candidates, best(candidates), is_sampled=wanted < len(places))
    faults = sorted({each.reasons[0] for each in useless if each.is_fault})
    if faults:
        return Preemption(refusal=join_errors(faults), is_fault=True, keeps_promise=True)
    total = len(said.places)
    reasons[_NOT_HELPFUL] = total - len(places)
    reasons.update(chain.from_iterable(each.reasons for each in useless))
    return Preemption(refusal=summed_up(total, reasons))


def _ineligible(pod: Incoming, cluster: Cluster, said: Filtered) -> str:
    """Why a pod may ask nobody to leave, if so."""
    if pod.spec.preemption_policy == "Never":
        return _NEVER
    place = cluster.nodes.find_index(pod.nominated) if pod.nominated else None
    if place is None or place not in said.helpful:
        return ""
    pods = cluster.get_node_pods(place).values()
    leaving = any(each.group.priority < pod.priority and each.is_terminating and each.is_preempted for each in pods)
    return _LEAVING if leaving else ""


def _tried(
    pod: Incoming, cluster: Cluster, places: Sequence[int], wanted: int
) -> tuple[tuple[Candidate, ...], list[Useless]]:
    """So many candidates, and the nodes that were found to be none."""
    candidates: list[Candidate] = []
    useless: list[Useless] = []
    for place in places:
        found = dry_run(pod, cluster, place)
        if isinstance(found, Useless):
            useless.append(found)
            continue
        candidates.append(found)
        if len(candidates) >= wanted and any(not each.violations for each in candidates):
            break
    return tuple(candidates), useless
