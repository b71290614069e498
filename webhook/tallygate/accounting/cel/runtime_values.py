"""Values of expressions, their equality and their order (common/types of cel-go).

A value is a bool, an int, a float, a str, bytes, None, a list, or one of: `Uint`, `CelMap`, `Optional`, `TypeValue`,
`Quantity`, `SemanticVersion` and the addresses and networks of `ipaddress`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tallygate.accounting.cel.semantic_version import SemanticVersion
from tallygate.accounting.quantity import Quantity
from tallygate.errors import TallygateError

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1
MAX_LENGTH: Final = 1_000_000
"""The length of a string or a list that an evaluation makes."""


class EvaluationError(TallygateError):
    """An expression has no result for a value; `is_unsupported` is true where Kubernetes has one."""

    is_unsupported = False


class UnsupportedValueError(EvaluationError):
    """Kubernetes has a result, and this package has not."""

    is_unsupported = True


def select_failure(failure: EvaluationError | None, error: EvaluationError) -> EvaluationError:
    """Return the failure of joined terms after one more error: the first one, unless a value is not supported."""
    return error if failure is None or isinstance(error, UnsupportedValueError) else failure


class AbortedEvaluationError(TallygateError):
    """An evaluation ends without a result, and nothing in the expression makes up for that."""

    def __init__(self, message: str, *, is_unsupported: bool = False) -> None:
        super().__init__(message)
        self.is_unsupported = is_unsupported


class Uint(int):
    """An unsigned integer; it equals an int of the same number."""

    __slots__ = ()


class TypeValue(str):
    """A type as a value, by its name."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


class QuantityResult(Quantity):
    """A quantity that was added up; cel-go fails to compare one that is on the right side of `==`."""

    __slots__ = ()


class Optional:
    """A value that can be absent; without one it is `NONE`."""

    __slots__ = ("has_value", "value")

    def __init__(self, value: object, *, has_value: bool = True) -> None:
        self.value = value
        self.has_value = has_value


NONE: Final = Optional(None, has_value=False)
MISSING: Final = object()
"""The result of a search that finds nothing."""


class CelMap:
    """A map, whose keys are bools, ints, uints and strings; a double finds the integer that it equals.

    `default` is found for every key that is not there, if it is set; but it is not a part of the map. `is_published` is
    true for maps of a device, which cel-go searches in another way.
    """

    __slots__ = ("default", "entries", "is_published")

    def __init__(self, entries: dict[object, object], default: object = MISSING, *, is_published: bool = False) -> None:
        self.entries = entries
        self.default = default
        self.is_published = is_published

    def find(self, key: object) -> object:
        found = self.get_own(key)
        return self.default if found is MISSING else found

    def get_own(self, key: object) -> object:
        """Return the value of a key that is a part of the map, or `MISSING`."""
        try:
            return self.entries.get(_encode_key(key), MISSING)
        except TypeError:  # not hashable
            return MISSING

    def insert(self, key: object, value: object) -> None:
        """Add an entry, or replace it.

        Raises:
            UnsupportedValueError: if the key is of a type that cannot be a key here, or equals one of another type.
        """
        if not isinstance(key, bool | int | str) or isinstance(key, TypeValue):
            raise UnsupportedValueError(f"keys of type {name_type(key)} are not supported")
        encoded = _encode_key(key)
        if encoded in self.entries and any(
            type(own_key) is not type(key) and own_key == key for own_key in self.list_keys()
        ):
            raise UnsupportedValueError("equal keys of different types are not supported")
        self.entries[encoded] = value

    def has_own(self, key: object) -> bool:
        return self.get_own(key) is not MISSING

    def remove(self, key: object) -> None:
        """Remove an entry, if there is one."""
        self.entries.pop(_encode_key(key), None)

    def list_keys(self) -> Iterator[object]:
        for key in self.entries:
            yield key[0] if isinstance(key, tuple) else key

    def __len__(self) -> int:
        return len(self.entries)


def _encode_key(key: object) -> object:
    """Return a key that Python finds equal to the same keys as cel-go: a bool equals no number there."""
    if isinstance(key, bool):
        return (key,)
    return MISSING if isinstance(key, TypeValue) or key is None else key


_NAMES: Final = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    CelMap: "map",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    QuantityResult: "kubernetes.Quantity",
    SemanticVersion: "kubernetes.Semver",
}


