"""Label selectors, read once and asked often.

Source: LabelSelectorAsSelector in apimachinery pkg/apis/meta/v1/helpers.go, and pkg/labels/selector.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from webhook.accounting.label_rules import label_value_faults
from webhook.accounting.name_grammar import qualified_name_faults
from webhook.accounting.validation.printing import printed
from webhook.errors import TallygateError
from webhook.objects.selectors import LabelSelector, Requirement

_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class SelectorError(TallygateError):
    """A label selector with a requirement that is none."""


class Condition(NamedTuple):
    """What must be true of one label. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
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

    conditions: tuple[Condition, ...] | None

    @property
    def is_empty(self) -> bool:
        """Whether it restricts nothing (Selector.Empty)."""
        return self.conditions == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects what has these labels."""
        return self.conditions is not None and all(each.holds(labels) for each in self.conditions)

    def narrowed(self, other: Selector) -> Selector:
        """What both match."""
        if self.conditions is None or other.conditions is None:
            return NOTHING
        return Selector((*self.conditions, *other.conditions))


NOTHING = Selector(None)
EVERYTHING = Selector(())


def having(labels: Mapping[str, str]) -> Selector:
    """What has all these labels, which may be anything (SelectorFromSet)."""
    return Selector(tuple(Condition(key, "In", frozenset({value})) for key, value in labels.items()))


def selector_of(written: LabelSelector | None) -> Selector:
    """A selector as it is written; one that is absent matches nothing.

    Raises:
        SelectorError: one of its requirements is none, so that Kubernetes takes the whole for an error; in its words.
    """
    if written is None:
        return NOTHING
    requirements = tuple(_requirements(written))
    for each in requirements:
        faults = tuple(_faults(each))
        if faults:
            raise SelectorError(listed(faults))
    return Selector(tuple(Condition(each.key, each.operator, frozenset(each.values or ())) for each in requirements))


def listed(faults: Sequence[str]) -> str:
    """Several faults as one (NewAggregate in apimachinery pkg/util/errors/errors.go)."""
    told = tuple(dict.fromkeys(faults))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def _requirements(written: LabelSelector) -> Iterator[Requirement]:
    for key, value in (written.match_labels or {}).items():
        yield Requirement(key, "In", [value])
    yield from written.match_expressions or ()


def _faults(requirement: Requirement) -> Iterator[str]:
    """What keeps a requirement from being one (NewRequirement)."""
    values = requirement.values or []
    if requirement.operator not in _OPERATORS:
        yield f"{printed(requirement.operator)} is not a valid label selector operator"
        return
    if key_faults := qualified_name_faults(requirement.key):
        yield f"key: Invalid value: {printed(requirement.key)}: {'; '.join(key_faults)}"
    if requirement.operator in ("In", "NotIn") and not values:
        yield "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    if requirement.operator in ("Exists", "DoesNotExist") and values:
        yield f"values: Invalid value: {printed(values)}: values set must be empty for exists and does not exist"
    for index, value in enumerate(values):
        if value_faults := label_value_faults(value):
            yield f"values[{index}][{requirement.key}]: Invalid value: {printed(value)}: {'; '.join(value_faults)}"
