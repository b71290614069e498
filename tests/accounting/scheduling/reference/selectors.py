"""Label selectors (apimachinery pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go, v0.36.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.accounting.scheduling.reference.objects import Json, Labels

_INT64 = 2**63
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_LONGEST_SUBDOMAIN = 253


class SelectorError(Exception):
    """A requirement that NewRequirement rejects."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Implement Requirement.Matches."""
        present = self.key in labels
        match self.operator:
            case "In":
                return present and labels[self.key] in self.values
            case "NotIn":
                return not present or labels[self.key] not in self.values
            case "Exists":
                return present
            case "DoesNotExist":
                return not present
        return present and self._compares(parse_integer(labels[self.key]))

    def _compares(self, label: int | None) -> bool:
        """Compare for Gt and Lt; a label that is not an integer matches neither."""
        bound = parse_integer(self.values[0])
        if label is None or bound is None:
            return False
        return label > bound if self.operator == "Gt" else label < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """labels.Selector: a conjunction of requirements. None for requirements is Nothing()."""

    requirements: tuple[Requirement, ...] | None

    @property
    def is_empty(self) -> bool:
        """Selector.Empty: it restricts nothing."""
        return self.requirements == ()

    def matches(self, labels: Labels) -> bool:
        """Implement Selector.Matches."""
        return self.requirements is not None and all(each.matches(labels) for each in self.requirements)


NOTHING = Selector(None)


def parse_label_selector(selector: Json | None) -> Selector:
    """Implement LabelSelectorAsSelector.

    Raises:
        SelectorError: if one of its requirements is invalid.
    """
    if selector is None:
        return NOTHING
    exact = [parse_requirement(key, "In", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    return Selector((*exact, *parse_requirements(selector.get("matchExpressions") or [])))


def create_selector(labels: Labels) -> Selector:
    """Implement SelectorFromSet, which validates nothing."""
    return Selector(tuple(Requirement(key, "In", (value,)) for key, value in labels.items()))


def parse_requirements(expressions: Iterable[Json]) -> tuple[Requirement, ...]:
    """Parse the expressions of a label or node selector.

    Raises:
        SelectorError: if one of them is invalid.
    """
    return tuple(parse_requirement(each["key"], each["operator"], each.get("values") or []) for each in expressions)


def parse_requirement(key: str, operator: str, values: list[str]) -> Requirement:
    """Implement NewRequirement.

    Raises:
        SelectorError: if the operator does not suit the values, or the key or a value is not valid for labels.
    """
    takes_values = {"In": len(values) > 0, "NotIn": len(values) > 0, "Exists": not values, "DoesNotExist": not values}
    is_compared = len(values) == 1 and parse_integer(values[0]) is not None
    if not (takes_values | {"Gt": is_compared, "Lt": is_compared}).get(operator, False):
        raise SelectorError(f"{key} {operator} {values}")
    if not _is_label_key(key) or not all(_is_label_value(each) for each in values):
        raise SelectorError(f"{key} {operator} {values}")
    return Requirement(key, operator, tuple(values))


def parse_integer(text: str) -> int | None:
    """Implement strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _is_label_key(key: str) -> bool:
    """Implement IsLabelKey in pkg/api/validate/content/kube.go."""
    prefix, slash, name = key.rpartition("/")
    is_prefixed = len(prefix) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(prefix) is not None
    return _NAME.fullmatch(name) is not None and (not slash or is_prefixed)


def _is_label_value(value: str) -> bool:
    """Implement IsValidLabelValue."""
    return not value or _NAME.fullmatch(value) is not None
