"""On which of several nodes pods are asked to leave.

Source: pickOneNodeForPreemption in framework/preemption/preemption.go, v1.36.
"""

from collections.abc import Callable, Sequence

from webhook.accounting.fit.preemption.dry_run import Candidate
from webhook.accounting.fit.preemption.importance import started

_LIFT = 1 << 31  # makes every priority positive, so that more victims never weigh less


def best(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates than which none is better. Of several the scheduler takes any."""
    left = list(candidates)
    for penalty in (_violations, _highest, _sum, _number):
        left = _least(left, penalty)
    latest = max((started(each.victims) for each in left), default="")
    return tuple([each for each in left if started(each.victims) == latest])


def _least(candidates: list[Candidate], penalty: Callable[[Candidate], int]) -> list[Candidate]:
    least = min(map(penalty, candidates), default=0)
    return [each for each in candidates if penalty(each) == least]


def _violations(candidate: Candidate) -> int:
    return candidate.violations


def _highest(candidate: Candidate) -> int:
    return candidate.victims[0].group.priority


def _sum(candidate: Candidate) -> int:
    return sum(each.group.priority + _LIFT for each in candidate.victims)


def _number(candidate: Candidate) -> int:
    return len(candidate.victims)
