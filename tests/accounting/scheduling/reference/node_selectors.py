"""Node selectors and the required node affinity of a pod (CH scheduling/corev1/nodeaffinity/nodeaffinity.go)."""

from tests.accounting.scheduling.reference.objects import Json, Labels, get_labels, get_name, get_spec
from tests.accounting.scheduling.reference.selectors import Selector, SelectorError, create_selector, parse_requirements

_FIELD_OPERATORS = ("In", "NotIn")


def read_required_terms(pod: Json) -> list[Json] | None:
    """Return the terms of the required node affinity; None when there is no such affinity."""
    affinity = (get_spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def matches_required(pod: Json, node: Json) -> bool:
    """Implement GetRequiredNodeAffinity and RequiredNodeAffinity.Match; an error counts as no match."""
    selector, terms = get_spec(pod).get("nodeSelector") or {}, read_required_terms(pod)
    if not create_selector(selector).matches(get_labels(node)):
        return False
    return terms is None or matches_any(terms, get_labels(node), get_name(node))


def matches_any(terms: list[Json], labels: Labels, name: str) -> bool:
    """Implement LazyErrorNodeSelector.Match: one of the terms matches; an empty or invalid term does not."""
    return any(_matches_term(each, labels, name) for each in terms)


def _matches_term(term: Json, labels: Labels, name: str) -> bool:
    """Implement `newNodeSelectorTerm` and nodeSelectorTerm.match."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    try:
        selector = Selector(parse_requirements(expressions))
    except SelectorError:
        return False
    if any(each["operator"] not in _FIELD_OPERATORS or len(each.get("values") or []) != 1 for each in fields):
        return False
    return selector.matches(labels) and (not name or all(_matches_field(each, name) for each in fields))


def _matches_field(expression: Json, name: str) -> bool:
    """Implement OneTermEqualSelector and OneTermNotEqualSelector over extractNodeFields, which has only the name."""
    field = name if expression["key"] == "metadata.name" else ""
    is_equal = field == expression["values"][0]
    return is_equal if expression["operator"] == "In" else not is_equal
