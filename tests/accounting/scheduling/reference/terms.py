"""Terms of inter-pod affinity (kube-scheduler v0.36.3 framework/types.go)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.accounting.scheduling.reference.objects import Json, Labels, get_labels, get_namespace, get_spec
from tests.accounting.scheduling.reference.selectors import Selector, parse_label_selector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """AffinityTerm: the pods that it selects, and its topology key."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector

    def matches(self, pod: Json, namespace_labels: Labels) -> bool:
        """Implement AffinityTerm.Matches."""
        if get_namespace(pod) in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(get_labels(pod))
        return False


def read_required_terms(pod: Json, kind: str) -> list[AffinityTerm]:
    """Return GetAffinityTerms of the required terms; `kind` is podAffinity or podAntiAffinity."""
    affinity = (get_spec(pod).get("affinity") or {}).get(kind) or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []
    return [_parse_term(pod, each) for each in terms]


def _parse_term(pod: Json, term: Json) -> AffinityTerm:
    """Implement `newAffinityTerm`."""
    return AffinityTerm(
        _read_namespaces(pod, term),
        parse_label_selector(term.get("labelSelector")),
        term["topologyKey"],
        parse_label_selector(term.get("namespaceSelector")),
    )


def _read_namespaces(pod: Json, term: Json) -> frozenset[str]:
    """Implement `getNamespacesFromPodAffinityTerm`."""
    if not term.get("namespaces") and term.get("namespaceSelector") is None:
        return frozenset({get_namespace(pod)})
    return frozenset(term.get("namespaces") or ())
