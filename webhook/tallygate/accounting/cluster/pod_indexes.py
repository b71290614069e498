"""The indexes of the pods on nodes: groups by label, pods by selector, and anti-affinity terms.

The first query of a selector counts its pods on each node; later changes of pods update the count.

A cluster may have thousands of anti-affinity terms, each for one label value in one namespace. The index stores each
term under one condition that a pod must meet, so that a lookup compares a pod with few terms.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.cluster.pod_info import AffinityTerm, SchedulingGroup
from tallygate.accounting.selectors import MATCH_NOTHING, LabelCondition, Selector

K = TypeVar("K", bound=Hashable)

_NO_GROUPS: AbstractSet[SchedulingGroup] = frozenset()


class _GroupSets(Generic[K]):
    """Sets of scheduling groups by key. A set of one is stored as the group: most values of labels have one only."""

    def __init__(self) -> None:
        self._sets: dict[K, SchedulingGroup | set[SchedulingGroup]] = {}

    def keys(self) -> AbstractSet[K]:
        """Return the keys with at least one group."""
        return self._sets.keys()

    def add(self, key: K, group: SchedulingGroup) -> None:
        """Add a group to a set; it may be present already."""
        stored = self._sets.setdefault(key, group)
        if isinstance(stored, set):
            stored.add(group)
        elif stored is not group:
            self._sets[key] = {stored, group}

    def remove(self, key: K, group: SchedulingGroup) -> None:
        stored = self._sets[key]
        if isinstance(stored, set):
            stored.remove(group)
        if not isinstance(stored, set) or not stored:
            del self._sets[key]

    def find(self, key: K) -> AbstractSet[SchedulingGroup]:
        """Return the groups of a key. Callers must not change the set."""
        stored = self._sets.get(key)
        if stored is None:
            return _NO_GROUPS
        return stored if isinstance(stored, set) else frozenset((stored,))


class LabelIndex:
    """The scheduling groups of pods on nodes."""

    def __init__(self) -> None:
        self._groups: set[SchedulingGroup] = set()
        self._by_namespace = _GroupSets[str]()
        self._by_label = _GroupSets[tuple[str, str]]()

    def add(self, group: SchedulingGroup) -> None:
        """Add a group; it may be present already."""
        self._groups.add(group)
        self._by_namespace.add(group.namespace, group)
        for label in group.labels.items():
            self._by_label.add(label, group)

    def remove(self, group: SchedulingGroup) -> None:
        self._groups.remove(group)
        self._by_namespace.remove(group.namespace, group)
        for label in group.labels.items():
            self._by_label.remove(label, group)

    def namespaces(self) -> AbstractSet[str]:
        """Return the namespaces with at least one group."""
        return self._by_namespace.keys()

    def find_in_namespace(self, namespace: str) -> AbstractSet[SchedulingGroup]:
        """Return the groups of one namespace. Callers must not change the set."""
        return self._by_namespace.find(namespace)

    def find_matching(self, selector: Selector, namespaces: frozenset[str] | None) -> set[SchedulingGroup]:
        """Return the groups that a selector matches in these namespaces, None for all.

        Conditions with operator In are looked up by value, so that the cost is that of the smallest set. The other
        conditions are tested on each group.
        """
        if selector.conditions is None:
            return set()
        candidates = [
            self._find_with_label(condition) for condition in selector.conditions if condition.operator == "In"
        ]
        if namespaces is not None:
            candidates.append(_union(self.find_in_namespace(namespace) for namespace in namespaces))
        groups = self._groups.intersection(*sorted(candidates, key=len))
        conditions = [condition for condition in selector.conditions if condition.operator != "In"]
        return (
            {group for group in groups if all(test.matches(group.labels) for test in conditions)}
            if conditions
            else groups
        )

    def count_max_candidates(self, selector: Selector, namespaces: frozenset[str] | None) -> int:
        """Return an upper limit on the groups to test to find the matches of a selector in these namespaces."""
        if selector.conditions is None:
            return 0
        sizes = (
            [len(self._groups)]
            if namespaces is None
            else [sum(len(self.find_in_namespace(namespace)) for namespace in namespaces)]
        )
        in_conditions = [condition for condition in selector.conditions if condition.operator == "In"]
        sizes += [
            sum(len(self._by_label.find((condition.key, value))) for value in condition.values)
            for condition in in_conditions
        ]
        return min(sizes)

    def _find_with_label(self, condition: LabelCondition) -> AbstractSet[SchedulingGroup]:
        return _union(self._by_label.find((condition.key, value)) for value in condition.values)


def _union(sets: Iterable[AbstractSet[SchedulingGroup]]) -> AbstractSet[SchedulingGroup]:
    group_sets = list(sets)
    return group_sets[0] if len(group_sets) == 1 else set[SchedulingGroup]().union(*group_sets)


_MAX_CACHED_COUNTS = 64
_MAX_CHANGES = 1000  # to apply more would cost as much as a new count


class NodePodCounts:
    """The numbers of pods and of terminating pods by node index, after the first `applied_changes` changes."""

    __slots__ = ("applied_changes", "pods", "terminating")

    def __init__(self, groups: Iterable[SchedulingGroup], size: int, applied_changes: int) -> None:
        group_list = list(groups)
        self.pods = _sum_by_node([group.pod_counts for group in group_list], size)
        self.terminating = _sum_by_node([group.terminating_counts for group in group_list], size)
        self.applied_changes = applied_changes

    def grow(self, size: int) -> None:
        """Extend both arrays to `size` nodes with zeros."""
        padding = np.zeros(size - len(self.pods), dtype=np.int64)
        self.pods, self.terminating = np.concatenate([self.pods, padding]), np.concatenate([self.terminating, padding])


class _Change(NamedTuple):
    """A change of the number of pods of one group on one node."""

    group: SchedulingGroup
    node_index: int
    pods: int
    terminating: int


class SelectorCounts:
    """The counts of the selectors that callers queried last."""

    def __init__(self, label_index: LabelIndex) -> None:
        self._label_index = label_index
        self._cache: dict[tuple[Selector, frozenset[str] | None], NodePodCounts] = {}
        self._changes: list[_Change] = []

    def record_change(self, group: SchedulingGroup, index: int, pods: int, terminating: int) -> None:
        """Record for the cached counts that the numbers of a group's pods on a node changed by these amounts."""
        if not self._cache:
            return
        if len(self._changes) == _MAX_CHANGES:
            self._cache.clear()
            self._changes.clear()
            return
        self._changes.append(_Change(group, index, pods, terminating))

    def count_pods(self, selector: Selector, namespaces: frozenset[str] | None, size: int) -> NodePodCounts:
        """Return the pods that a selector matches in these namespaces, None for all, on `size` nodes.

        Callers must not change the arrays.
        """
        counts = self._cache.pop((selector, namespaces), None)
        if counts is None:
            counts = NodePodCounts(self._label_index.find_matching(selector, namespaces), size, len(self._changes))
            if len(self._cache) == _MAX_CACHED_COUNTS:
                del self._cache[next(iter(self._cache))]
        self._cache[selector, namespaces] = counts  # the latest query stands last
        if len(counts.pods) < size:
            counts.grow(size)
        for change in self._changes[counts.applied_changes :]:
            if (namespaces is None or change.group.namespace in namespaces) and selector.matches(change.group.labels):
                counts.pods[change.node_index] += change.pods
                counts.terminating[change.node_index] += change.terminating
        counts.applied_changes = len(self._changes)
        return counts


