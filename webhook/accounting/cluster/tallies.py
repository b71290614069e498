"""How many pods that a selector selects are at each place: counted once, then kept up with what changes."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.labelled import LabelIndex
from webhook.accounting.cluster.shapes import SchedulingGroup
from webhook.accounting.selectors import Selector

_MAX_CACHED_COUNTS = 64
_MAX_CHANGES = 1000  # going through more would cost what counting anew does


class NodePodCounts:
    """Pods at each place: all of them, and those that are being deleted. `seen` changes are in it."""

    __slots__ = ("applied_changes", "pods", "terminating")

    def __init__(self, groups: Iterable[SchedulingGroup], size: int, applied_changes: int) -> None:
        group_list = list(groups)
        self.pods = _sum_by_node([each.pod_counts for each in group_list], size)
        self.terminating = _sum_by_node([each.terminating_counts for each in group_list], size)
        self.applied_changes = applied_changes

    def grow(self, size: int) -> None:
        """Make it `size` long, with nobody at the places behind those that are there."""
        padding = np.zeros(size - len(self.pods), dtype=np.int64)
        self.pods, self.terminating = np.concatenate([self.pods, padding]), np.concatenate([self.terminating, padding])


class _Change(NamedTuple):
    """So many pods more, or fewer, of one shape at one place."""

    group: SchedulingGroup
    node_index: int
    pods: int
    terminating: int


class SelectorCounts:
    """Those that were asked for lately."""

    def __init__(self, label_index: LabelIndex) -> None:
        self._label_index = label_index
        self._cache: dict[tuple[Selector, frozenset[str] | None], NodePodCounts] = {}
        self._changes: list[_Change] = []

    def record_change(self, group: SchedulingGroup, index: int, pods: int, terminating: int) -> None:
        """Let those that are kept know of it: the shape's pods have changed by so many there."""
        if not self._cache:
            return
        if len(self._changes) == _MAX_CHANGES:
            self._cache.clear()
            self._changes.clear()
            return
        self._changes.append(_Change(group, index, pods, terminating))

    def count_pods(self, selector: Selector, namespaces: frozenset[str] | None, size: int) -> NodePodCounts:
        """The pods that a selector selects in these namespaces, None for all, at `size` places. Not to be changed."""
        counts = self._cache.pop((selector, namespaces), None)
        if counts is None:
            counts = NodePodCounts(self._label_index.find_matching(selector, namespaces), size, len(self._changes))
            if len(self._cache) == _MAX_CACHED_COUNTS:
                del self._cache[next(iter(self._cache))]
        self._cache[selector, namespaces] = counts  # the last asked for stands last
        if len(counts.pods) < size:
            counts.grow(size)
        for change in self._changes[counts.applied_changes :]:
            if (namespaces is None or change.group.namespace in namespaces) and selector.matches(change.group.labels):
                counts.pods[change.node_index] += change.pods
                counts.terminating[change.node_index] += change.terminating
        counts.applied_changes = len(self._changes)
        return counts


def _sum_by_node(counts: list[Mapping[int, int]], size: int) -> NDArray[np.int64]:
    """How many are counted at each place, by all mappings together."""
    indices = np.fromiter(chain.from_iterable(counts), dtype=np.intp)
    numbers = np.fromiter(chain.from_iterable(each.values() for each in counts), dtype=np.float64)
    return np.bincount(indices, weights=numbers, minlength=size).astype(np.int64)
