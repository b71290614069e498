"""Shapes by what selectors select them by: namespaces and labels."""

from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from webhook.accounting.cluster.shapes import Shape
from webhook.accounting.selectors import Condition, Selector

K = TypeVar("K", bound=Hashable)

_NONE: AbstractSet[Shape] = frozenset()


class Labelled:
    """The shapes of pods that are on a node."""

    def __init__(self) -> None:
        self._all: set[Shape] = set()
        self._in: dict[str, set[Shape]] = {}
        self._with: dict[tuple[str, str], set[Shape]] = {}

    def add(self, shape: Shape) -> None:
        """Take up a shape, which need not be new."""
        self._all.add(shape)
        self._in.setdefault(shape.namespace, set()).add(shape)
        for label in shape.labels.items():
            self._with.setdefault(label, set()).add(shape)

    def remove(self, shape: Shape) -> None:
        """Forget a shape that is there."""
        self._all.remove(shape)
        _remove(self._in, shape.namespace, shape)
        for label in shape.labels.items():
            _remove(self._with, label, shape)

    def namespaces(self) -> AbstractSet[str]:
        """The namespaces that have any."""
        return self._in.keys()

    def within(self, namespace: str) -> AbstractSet[Shape]:
        """Those of one namespace. Not to be changed."""
        return self._in.get(namespace, _NONE)

    def matching(self, selector: Selector, namespaces: frozenset[str] | None) -> set[Shape]:
        """Those that a selector matches in these namespaces, None for all.

        What is asked for by value is looked up, so that it costs what the fewest of them are; the rest is tried.
        """
        if selector.conditions is None:
            return set()
        found = [self._having(each) for each in selector.conditions if each.operator == "In"]
        if namespaces is not None:
            found.append(_union(self.within(each) for each in namespaces))
        shapes = self._all.intersection(*sorted(found, key=len))
        tried = [each for each in selector.conditions if each.operator != "In"]
        return {each for each in shapes if all(test.holds(each.labels) for test in tried)} if tried else shapes

    def at_most(self, selector: Selector, namespaces: frozenset[str] | None) -> int:
        """How many have to be tried, at most, to find those that a selector matches in these namespaces."""
        if selector.conditions is None:
            return 0
        found = [len(self._all)] if namespaces is None else [sum(len(self.within(each)) for each in namespaces)]
        wanted = [each for each in selector.conditions if each.operator == "In"]
        found += [sum(len(self._with.get((each.key, value), _NONE)) for value in each.values) for each in wanted]
        return min(found)

    def _having(self, condition: Condition) -> AbstractSet[Shape]:
        return _union(self._with.get((condition.key, value), _NONE) for value in condition.values)


def _union(sets: Iterable[AbstractSet[Shape]]) -> AbstractSet[Shape]:
    listed = list(sets)
    return listed[0] if len(listed) == 1 else set[Shape]().union(*listed)


def _remove(sets: dict[K, set[Shape]], key: K, shape: Shape) -> None:
    sets[key].remove(shape)
    if not sets[key]:
        del sets[key]