def name_type(value: object) -> str:
    """Return the name of the type of a value."""
    return _NAMES.get(type(value)) or ("net.CIDR" if hasattr(value, "interface") else "net.IP")


def are_equal(left: object, right: object) -> bool:
    """Return whether two values are equal.

    Raises:
        EvaluationError: if the first one is a quantity, a version or an address, and the second one is of another type.
    """
    if type(left) is str:
        return type(right) is str and left == right
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right if type(left) in _PLAIN else _fail_unless_same(left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return compare_numbers(left, right) == 0
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_agree, left, right))
    if isinstance(left, CelMap):
        return isinstance(right, CelMap) and _are_maps_equal(left, right)
    if isinstance(left, Optional):
        return _are_optionals_equal(left, right)
    if type(left) in _PLAIN:
        return type(left) is type(right) and left == right
    return _fail_unless_same(left, right)


_PLAIN = {bool, int, Uint, float, str, bytes, TypeValue, list, CelMap, Optional}


def _fail_unless_same(left: object, right: object) -> bool:
    """Compare two values that equal only values of their type."""
    if name_type(left) != name_type(right) or isinstance(right, QuantityResult):
        raise EvaluationError("no such overload")
    return left == right


def _agree(left: object, right: object) -> bool:
    """Return whether two elements do not differ: those that cannot be compared do not (baseList.Equal)."""
    try:
        return are_equal(left, right)
    except EvaluationError:
        return True


def _are_maps_equal(left: CelMap, right: CelMap) -> bool:
    """Compare two maps (baseMap.Equal)."""
    if len(left) != len(right):
        return False
    for key in left.list_keys():
        found = right.find(key)
        if found is MISSING or not _agree(left.find(key), found):
            return False
    return True


def _are_optionals_equal(left: Optional, right: object) -> bool:
    """Compare an optional value with another value (Optional.Equal)."""
    if not isinstance(right, Optional):
        return False
    if not (left.has_value and right.has_value):
        return left.has_value == right.has_value
    return are_equal(left.value, right.value)


def compare_numbers(left: float, right: float) -> int | None:
    """Return -1, 0 or 1, or None if one is not a number; an int and a double are compared as doubles (compare.go)."""
    if isinstance(left, float) != isinstance(right, float):
        left, right = _clamp(left, right), _clamp(right, left)
    if math.isnan(left) or math.isnan(right):
        return None
    return (left > right) - (left < right)


def _clamp(number: float, other: float) -> float:
    """Return an integer as the double that it is compared as; a double beyond the other type's range stays as it is."""
    if not isinstance(number, int):
        return number
    limits = (0, UINT64_MAX) if isinstance(number, Uint) else (INT64_MIN, INT64_MAX)
    return number if not float(limits[0]) <= other <= float(limits[1]) else float(number)


def compare_values(left: object, right: object) -> int:
    """Return -1, 0 or 1.

    Raises:
        EvaluationError: if the values have no order.
    """
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    is_bool = isinstance(left, bool) or isinstance(right, bool)
    if isinstance(left, int | float) and isinstance(right, int | float) and not is_bool:
        order = compare_numbers(left, right)
        if order is None:
            raise EvaluationError("NaN values cannot be ordered")
        return order
    if type(left) is str and type(right) is str:
        return (left > right) - (left < right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return (left > right) - (left < right)
    raise EvaluationError("no such overload")


def is_list_member(item: object, items: list[object]) -> bool:
    """Return whether an element of a list equals an item; one that cannot be compared does not (baseList.Contains)."""
    return any(is_same(item, other) for other in items)


def is_same(left: object, right: object) -> bool:
    """Return whether two values can be compared and are equal."""
    try:
        return are_equal(left, right)
    except EvaluationError:
        return False


def check_length(length: int) -> None:
    """Check the length of a value that is about to be made.

    Raises:
        UnsupportedValueError: if it is larger than any that a selector needs.
    """
    if length > MAX_LENGTH:
        raise UnsupportedValueError(f"a value of more than {MAX_LENGTH} characters or elements is not supported")


def measure_size(value: object) -> int:
    """Return the size for costs: characters, elements or entries; 1 for a value without a size."""
    if isinstance(value, str | bytes | list | CelMap) and not isinstance(value, TypeValue):
        return len(value)
    if isinstance(value, Optional) and value.has_value:
        return measure_size(value.value)
    return 1
