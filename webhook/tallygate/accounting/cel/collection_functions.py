"""Functions of lists, sets and optional values (ext/{lists,sets}.go, cel/library.go, library/lists.go)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tallygate.accounting.cel import runtime_values

_MAX_INCLUDED = 64
_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)


def _require_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise runtime_values.EvaluationError("no such overload")
    return value


def _require_int(value: object) -> int:
    if type(value) is not int:
        raise runtime_values.EvaluationError("no such overload")
    return value


def _slice(values: object, start: object, end: object) -> object:
    items, first, last = _require_list(values), _require_int(start), _require_int(end)
    if not 0 <= first <= last <= len(items):
        raise runtime_values.EvaluationError(f"cannot slice({first}, {last}), list is length {len(items)}")
    return items[first:last]


def _flatten(values: object, *depths: object) -> object:
    depth = _require_int(depths[0]) if depths else 1
    items = _require_list(values)
    if depth < 0 and items:
        raise runtime_values.AbortedEvaluationError(
            "operation cancelled: actual cost limit exceeded"
        )  # a negative cost, in 64 bits
    if depth < 0:
        raise runtime_values.EvaluationError("level must be non-negative")
    while depth and any(isinstance(item, list) for item in items):
        flat: list[object] = []
        for item in items:
            flat.extend(item if isinstance(item, list) else [item])
        runtime_values.check_length(len(flat))
        items = flat
        depth -= 1
    return items


def _list_range(count: object) -> object:
    if _require_int(count) < 0:
        raise runtime_values.UnsupportedValueError(
            "lists.range() of a negative number is not supported"
        )  # 1.37 has an error there
    runtime_values.check_length(_require_int(count))
    return list(range(_require_int(count)))


def _keep_distinct(values: object) -> object:
    distinct: list[object] = []
    for value in _require_list(values):
        if not runtime_values.is_list_member(value, distinct):
            distinct.append(value)
    return distinct


def _sort(values: object) -> object:
    return _sort_by_keys(values, values)


def _sort_by_keys(values: object, keys: object) -> object:
    """Return the values in the order of their keys, which must be of one type."""
    items, ranks = _require_list(values), _require_list(keys)
    if not items:
        return items
    if len({type(rank) for rank in ranks}) > 1:
        raise runtime_values.EvaluationError("list elements must have the same type")
    _require_ordered(ranks[0])
    pairs = sorted(zip(ranks, items, strict=True), key=functools.cmp_to_key(_compare_pairs))
    return [item for _, item in pairs]


def _compare_pairs(left: tuple[object, object], right: tuple[object, object]) -> int:
    """Return the order of two keys; of values with equal keys, Go does not define which comes first."""
    order = _compare_elements(left[0], right[0])
    if order == 0 and not runtime_values.is_same(left[1], right[1]):
        raise runtime_values.UnsupportedValueError("the order of values with equal keys is not defined")
    return order


def _require_ordered(value: object) -> None:
    if not isinstance(value, bool | int | float | str | bytes) or isinstance(value, runtime_values.TypeValue):
        raise runtime_values.EvaluationError("no such overload")


def _compare_elements(left: object, right: object) -> int:
    """Return the order of two elements; cel-go passes over those that have no order."""
    try:
        return runtime_values.compare_values(left, right)
    except runtime_values.EvaluationError as error:
        raise runtime_values.UnsupportedValueError("elements without an order are not supported") from error


def _is_sorted(values: object) -> object:
    items = _require_list(values)
    if items:
        _require_ordered(items[0])
    return all(_compare_elements(left, right) <= 0 for left, right in itertools.pairwise(items))


def sum_values(values: object, zero: float = 0) -> object:
    """Return the sum of numbers of one type, beginning with its zero."""
    items = _require_list(values)
    kind = type(items[0]) if items else type(zero)
    if kind not in {int, runtime_values.Uint, float} or any(type(item) is not kind for item in items):
        raise runtime_values.EvaluationError("no such overload")
    total = zero
    for item in items:
        assert isinstance(item, int | float)  # noqa: S101
        total += item
        if kind is not float and int(total) not in (_UINT64 if kind is runtime_values.Uint else _INT64):
            raise runtime_values.EvaluationError("integer overflow")
    if kind is float:
        return float(total)
    return runtime_values.Uint(total) if kind is runtime_values.Uint else int(total)


def _choose(values: object, sign: int, name: str) -> object:
    items = _require_list(values)
    if not items:
        raise runtime_values.EvaluationError(f"{name} called on empty list")
    chosen = items[0]
    _require_ordered(chosen)
    for item in items[1:]:
        if _compare_elements(chosen, item) == sign:
            chosen = item
    return chosen


def _includes(target: object, item: object) -> object:
    """Return whether a list has an item, or another value equals it (includesFunc in compile.go)."""
    if not isinstance(target, list):
        return runtime_values.is_same(target, item)
    for place, value in enumerate(target):
        if place >= _MAX_INCLUDED:
            raise runtime_values.EvaluationError(
                f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDED} values"
            )
        if runtime_values.is_same(value, item):
            return True
    return False


def _contains_all(values: object, wanted: object) -> object:
    items = _require_list(values)
    return all(runtime_values.is_list_member(value, items) for value in _require_list(wanted))


def _intersect(left: object, right: object) -> object:
    items = _require_list(right)
    return any(runtime_values.is_list_member(value, items) for value in _require_list(left))


def _require_optional(value: object) -> runtime_values.Optional:
    if not isinstance(value, runtime_values.Optional):
        raise runtime_values.EvaluationError("no such overload")
    return value


def _make_nonzero(value: object) -> object:
    """Return an optional value, which has no value for zeros and empty values (Zeroer.IsZeroValue)."""
    if isinstance(value, runtime_values.TypeValue | runtime_values.Optional):
        return runtime_values.Optional(value)
    if value is None or (
        isinstance(value, bool | int | float | str | bytes | list | runtime_values.CelMap) and not value
    ):
        return runtime_values.NONE
    return runtime_values.Optional(value)


def _get_value(optional: object) -> object:
    found = _require_optional(optional)
    if not found.has_value:
        raise runtime_values.EvaluationError("optional.none() dereference")
    return found.value


def _get_last(values: object) -> object:
    items = _require_list(values)
    return runtime_values.Optional(items[-1]) if items else runtime_values.NONE


def _get_first(values: object) -> object:
    items = _require_list(values)
    return runtime_values.Optional(items[0]) if items else runtime_values.NONE


def _unwrap(values: object) -> object:
    optionals: Sequence[runtime_values.Optional] = [_require_optional(value) for value in _require_list(values)]
    return [optional.value for optional in optionals if optional.has_value]


COLLECTION_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "@sortByAssociatedKeys": _sort_by_keys,
    "distinct": _keep_distinct,
    "first": _get_first,
    "flatten": _flatten,
    "hasValue": lambda optional: _require_optional(optional).has_value,
    "includes": _includes,
    "isSorted": _is_sorted,
    "last": _get_last,
    "lists.range": _list_range,
    "max": lambda values: _choose(values, -1, "max"),
    "min": lambda values: _choose(values, 1, "min"),
    "optional.none": lambda: runtime_values.NONE,
    "optional.of": runtime_values.Optional,
    "optional.ofNonZeroValue": _make_nonzero,
    "optional.unwrap": _unwrap,
    "reverse": lambda values: _require_list(values)[::-1],
    "sets.contains": _contains_all,
    "sets.equivalent": lambda left, right: bool(_contains_all(left, right)) and _contains_all(right, left),
    "sets.intersects": _intersect,
    "slice": _slice,
    "sort": _sort,
    "sum": sum_values,
    "unwrapOpt": _unwrap,
    "value": _get_value,
}
