"""Label selectors, read once and asked often.

Source: LabelSelectorAsSelector in apimachinery pkg/apis/meta/v1/helpers.go, and pkg/labels/selector.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from webhook.accounting.label_rules import find_label_value_errors
from webhook.accounting.name_grammar import find_qualified_name_errors
from webhook.accounting.validation.printing import encode_go_json
from webhook.errors import TallygateError
from webhook.objects.selectors import LabelSelector, SelectorRequirement

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class SelectorError(TallygateError):
    """A label selector with a requirement that is none."""


class LabelCondition(NamedTuple):
    """What must be true of one label. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it is true of these labels. NotIn is true where there is no such label."""
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
    """Conditions that must all hold; None matches nothing at all, no condition everything."""

    conditions: tuple[LabelCondition, ...] | None

    @property
    def is_empty(self) -> bool:
        """Whether it restricts nothing (Selector.Empty)."""
        return self.conditions == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects what has these labels."""
        return self.conditions is not None and all(each.matches(labels) for each in self.conditions)

    def intersect(self, other: Selector) -> Selector:
        """What both match."""
        if self.conditions is None or other.conditions is None:
            return MATCH_NOTHING
        return Selector((*self.conditions, *other.conditions))


MATCH_NOTHING = Selector(None)
MATCH_EVERYTHING = Selector(())


def create_selector(labels: Mapping[str, str]) -> Selector:
    """What has all these labels, which may be anything (SelectorFromSet)."""
    return Selector(tuple(LabelCondition(key, "In", frozenset({value})) for key, value in labels.items()))


def parse_selector(label_selector: LabelSelector | None) -> Selector:
    """A selector as it is written; one that is absent matches nothing.

    Raises:
        SelectorError: one of its requirements is none, so that Kubernetes takes the whole for an error; in its words.
    """
    if label_selector is None:
        return MATCH_NOTHING
    requirements = tuple(_list_requirements(label_selector))
    for requirement in requirements:
        errors = tuple(_find_requirement_errors(requirement))
        if errors:
            raise SelectorError(join_errors(errors))
    return Selector(
        tuple(LabelCondition(each.key, each.operator, frozenset(each.values or ())) for each in requirements)
    )


def join_errors(errors: Sequence[str]) -> str:
    """Several faults as one (NewAggregate in apimachinery pkg/util/errors/errors.go)."""
    unique_errors = tuple(dict.fromkeys(errors))
    return unique_errors[0] if len(unique_errors) == 1 else f"[{', '.join(unique_errors)}]"


def _list_requirements(label_selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for key, value in (label_selector.match_labels or {}).items():
        yield SelectorRequirement(key, "In", [value])
    yield from label_selector.match_expressions or ()


def _find_requirement_errors(requirement: SelectorRequirement) -> Iterator[str]:
    """What keeps a requirement from being one (NewRequirement)."""
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
