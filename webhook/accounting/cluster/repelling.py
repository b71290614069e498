"""Terms of required anti-affinity of pods that are on nodes, and which pods they keep away.

Thousands of terms may stand, each about some label's value in some namespace. Each is filed under one condition that a
pod must meet, so that a pod is held against few of them.
"""

from collections.abc import Iterator, Mapping

from webhook.accounting.cluster.terms import AffinityTerm
from webhook.accounting.selectors import MATCH_NOTHING, LabelCondition

_Slot = tuple[str | None, str | None, str | None]
"""A namespace, a label and its value; None is any, or not said."""

_MAX_SLOT_VALUES = 8  # a pod may name a hundred thousand namespaces, and as many values


class AntiAffinityIndex:
    """Terms, and how many pods have each at which places."""

    def __init__(self) -> None:
        self._counts_by_term: dict[AffinityTerm, dict[int, int]] = {}
        self._terms_by_slot: dict[_Slot, dict[AffinityTerm, None]] = {}

    def __len__(self) -> int:
        """How many terms there are."""
        return len(self._counts_by_term)

    def count(self, term: AffinityTerm, index: int, pods: int) -> None:
        """Count so many more pods with a term at a place; fewer, where it is negative."""
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
        """The terms that are about a pod, and how many pods have each at which places."""
        for term in self.find_candidate_terms(namespace, labels):
            if term.matches(namespace, namespace_labels, labels):
                yield term, self._counts_by_term[term]

    def find_candidate_terms(self, namespace: str, labels: Mapping[str, str]) -> Iterator[AffinityTerm]:
        """The terms that are about a pod if its namespace is one of theirs, and perhaps some that are not."""
        for slot in _list_pod_slots(namespace, labels):
            yield from self._terms_by_slot.get(slot, ())

    def _drop(self, term: AffinityTerm) -> None:
        del self._counts_by_term[term]
        for slot in _list_term_slots(term):
            del self._terms_by_slot[slot][term]
            if not self._terms_by_slot[slot]:
                del self._terms_by_slot[slot]


def _list_term_slots(term: AffinityTerm) -> Iterator[_Slot]:
    """Where a term is filed: under one condition of its selector, in each of its namespaces; under any, if many."""
    if term.selector.conditions is None:
        return
    has_few_namespaces = term.namespace_selector == MATCH_NOTHING and len(term.namespaces) <= _MAX_SLOT_VALUES
    for namespace in term.namespaces if has_few_namespaces else (None,):
        for key, value in _select_slot_labels(term.selector.conditions):
            yield namespace, key, value


def _select_slot_labels(conditions: tuple[LabelCondition, ...]) -> list[tuple[str | None, str | None]]:
    """The labels of which a pod must have one, for all the conditions to hold."""
    in_conditions = [each for each in conditions if each.operator == "In"]
    fewest = min(in_conditions, key=lambda each: len(each.values), default=None)
    if fewest is None:
        return [next(((each.key, None) for each in conditions if each.operator == "Exists"), (None, None))]
    if len(fewest.values) > _MAX_SLOT_VALUES:
        return [(fewest.key, None)]
    return [(fewest.key, value) for value in fewest.values]


def _list_pod_slots(namespace: str, labels: Mapping[str, str]) -> Iterator[_Slot]:
    """Where terms can be filed that are about a pod."""
    for slot_namespace in (namespace, None):
        yield slot_namespace, None, None
        for key, value in labels.items():
            yield slot_namespace, key, None
            yield slot_namespace, key, value
