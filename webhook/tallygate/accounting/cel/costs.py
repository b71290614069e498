"""Costs of calls (interpreter/runtimecost.go, ext/{lists,sets}.go; CallCost in pkg/cel/library/cost.go)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tallygate.accounting.cel.runtime_values import CelMap, TypeValue, measure_size, name_type
from tallygate.accounting.cel.semantic_version import SemanticVersion
from tallygate.accounting.cel.syntax import Call
from tallygate.accounting.quantity import Quantity

LIST_COST: Final = 10
MAP_COST: Final = 30
_PER_CHARACTER = 0.1
_PER_PATTERN_CHARACTER = 0.25
_LARGE_RESULT = 10_000

Measure = Callable[[Sequence[object], object], int]
"""The cost of a call from its arguments and its result."""


def find_cost(node: Call) -> Measure | None:
    """Return the cost of a call, or None if it is always 1."""
    name = node.function
    if name == "matches" and node.target is None:
        return None
    measure = _BY_OVERLOAD.get(name) if node.overload is not None else None
    return measure or _BY_FUNCTION.get(name)


def _count_traversal(size: float) -> int:
    return math.ceil(size * _PER_CHARACTER)


def measure_comparison(arguments: Sequence[object], _: object) -> int:
    """Return the cost of comparing two values."""
    left, right = arguments
    if type(left) is str and type(right) is str:
        return (min(len(left), len(right)) + 9) // 10
    return _count_traversal(min(measure_size(arguments[0]), measure_size(arguments[1])))


def measure_equality(arguments: Sequence[object], result: object) -> int:
    """Return the cost of `==`."""
    if type(arguments[0]) is str:
        return measure_comparison(arguments, result)
    if isinstance(arguments[0], Quantity | SemanticVersion) or name_type(arguments[0]).startswith("net."):
        return 1
    return measure_comparison(arguments, result)


def _measure_order(arguments: Sequence[object], result: object) -> int:
    is_text = isinstance(arguments[0], str | bytes) and not isinstance(arguments[0], TypeValue)
    return measure_comparison(arguments, result) if is_text else 1


def _measure_sum(arguments: Sequence[object], _: object) -> int:
    if isinstance(arguments[0], str | bytes):
        return _count_traversal(measure_size(arguments[0]) + measure_size(arguments[1]))
    return 1


def _measure_target(arguments: Sequence[object], _: object) -> int:
    return _count_traversal(measure_size(arguments[0]))


def _measure_text_conversion(arguments: Sequence[object], result: object) -> int:
    return _measure_target(arguments, result) if type(arguments[0]) is not type(result) else 1


def _measure_rewriting(arguments: Sequence[object], result: object) -> int:
    cost = _count_traversal(measure_size(arguments[0]) * 2)
    size = measure_size(result)
    return max(cost, _count_traversal(size)) if size > _LARGE_RESULT else cost


def _measure_pattern(arguments: Sequence[object], _: object) -> int:
    return _count_traversal(1 + measure_size(arguments[0])) * math.ceil(
        measure_size(arguments[1]) * _PER_PATTERN_CHARACTER
    )


def _measure_contains(arguments: Sequence[object], _: object) -> int:
    return _count_traversal(measure_size(arguments[0])) * _count_traversal(measure_size(arguments[1]))


def _measure_traversal(arguments: Sequence[object], _: object) -> int:
    return _traverse(arguments[0])


def _traverse(value: object) -> int:
    """Return the cost of reading a value with all its parts (traversalCost)."""
    if isinstance(value, str) and not isinstance(value, TypeValue):
        return int(len(value.encode()) * _PER_CHARACTER)
    if isinstance(value, bytes):
        return int(len(value) * _PER_CHARACTER)
    if isinstance(value, list):
        return sum(map(_traverse, value))
    if isinstance(value, CelMap):
        return sum(_traverse(key) + _traverse(value.find(key)) for key in value.list_keys())
    return 1


def _measure_flattening(arguments: Sequence[object], result: object) -> int:
    depth = arguments[1] if len(arguments) > 1 else 1
    assert isinstance(depth, int)  # noqa: S101
    cost = int(measure_size(arguments[0]) * float(depth)) + LIST_COST + 1
    return max(cost, measure_size(result))


def _measure_self_comparison(arguments: Sequence[object], _: object) -> int:
    values = arguments[-1]
    size = measure_size(values)
    is_text = isinstance(values, list) and bool(values) and isinstance(values[0], str | bytes)
    return int(size * size * (2 + _PER_CHARACTER if is_text else 2)) + LIST_COST + 1


def _measure_product(arguments: Sequence[object], _: object) -> int:
    return 1 + measure_size(arguments[0]) * measure_size(arguments[1])


def _measure_prefix(network: object) -> int:
    return math.ceil(getattr(network, "length", 8) / 8)


def _measure_address_containment(arguments: Sequence[object], _: object) -> int:
    return _count_traversal(_measure_prefix(arguments[0]) * 2)


def _measure_network_containment(arguments: Sequence[object], result: object) -> int:
    more = _count_traversal(_measure_prefix(arguments[0])) + 1
    return _measure_address_containment(arguments, result) + more


def _measure_parsed_address(arguments: Sequence[object], result: object) -> int:
    return _measure_address_containment(arguments, result) + _measure_parsing(arguments[1])


def _measure_parsed_network(arguments: Sequence[object], result: object) -> int:
    return _measure_network_containment(arguments, result) + _measure_parsing(arguments[1])


def _measure_parsing(value: object) -> int:
    return _count_traversal(len(value)) if isinstance(value, str) else 0


_BY_FUNCTION: Final[Mapping[str, Measure]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _measure_traversal),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _measure_target),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver", "cidr", "isIP", "isCIDR"), _measure_target),
    **dict.fromkeys(("replace", "split"), _measure_rewriting),
    **dict.fromkeys(("find", "findAll"), _measure_pattern),
    "join": lambda _, result: _count_traversal(measure_size(result) * 2),
    "ip": lambda arguments, result: _measure_target(arguments, result) if isinstance(arguments[0], str) else 1,
    "ip.isCanonical": lambda arguments, _: _count_traversal(measure_size(arguments[0]) * 2),
    "containsIP": _measure_address_containment,
    "containsCIDR": _measure_network_containment,
}
_BY_OVERLOAD: Final[Mapping[str, Measure]] = {
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote"), _measure_target),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _measure_order),
    **dict.fromkeys(("slice", "lists.range", "reverse"), lambda _, result: measure_size(result) + LIST_COST + 1),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _measure_self_comparison),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _measure_product),
    "sets.equivalent": lambda arguments, _: 1 + measure_size(arguments[0]) * measure_size(arguments[1]) * 2,
    "flatten": _measure_flattening,
    "_+_": _measure_sum,
    "@in": lambda arguments, _: measure_size(arguments[1]) if isinstance(arguments[1], list) else 1,
    "contains": _measure_contains,
    "containsIP": _measure_parsed_address,
    "containsCIDR": _measure_parsed_network,
    "matches": _measure_pattern,
    "bytes": _measure_text_conversion,
    "string": lambda arguments, result: _measure_target(arguments, result) if isinstance(arguments[0], bytes) else 1,
}
