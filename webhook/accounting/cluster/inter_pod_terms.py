"""Terms of affinity between pods, read once: which pods a term is about, and within what.

Source: AffinityTerm and GetAffinityTerms in kube-scheduler framework/types.go; mutatePodAffinity in
pkg/registry/core/pod/strategy.go, v1.36.

Terms of required anti-affinity of pods that are on nodes, and which pods they keep away.

Thousands of terms may stand, each about some label's value in some namespace. Each is filed under one condition that a
pod must meet, so that a pod is held against few of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from webhook.accounting.selectors import MATCH_NOTHING, LabelCondition, Selector, parse_selector
from webhook.objects.meta import LabelSelector, SelectorRequirement
from webhook.objects.scheduling import Affinity, PodAffinity, PodAffinityTerm, SchedulingPod


class AffinityTerm(NamedTuple):
    """Pods with these labels, in namespaces with these names or labels, on nodes with one value of the topology key."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod with these labels in this namespace."""
        is_in_namespaces = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in_namespaces and self.selector.matches(labels)


def parse_terms(required: Iterable[PodAffinityTerm], namespace: str) -> tuple[AffinityTerm, ...]:
    """The terms of a pod in a namespace. One that names no namespaces at all is about the pod's own.

    Raises:
        SelectorError: a requirement of a selector is none.
    """
    return tuple(_parse_term(each, namespace) for each in required)


def get_required_terms(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    """The terms that must hold."""
    if affinity is None:
        return ()
    return tuple(affinity.required_during_scheduling_ignored_during_execution or ())


def merge_label_keys(pod: SchedulingPod) -> SchedulingPod:
    """A pod as the API server stores it: with `matchLabelKeys` and `mismatchLabelKeys` in the selectors of its terms.

    A pod that has a UID is as it is stored already, and its labels may have changed since. (A spread constraint's keys
    are looked at by the scheduler itself, and need not be merged.)
    """
    affinity, meta = pod.spec.affinity if pod.spec else None, pod.metadata
    if pod.spec is None or affinity is None or meta is None or meta.uid or not meta.labels:
        return pod
    merged = Affinity(
        affinity.node_affinity,
        _merge_affinity_keys(affinity.pod_affinity, meta.labels),
        _merge_affinity_keys(affinity.pod_anti_affinity, meta.labels),
    )
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=merged))


def _parse_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    is_own_namespace_only = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        parse_selector(term.label_selector),
        frozenset({namespace} if is_own_namespace_only else term.namespaces or ()),
        parse_selector(term.namespace_selector),
    )


def _merge_affinity_keys(affinity: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    return PodAffinity([_merge_term_keys(each, labels) for each in get_required_terms(affinity)])


def _merge_term_keys(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    """A term with what its keys stand for. A selector that is absent matches nothing, whatever is added."""
    keys = [(key, "In") for key in term.match_label_keys or ()]
    keys += [(key, "NotIn") for key in term.mismatch_label_keys or ()]
    requirements = [SelectorRequirement(key, operator, [labels[key]]) for key, operator in keys if key in labels]
    selector = term.label_selector
    if selector is None or not requirements:
        return term
    merged = LabelSelector(selector.match_labels, [*(selector.match_expressions or ()), *requirements])
    return msgspec.structs.replace(term, label_selector=merged)


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
