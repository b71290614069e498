"""Sets of namespaces by their labels, as label selectors describe them, and a division of such sets into disjoint ones.

A set has one condition for each label key: the values that the label may have, and whether it may be missing. So two
sets are compared key by key, and the answer is exact. The semantics are those of Kubernetes (apimachinery
pkg/labels/selector.go, Requirement.Matches, v1.36): `NotIn` and `DoesNotExist` match namespaces without the label.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tallygate.objects.meta import LabelSelector, SelectorRequirement
from tallygate.policy.selectors import Operator, PolicyLabelSelector


class LabelValues(NamedTuple):
    """The states of one label: these values, or all others if it is a `complement`; and `missing` if it may be."""

    values: tuple[str, ...] = ()
    is_complement: bool = False
    may_be_missing: bool = False


NamespaceSet = tuple[tuple[str, LabelValues], ...]
"""The states that each label must have, sorted by its key; a label that is not listed may have any."""

EVERY_NAMESPACE: NamespaceSet = ()
"""The set of all namespaces."""

_ANYTHING = LabelValues((), is_complement=True, may_be_missing=True)
_PRESENT = LabelValues((), is_complement=True)
_MISSING = LabelValues((), may_be_missing=True)


def create_namespace_set(selector: PolicyLabelSelector | None, present: str = "") -> NamespaceSet | None:
    """Return the set of a policy's selector, whose namespaces have the label `present`, too; None if it is empty."""
    requirements: list[tuple[str, LabelValues]] = [(present, _PRESENT)] if present else []
    if selector is not None:
        requirements += [(key, LabelValues((value,))) for key, value in selector.match_labels.items()]
        requirements += [(each.key, _create_values(each.operator, each.values)) for each in selector.match_expressions]
    return _create_set(requirements)


def read_namespace_set(selector: LabelSelector) -> NamespaceSet | None:
    """Return the set of a stored selector, without requirements with an unknown operator; None if it is empty."""
    requirements = [(key, LabelValues((value,))) for key, value in (selector.match_labels or {}).items()]
    requirements += [
        (each.key, _create_values(Operator(each.operator), each.values or ()))
        for each in selector.match_expressions or ()
        if each.operator in set(Operator)
    ]
    return _create_set(requirements)


def format_requirements(namespaces: NamespaceSet) -> list[SelectorRequirement]:
    """Return the requirements of a selector of a set."""
    return [requirement for key, values in namespaces for requirement in _format_values(key, values)]


def intersect(first: NamespaceSet, second: NamespaceSet) -> NamespaceSet | None:
    """Return the set of the namespaces in both; None if no labels are in both."""
    return _create_set((*first, *second))


def subtract(whole: NamespaceSet, part: NamespaceSet) -> Iterator[NamespaceSet]:
    """Yield disjoint sets that have together the namespaces of `whole` which are not in `part`."""
    if intersect(whole, part) is None:
        yield whole
        return
    rest = whole
    for key, values in part:
        for others in _list_others(values):
            outside = intersect(rest, ((key, others),))
            if outside is not None:
                yield outside
        rest = intersect(rest, ((key, values),)) or rest


def subtract_all(whole: NamespaceSet, parts: Iterable[NamespaceSet]) -> tuple[NamespaceSet, ...]:
    """Return disjoint sets that have together the namespaces of `whole` which are in none of the `parts`."""
    pieces: tuple[NamespaceSet, ...] = (whole,)
    for part in parts:
        pieces = tuple(outside for piece in pieces for outside in subtract(piece, part))
    return pieces


def find_only_values(namespaces: NamespaceSet) -> tuple[str, tuple[str, ...]] | None:
    """Return the key and the values of a set that one requirement with `In` describes; None for another one."""
    if len(namespaces) != 1:
        return None
    ((key, values),) = namespaces
    return None if values.is_complement or values.may_be_missing else (key, values.values)


def create_value_set(key: str, values: Iterable[str]) -> NamespaceSet:
    """Return the set of the namespaces in which a label has one of these values."""
    return ((key, LabelValues(tuple(sorted(set(values))))),)


def _create_set(requirements: Iterable[tuple[str, LabelValues]]) -> NamespaceSet | None:
    by_key: dict[str, LabelValues] = {}
    for key, values in requirements:
        by_key[key] = _intersect_values(by_key.get(key, _ANYTHING), values)
    if any(values == LabelValues() for values in by_key.values()):
        return None
    return tuple(sorted((key, values) for key, values in by_key.items() if values != _ANYTHING))


def _create_values(operator: Operator, values: Iterable[str]) -> LabelValues:
    match operator:
        case Operator.IN:
            return LabelValues(tuple(sorted(set(values))))
        case Operator.NOT_IN:
            return _ANYTHING._replace(values=tuple(sorted(set(values))))
        case Operator.EXISTS:
            return _PRESENT
        case Operator.DOES_NOT_EXIST:
            return _MISSING


def _intersect_values(first: LabelValues, second: LabelValues) -> LabelValues:
    ours, theirs = set(first.values), set(second.values)
    if first.is_complement and second.is_complement:
        values = ours | theirs
    elif first.is_complement:
        values = theirs - ours
    else:
        values = ours - theirs if second.is_complement else ours & theirs
    return LabelValues(
        tuple(sorted(values)),
        is_complement=first.is_complement and second.is_complement,
        may_be_missing=first.may_be_missing and second.may_be_missing,
    )


def _list_others(values: LabelValues) -> Iterator[LabelValues]:
    """Yield the other states of a label, each as requirements can describe them."""
    others = LabelValues(values.values, not values.is_complement, not values.may_be_missing)
    if others.may_be_missing and not others.is_complement and others.values:
        yield _MISSING
        yield others._replace(may_be_missing=False)
    else:
        yield others


def _format_values(key: str, values: LabelValues) -> Iterator[SelectorRequirement]:
    """Yield the requirements for the states of a label that `_list_others` and intersections of requirements have."""
    if not values.is_complement:
        operator = Operator.DOES_NOT_EXIST if values.may_be_missing else Operator.IN
        yield SelectorRequirement(key, operator.value, list(values.values) or None)
        return
    if not values.may_be_missing:
        yield SelectorRequirement(key, Operator.EXISTS.value)
    if values.values:
        yield SelectorRequirement(key, Operator.NOT_IN.value, list(values.values))
