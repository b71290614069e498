"""On which of several nodes pods are asked to leave.

Source: pickOneNodeForPreemption in framework/preemption/preemption.go, v1.36.
"""

from collections.abc import Callable, Sequence

from webhook.accounting.fit.preemption.dry_run import PreemptionCandidate
from webhook.accounting.fit.preemption.importance import find_earliest_start

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
