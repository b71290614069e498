"""Required terms of affinity and anti-affinity between pods, and an index of the anti-affinity terms of pods on nodes.

Source: AffinityTerm and GetAffinityTerms in kube-scheduler framework/types.go; mutatePodAffinity in
pkg/registry/core/pod/strategy.go, v1.36.

A cluster may have thousands of anti-affinity terms, each for one label value in one namespace. The index stores each
term under one condition that a pod must meet, so that a lookup compares a pod with few terms.
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
        """Return whether the term matches a pod with these labels in this namespace."""
        is_in_namespaces = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in_namespaces and self.selector.matches(labels)


def parse_terms(required: Iterable[PodAffinityTerm], namespace: str) -> tuple[AffinityTerm, ...]:
    """Parse the terms of a pod in a namespace. A term without namespaces matches the pod's own namespace.

    Raises:
        SelectorError: if a selector has an invalid requirement.
    """
    return tuple(_parse_term(each, namespace) for each in required)


def get_required_terms(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms, without the preferred ones."""
    if affinity is None:
        return ()
    return tuple(affinity.required_during_scheduling_ignored_during_execution or ())


def merge_label_keys(pod: SchedulingPod) -> SchedulingPod:
    """Return a pod with the values of `matchLabelKeys` and `mismatchLabelKeys` in its terms' selectors.

    The API server stores a pod in this form. A pod with a UID has this form already, and its labels may have changed
    since. (The scheduler itself evaluates the keys of a spread constraint, which need no merging.)
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
    """Return a term with a requirement for each of its keys. An absent selector stays, because it matches nothing."""
    keys = [(key, "In") for key in term.match_label_keys or ()]
    keys += [(key, "NotIn") for key in term.mismatch_label_keys or ()]
    requirements = [SelectorRequirement(key, operator, [labels[key]]) for key, operator in keys if key in labels]
    selector = term.label_selector
    if selector is None or not requirements:
        return term
    merged = LabelSelector(selector.match_labels, [*(selector.match_expressions or ()), *requirements])
    return msgspec.structs.replace(term, label_selector=merged)


_Slot = tuple[str | None, str | None, str | None]
"""A namespace, a label and its value; None matches any."""

_MAX_SLOT_VALUES = 8  # a pod may name a hundred thousand namespaces, and as many values


class AntiAffinityIndex:
    """The terms of pods on nodes, and the number of pods with each term by node index."""

    def __init__(self) -> None:
        self._counts_by_term: dict[AffinityTerm, dict[int, int]] = {}
        self._terms_by_slot: dict[_Slot, dict[AffinityTerm, None]] = {}

    def __len__(self) -> int:
        """Return the number of different terms."""
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
    in_conditions = [each for each in conditions if each.operator == "In"]
    fewest = min(in_conditions, key=lambda each: len(each.values), default=None)
    if fewest is None:
        return [next(((each.key, None) for each in conditions if each.operator == "Exists"), (None, None))]
    if len(fewest.values) > _MAX_SLOT_VALUES:
        return [(fewest.key, None)]
    return [(fewest.key, value) for value in fewest.values]


def _list_pod_slots(namespace: str, labels: Mapping[str, str]) -> Iterator[_Slot]:
    """Yield the slots of all terms that may match a pod."""
    for slot_namespace in (namespace, None):
        yield slot_namespace, None, None
        for key, value in labels.items():
            yield slot_namespace, key, None
            yield slot_namespace, key, value
