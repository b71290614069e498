"""Node selectors and what a pod requires of its node (CH scheduling/corev1/nodeaffinity/nodeaffinity.go)."""

from tests.accounting.scheduling.reference.objects import Json, Labels, labels_of, name_of, spec_of
from tests.accounting.scheduling.reference.selectors import Selector, SelectorError, from_set, requirements

_FIELD_OPERATORS = ("In", "NotIn")


def required_terms(pod: Json) -> list[Json] | None:
    """The terms of the node affinity that is required; None when none is."""
    affinity = (spec_of(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def matches_required(pod: Json, node: Json) -> bool:
    """GetRequiredNodeAffinity and RequiredNodeAffinity.Match, errors left aside as its callers do."""
    selector, terms = spec_of(pod).get("nodeSelector") or {}, required_terms(pod)
    if not from_set(selector).matches(labels_of(node)):
        return False
    return terms is None or matches_any(terms, labels_of(node), name_of(node))


def matches_any(terms: list[Json], labels: Labels, name: str) -> bool:
    """LazyErrorNodeSelector.Match: one of the terms holds; an empty one, or one with an error, does not."""
    return any(_holds(each, labels, name) for each in terms)


def _holds(term: Json, labels: Labels, name: str) -> bool:
    """`newNodeSelectorTerm` and nodeSelectorTerm.match."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    try:
        selector = Selector(requirements(expressions))
    except SelectorError:
        return False
    if any(each["operator"] not in _FIELD_OPERATORS or len(each.get("values") or []) != 1 for each in fields):
        return False
    return selector.matches(labels) and (not name or all(_field_holds(each, name) for each in fields))


def _field_holds(expression: Json, name: str) -> bool:
    """OneTermEqualSelector and OneTermNotEqualSelector over extractNodeFields, which knows the name alone."""
    field = name if expression["key"] == "metadata.name" else ""
    is_equal = field == expression["values"][0]
    return is_equal if expression["operator"] == "In" else not is_equal
