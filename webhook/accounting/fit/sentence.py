"""The scheduler's own sentence about a pod that fits nowhere.

Source: FitError.Error in pkg/scheduler/framework/types.go, v1.36.
"""

from collections import Counter

from webhook.accounting.fit.filtering import Diagnosis

NO_NODES = "no nodes available to schedule pods"


def format_fit_error(diagnosis: Diagnosis, post_filter_message: str = "") -> str:
    """`0/5 nodes are available: …`; `afterword` is what preemption came to."""
    if not len(diagnosis.nodes):
        return NO_NODES
    total = len(diagnosis.nodes)
    message = (
        f"{_format_prefix(total)} {diagnosis.pre_filter_status.reason}."
        if diagnosis.pre_filter_status
        else format_reason_counts(total, _count_reasons(diagnosis))
    )
    return f"{message} {post_filter_message}" if post_filter_message else message


def format_reason_counts(total: int, reason_counts: Counter[str]) -> str:
    """How many of all nodes have which reason. Counts are sorted as text, as there."""
    histogram = ", ".join(sorted(f"{number} {reason}" for reason, number in (+reason_counts).items()))
    return f"{_format_prefix(total)} {histogram}." if histogram else _format_prefix(total)


def _format_prefix(total: int) -> str:
    return f"0/{total} nodes are available:"


def _count_reasons(diagnosis: Diagnosis) -> Counter[str]:
    counts: Counter[str] = Counter()
    for status in diagnosis.statuses:
        counts[status.reason] += int(status.rejected.sum())
    return counts
