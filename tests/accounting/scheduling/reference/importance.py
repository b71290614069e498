"""Order of pods by importance (util/utils.go MoreImportantPod, GetPodStartTime, GetEarliestPodStartTime)."""

from datetime import datetime
from math import inf

from tests.accounting.scheduling.reference.cluster import PodInfo
from tests.accounting.scheduling.reference.objects import Json, get_priority, get_status, get_uid


def sort_by_importance(pods: list[PodInfo], minor: int) -> list[PodInfo]:
    """Return the pods sorted as by sort.Slice with MoreImportantPod for up to 12 pods: by insertion.

    The algorithm matters since the comparison is not an order: of two pods that have not started, each precedes the
    other, because the clock is read for each. The order of more than 12 such pods differs from Go's.

    In v1.37 (MoreImportantVictim, NewVictim) the clock is read once for each pod, in their order. In v1.38 it is not
    read, and of pods that are equal otherwise the one with the lower UID precedes the other.
    """
    if minor >= 38:
        return sorted(pods, key=lambda each: (-get_priority(each.pod), _get_start(each.pod), get_uid(each.pod)))
    if minor >= 37:
        return sorted(pods, key=lambda each: (-get_priority(each.pod), _get_start(each.pod)))
    ordered: list[PodInfo] = []
    for pod in pods:
        index = len(ordered)
        while index > 0 and _is_more_important(pod.pod, ordered[index - 1].pod):
            index -= 1
        ordered.insert(index, pod)
    return ordered


def _is_more_important(pod: Json, other: Json) -> bool:
    """Implement MoreImportantPod."""
    if get_priority(pod) != get_priority(other):
        return get_priority(pod) > get_priority(other)
    return _get_start(pod) < _get_start(other) or _get_start(pod) == _get_start(other) == inf


def find_earliest_start(pods: list[PodInfo]) -> float:
    """Return the first start of the pods of the highest priority (GetEarliestPodStartTime); infinity means now."""
    highest = max(get_priority(each.pod) for each in pods)
    return min(_get_start(each.pod) for each in pods if get_priority(each.pod) == highest)


def _get_start(pod: Json) -> float:
    """Return GetPodStartTime, in seconds; a pod that has not started starts now."""
    started = get_status(pod).get("startTime")
    return datetime.fromisoformat(started).timestamp() if started else inf
