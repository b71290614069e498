"""The scheduler's own sentence about a pod that fits nowhere.

Source: FitError.Error in pkg/scheduler/framework/types.go, v1.36.
"""

from collections import Counter

from webhook.accounting.fit.filtering import Filtered

NO_NODES = "no nodes available to schedule pods"


def sentence(said: Filtered, afterword: str = "") -> str:
    """`0/5 nodes are available: …`; `afterword` is what preemption came to. Counts are sorted as text, as there."""
    if not len(said.places):
        return NO_NODES
    words = [f"0/{len(said.places)} nodes are available:"]
    if said.refused is not None:
        words.append(f"{said.refused.reason}.")
    elif histogram := ", ".join(sorted(f"{number} {reason}" for reason, number in _counts(said).items())):
        words.append(f"{histogram}.")
    if afterword:
        words.append(afterword)
    return " ".join(words)


def _counts(said: Filtered) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in said.rejections:
        counts[each.reason] += int(each.nodes.sum())
    return +counts
