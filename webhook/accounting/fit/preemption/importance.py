"""Which pods are more important than others.

Source: MoreImportantPod and GetEarliestPodStartTime in pkg/scheduler/util/utils.go, v1.36. A pod that has not started
starts now there, whenever it is looked at, so that of several the one that comes first in a list counts as younger.
"""

from collections.abc import Iterable, Sequence

from webhook.accounting.cluster.pod_info import PodInfo

_NOT_STARTED = "~"  # after every time that can be written


def sort_by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Pods by priority, highest first; of the same, those that started first."""
    return [pod for _, pod in sorted(enumerate(pods), key=_rank_pod)]


def find_earliest_start(pods: Sequence[PodInfo]) -> str:
    """When the first of those pods started that have the highest priority among them."""
    highest = max(pod.group.priority for pod in pods)
    return min(_get_start_time(pod) for pod in pods if pod.group.priority == highest)


def _rank_pod(indexed_pod: tuple[int, PodInfo]) -> tuple[int, str, int]:
    index, pod = indexed_pod
    return -pod.group.priority, _get_start_time(pod), index if pod.start_time else -index


def _get_start_time(pod: PodInfo) -> str:
    return pod.start_time or _NOT_STARTED
