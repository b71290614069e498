"""Terms of affinity between pods, read once: which pods a term is about, and within what.

Source: AffinityTerm and GetAffinityTerms in kube-scheduler framework/types.go; mutatePodAffinity in
pkg/registry/core/pod/strategy.go, v1.36.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from webhook.accounting.selectors import Selector, parse_selector
from webhook.objects.scheduling import Affinity, PodAffinity, PodAffinityTerm, SchedulingPod
from webhook.objects.selectors import LabelSelector, SelectorRequirement


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
