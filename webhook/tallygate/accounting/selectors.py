"""Label selectors, parsed once and matched often, and the validity of their requirements.

Selectors follow LabelSelectorAsSelector in apimachinery pkg/apis/meta/v1/helpers.go, and pkg/labels/selector.go, v1.36.
Requirements and their numbers follow the scheduler: NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The
API server accepts some invalid requirements; such a requirement makes its whole term match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.accounting.names import find_qualified_name_errors
from tallygate.accounting.problem import encode_go_json
from tallygate.errors import TallygateError
from tallygate.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm, SelectorRequirement

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-_.]*+[A-Za-z0-9]++)*+)?", re.ASCII)
_MAX_VALUE_BYTES = 63
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_BOUND = 1 << 63  # numbers in requirements have 64 bits

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class SelectorError(TallygateError):
    """A label selector with an invalid requirement."""


class LabelCondition(NamedTuple):
    """A condition on one label. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil the condition. They fulfil NotIn if the label is absent."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None


class Selector(NamedTuple):
    """Conditions that labels must all fulfil; None matches nothing, no condition matches everything."""

    conditions: tuple[LabelCondition, ...] | None

    @property
    def is_empty(self) -> bool:
        """Whether the selector restricts nothing (Selector.Empty)."""
        return self.conditions == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.conditions is not None and all(condition.matches(labels) for condition in self.conditions)

    def intersect(self, other: Selector) -> Selector:
        if self.conditions is None or other.conditions is None:
            return MATCH_NOTHING
        return Selector((*self.conditions, *other.conditions))


MATCH_NOTHING = Selector(None)


MATCH_EVERYTHING = Selector(())


def create_selector(labels: Mapping[str, str]) -> Selector:
    """Return the selector of objects with all these labels; their values are not checked (SelectorFromSet)."""
    return Selector(tuple(LabelCondition(key, "In", frozenset({value})) for key, value in labels.items()))


def parse_selector(label_selector: LabelSelector | None) -> Selector:
    """Return a selector as it is written; an absent selector matches nothing.

    Raises:
        SelectorError: if a requirement is invalid, so that Kubernetes rejects the selector; in Kubernetes' words.
    """
    if label_selector is None:
        return MATCH_NOTHING
    requirements = tuple(_list_requirements(label_selector))
    for requirement in requirements:
        errors = tuple(_find_requirement_errors(requirement))
        if errors:
            raise SelectorError(join_errors(errors))
    return Selector(
        tuple(
            LabelCondition(requirement.key, requirement.operator, frozenset(requirement.values or ()))
            for requirement in requirements
        )
    )


def is_valid_requirement(requirement: SelectorRequirement) -> bool:
    """Return whether a requirement has a known operator, a matching number of values, and a valid key and values."""
    values = requirement.values or []
    match requirement.operator:
        case "In" | "NotIn":
            has_valid_values = bool(values)
        case "Exists" | "DoesNotExist":
            has_valid_values = not values
        case "Gt" | "Lt":
            has_valid_values = len(values) == 1 and parse_int64(values[0]) is not None
        case _:
            has_valid_values = False
    return (
        has_valid_values
        and not find_qualified_name_errors(requirement.key)
        and not any(map(find_label_value_errors, values))
    )


def is_valid_field(field: SelectorRequirement) -> bool:
    """Return whether a requirement on a field is valid: an operator of fields, and one value."""
    return field.operator in ("In", "NotIn") and len(field.values or ()) == 1


def is_valid_term(term: NodeSelectorTerm) -> bool:
    """Return whether a term of a node selector requires something, and only what is valid: else it matches no node."""
    labels, fields = term.match_expressions or (), term.match_fields or ()
    return bool(labels or fields) and all(map(is_valid_requirement, labels)) and all(map(is_valid_field, fields))


def matches_node(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node with this name and these labels matches a term of a node selector.

    Source: nodeSelectorTerm.match in k8s.io/component-helpers scheduling/corev1/nodeaffinity, v1.36.
    """
    return any(_matches_term(term, name, labels) for term in selector.node_selector_terms or () if is_valid_term(term))


def _matches_term(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    return all(_matches_requirement(requirement, labels) for requirement in term.match_expressions or ()) and all(
        ((field.values or ()) == [name if field.key == "metadata.name" else ""]) is (field.operator == "In")
        for field in term.match_fields or ()
    )


def _matches_requirement(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    if requirement.operator not in ("Gt", "Lt"):
        condition = LabelCondition(requirement.key, requirement.operator, frozenset(requirement.values or ()))
        return condition.matches(labels)
    (text,) = requirement.values or ("",)
    limit, number = parse_int64(text), parse_int64(labels.get(requirement.key, ""))
    if limit is None or number is None:
        return False
    return number > limit if requirement.operator == "Gt" else number < limit


def find_label_value_errors(value: str) -> tuple[str, ...]:
    """Return every reason that a text is not the value of a label, in Kubernetes' words.

    Source: IsLabelValue in apimachinery pkg/api/validate/content/kube.go, v1.36.
    """
    length_errors = (
        ("must be no more than 63 bytes",) if len(value.encode("utf-8", "surrogatepass")) > _MAX_VALUE_BYTES else ()
    )
    return (*length_errors, *(() if _LABEL_VALUE.fullmatch(value) else (_BAD_VALUE,)))


def parse_int64(text: str) -> int | None:
    """Parse a whole number of 64 bits as Go does; return None for any other text."""
    if not _INTEGER.fullmatch(text) or len(text) > len(str(_INT64_BOUND)) + len(text) - len(text.lstrip("+-0")):
        return None
    number = int(text)
    return number if -_INT64_BOUND <= number < _INT64_BOUND else None


def join_errors(errors: Sequence[str]) -> str:
    """Join several errors into one text (NewAggregate in apimachinery pkg/util/errors/errors.go)."""
    unique_errors = tuple(dict.fromkeys(errors))
    return unique_errors[0] if len(unique_errors) == 1 else f"[{', '.join(unique_errors)}]"


def _list_requirements(label_selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for key, value in (label_selector.match_labels or {}).items():
        yield SelectorRequirement(key, "In", [value])
    yield from label_selector.match_expressions or ()


def _find_requirement_errors(requirement: SelectorRequirement) -> Iterator[str]:
    """Yield the reasons that a requirement is invalid (NewRequirement)."""
    values = requirement.values or []
    if requirement.operator not in _OPERATORS:
        yield f"{encode_go_json(requirement.operator)} is not a valid label selector operator"
        return
    if key_errors := find_qualified_name_errors(requirement.key):
        yield f"key: Invalid value: {encode_go_json(requirement.key)}: {'; '.join(key_errors)}"
    if requirement.operator in ("In", "NotIn") and not values:
        yield "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    if requirement.operator in ("Exists", "DoesNotExist") and values:
        yield f"values: Invalid value: {encode_go_json(values)}: values set must be empty for exists and does not exist"
    for index, value in enumerate(values):
        if value_errors := find_label_value_errors(value):
            detail = "; ".join(value_errors)
            yield f"values[{index}][{requirement.key}]: Invalid value: {encode_go_json(value)}: {detail}"
