"""Preferences for nodes that the scheduler stumbles over when it has more than one node to choose from.

Source: PreScore in plugins/nodeaffinity/node_affinity.go, NewPreferredSchedulingTerms in component-helpers
scheduling/corev1/nodeaffinity/nodeaffinity.go, NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API
server knowingly lets them through ("they can success when cluster has only one node").
"""

from collections.abc import Iterator

from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.problem import encode_go_json
from webhook.accounting.selectors import find_label_value_errors, join_errors, parse_int64
from webhook.objects.meta import NodeSelectorTerm, SelectorRequirement

_NOT_AN_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


def find_pre_score_error(pod: IncomingPod) -> str:
    """What the scheduler says of a pod that it cannot choose a node for; empty when it can."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    errors = [
        error
        for index, term in enumerate(preferred)
        if term.weight
        for error in _find_term_errors(f"[{index}]", term.preference or NodeSelectorTerm())
    ]
    return f'running PreScore plugin "NodeAffinity": {join_errors(errors)}' if errors else ""


def _find_term_errors(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for index, requirement in enumerate(term.match_expressions or ()):
        yield from _find_value_errors(f"{path}.matchExpressions[{index}].values", requirement)


def _find_value_errors(path: str, requirement: SelectorRequirement) -> Iterator[str]:
    values = list(enumerate(requirement.values or ()))
    if requirement.operator in ("Gt", "Lt"):
        for index, value in values:
            if parse_int64(value) is None:
                yield f"{path}[{index}]: Invalid value: {encode_go_json(value)}: {_NOT_AN_INTEGER}"
    for index, value in values:
        if errors := find_label_value_errors(value):
            yield f"{path}[{index}][{requirement.key}]: Invalid value: {encode_go_json(value)}: {'; '.join(errors)}"
