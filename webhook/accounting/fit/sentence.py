"""The scheduler's own sentence about a pod that fits nowhere.

Source: FitError.Error in pkg/scheduler/framework/types.go, v1.36.
"""

from collections import Counter

from webhook.accounting.fit.filtering import Filtered

NO_NODES = "no nodes available to schedule pods"


def sentence(said: Filtered, afterword: str = "") -> str:
    """`0/5 nodes are available: …`; `afterword` is what preemption came to."""
    if not len(said.places):
        return NO_NODES
    total = len(said.places)
    told = f"{_opening(total)} {said.refused.reason}." if said.refused else summed_up(total, _counts(said))
    return f"{told} {afterword}" if afterword else told


def summed_up(total: int, reasons: Counter[str]) -> str:
    """How many of all nodes have which reason. Counts are sorted as text, as there."""
    histogram = ", ".join(sorted(f"{number} {reason}" for reason, number in (+reasons).items()))
    return f"{_opening(total)} {histogram}." if histogram else _opening(total)


def _opening(total: int) -> str:
    return f"0/{total} nodes are available:"


def _counts(said: Filtered) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in said.rejections:
        counts[each.reason] += int(each.nodes.sum())
    return counts
