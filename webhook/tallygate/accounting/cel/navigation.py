"""Fields and indexes of values (interpreter/attributes.go)."""

from __future__ import annotations

from tallygate.accounting.cel import runtime_values


def find_item(value: object, key: object) -> object:
    """Return the value of a field, a key or an index; of an optional value as an optional value.

    Raises:
        EvaluationError: if it is not there.
    """
    if isinstance(value, runtime_values.Optional):
        if not value.has_value:
            return runtime_values.NONE
        found = find_present(value.value, key)
        return runtime_values.NONE if found is runtime_values.MISSING else runtime_values.Optional(found)
    found = find_present(value, key)
    if found is runtime_values.MISSING:
        word = "index out of bounds" if isinstance(value, list) else "no such key"
        raise runtime_values.EvaluationError(f"{word}: {key}")
    return found


def find_present(value: object, key: object) -> object:
    """Return the value of a field, a key or an index, or `MISSING` if it is not there (refQualify).

    Raises:
        EvaluationError: if the key cannot be one, or cannot be one of a list.
    """
    if not is_key(key):
        raise runtime_values.EvaluationError(f"invalid qualifier type: {runtime_values.name_type(key)}")
    if isinstance(value, runtime_values.CelMap):
        return value.find(key)
    if isinstance(value, list):
        index = read_index(key)
        return value[index] if 0 <= index < len(value) else runtime_values.MISSING
    return runtime_values.MISSING


def is_key(key: object) -> bool:
    return isinstance(key, bool | int | float | str) and not isinstance(key, runtime_values.TypeValue)


def check_optional(optional: runtime_values.Optional) -> None:
    """Check an optional value that is the beginning of a path or a branch of a condition.

    Raises:
        UnsupportedValueError: if it is of a type of Kubernetes, which only newer versions convert.
    """
    if runtime_values.name_type(optional.value).startswith(("kubernetes.", "net.")):
        raise runtime_values.UnsupportedValueError(
            f"an optional {runtime_values.name_type(optional.value)} is not supported here"
        )


def is_present(value: object, key: str) -> bool:
    """Return whether a value has a field, as `has` tells."""
    if isinstance(value, runtime_values.Optional):
        return value.has_value and is_present(value.value, key)
    return find_present(value, key) is not runtime_values.MISSING


def read_index(key: object) -> int:
    """Return the index that a value is (IndexOrError)."""
    if isinstance(key, bool) or not isinstance(key, int | float):
        raise runtime_values.EvaluationError(f"unsupported index type '{runtime_values.name_type(key)}' in list")
    if isinstance(key, float) and not (key.is_integer() and runtime_values.INT64_MIN <= key < runtime_values.INT64_MAX):
        raise runtime_values.EvaluationError(f"unsupported index value {key} in list")
    if key > runtime_values.INT64_MAX:
        raise runtime_values.EvaluationError(f"unsupported index value {key} in list")
    return int(key)