def _sum_by_node(counts: list[Mapping[int, int]], size: int) -> NDArray[np.int64]:
    """Return the sum of all mappings for each node index, shape `(size,)`."""
    indices = np.fromiter(chain.from_iterable(counts), dtype=np.intp)
    numbers = np.fromiter(chain.from_iterable(count.values() for count in counts), dtype=np.float64)
    return np.bincount(indices, weights=numbers, minlength=size).astype(np.int64)


_Slot = tuple[str | None, str | None, str | None]
"""A namespace, a label and its value; None matches any."""

_MAX_SLOT_VALUES = 8  # a pod may name a hundred thousand namespaces, and as many values


class AntiAffinityIndex:
    """The terms of pods on nodes, and the number of pods with each term by node index."""

    def __init__(self) -> None:
        self._counts_by_term: dict[AffinityTerm, dict[int, int]] = {}
        self._terms_by_slot: dict[_Slot, dict[AffinityTerm, None]] = {}

    def __len__(self) -> int:
        return len(self._counts_by_term)

    def count(self, term: AffinityTerm, index: int, pods: int) -> None:
        """Add a number of pods with a term to a node's count; a negative number subtracts."""
        counts = self._counts_by_term.get(term)
        if counts is None:
            counts = self._counts_by_term[term] = {}
            for slot in _list_term_slots(term):
                self._terms_by_slot.setdefault(slot, {})[term] = None
        total = counts.get(index, 0) + pods
        if total:
            counts[index] = total
            return
        del counts[index]
        if not counts:
            self._drop(term)

    def find_terms_against(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[tuple[AffinityTerm, Mapping[int, int]]]:
        """Yield each term that matches a pod, and the number of pods with the term by node index."""
        for term in self.find_candidate_terms(namespace, labels):
            if term.matches(namespace, namespace_labels, labels):
                yield term, self._counts_by_term[term]

    def find_candidate_terms(self, namespace: str, labels: Mapping[str, str]) -> Iterator[AffinityTerm]:
        """Yield every term that matches a pod if its namespace matches, and possibly further terms."""
        for slot in _list_pod_slots(namespace, labels):
            yield from self._terms_by_slot.get(slot, ())

    def _drop(self, term: AffinityTerm) -> None:
        del self._counts_by_term[term]
        for slot in _list_term_slots(term):
            del self._terms_by_slot[slot][term]
            if not self._terms_by_slot[slot]:
                del self._terms_by_slot[slot]


def _list_term_slots(term: AffinityTerm) -> Iterator[_Slot]:
    """Yield the slots of a term: one condition of its selector, in each of its namespaces, or in any if many."""
    if term.selector.conditions is None:
        return
    has_few_namespaces = term.namespace_selector == MATCH_NOTHING and len(term.namespaces) <= _MAX_SLOT_VALUES
    for namespace in term.namespaces if has_few_namespaces else (None,):
        for key, value in _select_slot_labels(term.selector.conditions):
            yield namespace, key, value


def _select_slot_labels(conditions: tuple[LabelCondition, ...]) -> list[tuple[str | None, str | None]]:
    """Return labels of which a pod has at least one, if it meets all conditions."""
    in_conditions = [condition for condition in conditions if condition.operator == "In"]
    fewest = min(in_conditions, key=lambda each: len(each.values), default=None)
    if fewest is None:
        return [
            next(((condition.key, None) for condition in conditions if condition.operator == "Exists"), (None, None))
        ]
    if len(fewest.values) > _MAX_SLOT_VALUES:
        return [(fewest.key, None)]
    return [(fewest.key, value) for value in fewest.values]


def _list_pod_slots(namespace: str, labels: Mapping[str, str]) -> Iterator[_Slot]:
    for slot_namespace in (namespace, None):
        yield slot_namespace, None, None
        for key, value in labels.items():
            yield slot_namespace, key, None
            yield slot_namespace, key, value
