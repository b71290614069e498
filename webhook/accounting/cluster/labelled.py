"""Shapes by what selectors select them by: namespaces and labels."""

from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from webhook.accounting.cluster.shapes import SchedulingGroup
from webhook.accounting.selectors import LabelCondition, Selector

K = TypeVar("K", bound=Hashable)

_NO_GROUPS: AbstractSet[SchedulingGroup] = frozenset()


class LabelIndex:
    """The shapes of pods that are on a node."""

    def __init__(self) -> None:
        self._groups: set[SchedulingGroup] = set()
        self._by_namespace: dict[str, set[SchedulingGroup]] = {}
        self._by_label: dict[tuple[str, str], set[SchedulingGroup]] = {}

    def add(self, group: SchedulingGroup) -> None:
        """Take up a shape, which need not be new."""
        self._groups.add(group)
        self._by_namespace.setdefault(group.namespace, set()).add(group)
        for label in group.labels.items():
            self._by_label.setdefault(label, set()).add(group)

    def remove(self, group: SchedulingGroup) -> None:
        """Forget a shape that is there."""
        self._groups.remove(group)
        _remove_group(self._by_namespace, group.namespace, group)
        for label in group.labels.items():
            _remove_group(self._by_label, label, group)

    def namespaces(self) -> AbstractSet[str]:
        """The namespaces that have any."""
        return self._by_namespace.keys()

    def find_in_namespace(self, namespace: str) -> AbstractSet[SchedulingGroup]:
        """Those of one namespace. Not to be changed."""
        return self._by_namespace.get(namespace, _NO_GROUPS)

    def find_matching(self, selector: Selector, namespaces: frozenset[str] | None) -> set[SchedulingGroup]:
        """Those that a selector matches in these namespaces, None for all.

        What is asked for by value is looked up, so that it costs what the fewest of them are; the rest is tried.
        """
        if selector.conditions is None:
            return set()
        candidates = [self._find_with_label(each) for each in selector.conditions if each.operator == "In"]
        if namespaces is not None:
            candidates.append(_union(self.find_in_namespace(each) for each in namespaces))
        groups = self._groups.intersection(*sorted(candidates, key=len))
        conditions = [each for each in selector.conditions if each.operator != "In"]
        return (
            {each for each in groups if all(test.matches(each.labels) for test in conditions)} if conditions else groups
        )

    def count_max_candidates(self, selector: Selector, namespaces: frozenset[str] | None) -> int:
        """How many have to be tried, at most, to find those that a selector matches in these namespaces."""
        if selector.conditions is None:
            return 0
        sizes = (
            [len(self._groups)]
            if namespaces is None
            else [sum(len(self.find_in_namespace(each)) for each in namespaces)]
        )
        in_conditions = [each for each in selector.conditions if each.operator == "In"]
        sizes += [
            sum(len(self._by_label.get((each.key, value), _NO_GROUPS)) for value in each.values)
            for each in in_conditions
        ]
        return min(sizes)

    def _find_with_label(self, condition: LabelCondition) -> AbstractSet[SchedulingGroup]:
        return _union(self._by_label.get((condition.key, value), _NO_GROUPS) for value in condition.values)


def _union(sets: Iterable[AbstractSet[SchedulingGroup]]) -> AbstractSet[SchedulingGroup]:
    group_sets = list(sets)
    return group_sets[0] if len(group_sets) == 1 else set[SchedulingGroup]().union(*group_sets)


def _remove_group(sets: dict[K, set[SchedulingGroup]], key: K, group: SchedulingGroup) -> None:
    sets[key].remove(group)
    if not sets[key]:
        del sets[key]
