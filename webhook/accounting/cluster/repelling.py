"""Terms of required anti-affinity of pods that are on nodes, and which pods they keep away.

Thousands of terms may stand, each about some label's value in some namespace. Each is filed under one condition that a
pod must meet, so that a pod is held against few of them.
"""

from collections.abc import Iterator, Mapping

from webhook.accounting.cluster.terms import Term
from webhook.accounting.selectors import NOTHING, Condition

_Slot = tuple[str | None, str | None, str | None]
"""A namespace, a label and its value; None is any, or not said."""

_FEW = 8  # a pod may name a hundred thousand namespaces, and as many values


class Repelling:
    """Terms, and how many pods have each at which places."""

    def __init__(self) -> None:
        self._on: dict[Term, dict[int, int]] = {}
        self._filed: dict[_Slot, dict[Term, None]] = {}

    def __len__(self) -> int:
        """How many terms there are."""
        return len(self._on)

    def count(self, term: Term, place: int, pods: int) -> None:
        """Count so many more pods with a term at a place; fewer, where it is negative."""
        on = self._on.get(term)
        if on is None:
            on = self._on[term] = {}
            for slot in _slots(term):
                self._filed.setdefault(slot, {})[term] = None
        total = on.get(place, 0) + pods
        if total:
            on[place] = total
            return
        del on[place]
        if not on:
            self._forget(term)

    def against(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[tuple[Term, Mapping[int, int]]]:
        """The terms that are about a pod, and how many pods have each at which places."""
        for term in self.choosing(namespace, labels):
            if term.is_about(namespace, namespace_labels, labels):
                yield term, self._on[term]

    def choosing(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Term]:
        """The terms that are about a pod if its namespace is one of theirs, and perhaps some that are not."""
        for slot in _asked(namespace, labels):
            yield from self._filed.get(slot, ())

    def _forget(self, term: Term) -> None:
        del self._on[term]
        for slot in _slots(term):
            del self._filed[slot][term]
            if not self._filed[slot]:
                del self._filed[slot]


def _slots(term: Term) -> Iterator[_Slot]:
    """Where a term is filed: under one condition of its selector, in each of its namespaces; under any, if many."""
    if term.selector.conditions is None:
        return
    is_named = term.namespace_selector == NOTHING and len(term.namespaces) <= _FEW
    for namespace in term.namespaces if is_named else (None,):
        for key, value in _handles(term.selector.conditions):
            yield namespace, key, value


def _handles(conditions: tuple[Condition, ...]) -> list[tuple[str | None, str | None]]:
    """The labels of which a pod must have one, for all the conditions to hold."""
    listed = [each for each in conditions if each.operator == "In"]
    fewest = min(listed, key=lambda each: len(each.values), default=None)
    if fewest is None:
        return [next(((each.key, None) for each in conditions if each.operator == "Exists"), (None, None))]
    if len(fewest.values) > _FEW:
        return [(fewest.key, None)]
    return [(fewest.key, value) for value in fewest.values]


def _asked(namespace: str, labels: Mapping[str, str]) -> Iterator[_Slot]:
    """Where terms can be filed that are about a pod."""
    for where in (namespace, None):
        yield where, None, None
        for key, value in labels.items():
            yield where, key, None
            yield where, key, value
