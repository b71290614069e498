"""Terms of affinity to pods (kube-scheduler v0.36.3 framework/types.go)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.accounting.scheduling.reference.objects import Json, Labels, labels_of, namespace_of, spec_of
from tests.accounting.scheduling.reference.selectors import Selector, label_selector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """AffinityTerm: which pods it is about, and within which topology."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector

    def matches(self, pod: Json, namespace_labels: Labels) -> bool:
        """AffinityTerm.Matches."""
        if namespace_of(pod) in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels_of(pod))
        return False


def required_terms(pod: Json, kind: str) -> list[AffinityTerm]:
    """GetAffinityTerms of what is required during scheduling; `kind` is podAffinity or podAntiAffinity."""
    affinity = (spec_of(pod).get("affinity") or {}).get(kind) or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    return [_term(pod, each) for each in terms]


def _term(pod: Json, term: Json) -> AffinityTerm:
    """`newAffinityTerm`."""
    return AffinityTerm(
        _namespaces(pod, term),
        label_selector(term.get("labelSelector")),
        term["topologyKey"],
        label_selector(term.get("namespaceSelector")),
    )


def _namespaces(pod: Json, term: Json) -> frozenset[str]:
    """`getNamespacesFromPodAffinityTerm`."""
    if not term.get("namespaces") and term.get("namespaceSelector") is None:
        return frozenset({namespace_of(pod)})
    return frozenset(term.get("namespaces") or ())
