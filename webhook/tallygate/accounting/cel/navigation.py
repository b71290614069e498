"""Fields and indexes of values (interpreter/attributes.go)."""

from __future__ import annotations

from tallygate.accounting.cel.runtime_values import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    NONE,
    CelMap,
    EvaluationError,
    Optional,
    TypeValue,
    UnsupportedValueError,
    name_type,
)


def find_item(value: object, key: object) -> object:
    """Return the value of a field, a key or an index; of an optional value as an optional value.

    Raises:
        EvaluationError: if it is not there.
    """
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        found = find_present(value.value, key)
        return NONE if found is MISSING else Optional(found)
    found = find_present(value, key)
    if found is MISSING:
        word = "index out of bounds" if isinstance(value, list) else "no such key"
        raise EvaluationError(f"{word}: {key}")
    return found


def find_present(value: object, key: object) -> object:
    """Return the value of a field, a key or an index, or `MISSING` if it is not there (refQualify).

    Raises:
        EvaluationError: if the key cannot be one, or cannot be one of a list.
    """
    if not is_key(key):
        raise EvaluationError(f"invalid qualifier type: {name_type(key)}")
    if isinstance(value, CelMap):
        return value.find(key)
    if isinstance(value, list):
        index = read_index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def is_key(key: object) -> bool:
    """Return whether a value can be a key or an index."""
    return isinstance(key, bool | int | float | str) and not isinstance(key, TypeValue)


def check_optional(optional: Optional) -> None:
    """Check an optional value that is the beginning of a path or a branch of a condition.

    Raises:
        UnsupportedValueError: if it is of a type of Kubernetes, which only newer versions convert.
    """
    if name_type(optional.value).startswith(("kubernetes.", "net.")):
        raise UnsupportedValueError(f"an optional {name_type(optional.value)} is not supported here")


def is_present(value: object, key: str) -> bool:
    """Return whether a value has a field, as `has` tells."""
    if isinstance(value, Optional):
        return value.has_value and is_present(value.value, key)
    return find_present(value, key) is not MISSING


def read_index(key: object) -> int:
    """Return the index that a value is (IndexOrError)."""
    if isinstance(key, bool) or not isinstance(key, int | float):
        raise EvaluationError(f"unsupported index type '{name_type(key)}' in list")
    if isinstance(key, float) and not (key.is_integer() and INT64_MIN <= key < INT64_MAX):
        raise EvaluationError(f"unsupported index value {key} in list")
    if key > INT64_MAX:
        raise EvaluationError(f"unsupported index value {key} in list")
    return int(key)
