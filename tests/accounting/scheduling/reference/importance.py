"""Which of two pods matters more (util/utils.go MoreImportantPod, GetPodStartTime, GetEarliestPodStartTime)."""

from datetime import datetime
from math import inf

from tests.accounting.scheduling.reference.cluster import PodInfo
from tests.accounting.scheduling.reference.objects import Json, priority_of, status_of


def by_importance(pods: list[PodInfo]) -> list[PodInfo]:
    """sort.Slice with MoreImportantPod, as it is for up to 12 pods: by insertion.

    That is told because the comparison is no order: of two pods that have not started, each comes before the other,
    the clock being read for one after the other. Of more than 12 such pods the order is not that of Go.
    """
    ordered: list[PodInfo] = []
    for pod in pods:
        place = len(ordered)
        while place > 0 and _is_more_important(pod.pod, ordered[place - 1].pod):
            place -= 1
        ordered.insert(place, pod)
    return ordered


def _is_more_important(pod: Json, other: Json) -> bool:
    """MoreImportantPod."""
    if priority_of(pod) != priority_of(other):
        return priority_of(pod) > priority_of(other)
    return _start(pod) < _start(other) or _start(pod) == _start(other) == inf


def earliest_start(pods: list[PodInfo]) -> float:
    """GetEarliestPodStartTime: when the first of the most important started, infinity being now."""
    highest = max(priority_of(each.pod) for each in pods)
    return min(_start(each.pod) for each in pods if priority_of(each.pod) == highest)


def _start(pod: Json) -> float:
    """GetPodStartTime, in seconds; a pod that has not started starts now."""
    started = status_of(pod).get("startTime")
    return datetime.fromisoformat(started).timestamp() if started else inf
