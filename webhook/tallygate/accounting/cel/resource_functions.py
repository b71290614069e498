"""Functions of quantities and versions (pkg/cel/library/{quantity,semverlib}.go of Kubernetes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tallygate.accounting.cel.runtime_values import (
    INT64_MAX,
    INT64_MIN,
    EvaluationError,
    QuantityResult,
    UnsupportedValueError,
)
from tallygate.accounting.cel.semantic_version import SemanticVersion, normalize_version, parse_version
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError, QuantityTooLargeError

_STEP = 32


def _require_text(value: object) -> str:
    if type(value) is not str:
        raise EvaluationError("no such overload")
    return value


def _require_quantity(value: object) -> Quantity:
    if not isinstance(value, Quantity):
        raise EvaluationError("no such overload")
    return value


def _parse_quantity(text: object) -> object:
    try:
        return Quantity.parse(_require_text(text))
    except QuantityTooLargeError as error:
        raise UnsupportedValueError(str(error)) from error
    except QuantityError as error:
        raise EvaluationError(str(error)) from error


def _is_quantity(text: object) -> object:
    try:
        Quantity.parse(_require_text(text))
    except QuantityTooLargeError as error:
        raise UnsupportedValueError(str(error)) from error
    except QuantityError:
        return False
    return True


def _compare(left: object, right: object) -> object:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left > right) - (left < right)
    if isinstance(left, SemanticVersion) and isinstance(right, SemanticVersion):
        return (left > right) - (left < right)
    raise EvaluationError("no such overload")


def _to_integer(value: object) -> int | None:
    """Return a quantity as an int64, or None if Kubernetes does not represent it as a whole one (AsInt64)."""
    quantity = _require_quantity(value)
    if quantity.is_decimal or quantity.scale < 0:
        return None
    number = quantity.mantissa * 10**quantity.scale
    return number if INT64_MIN <= number <= INT64_MAX else None


def _as_integer(value: object) -> object:
    number = _to_integer(value)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _as_float(value: object) -> object:
    """Return a quantity as a double (AsApproximateFloat64): the mantissa times a power of ten as Go makes it."""
    quantity = _require_quantity(value)
    if quantity.is_decimal:
        raise UnsupportedValueError("asApproximateFloat() of a quantity beyond 64 bits is not supported")
    exponent = abs(quantity.scale)
    large, small = float(f"1e{exponent // _STEP * _STEP}"), float(f"1e{exponent % _STEP}")
    if quantity.scale >= 0:
        return quantity.mantissa * (large * small) if exponent else float(quantity.mantissa)
    return quantity.mantissa * (1 / large / small if exponent >= _STEP else float(f"1e-{exponent}"))


def _require_term(value: object) -> Quantity:
    """Return a quantity to calculate with; Kubernetes 1.36 changes the original of one that is beyond 64 bits."""
    quantity = _require_quantity(value)
    if quantity.is_decimal:
        raise UnsupportedValueError("arithmetic with a quantity beyond 64 bits is not supported")
    return quantity


def _to_addend(value: object) -> Quantity:
    return Quantity.from_int(value) if type(value) is int else _require_quantity(value)


def _check_addend(value: object) -> None:
    """Check that a number is not the one whose opposite wraps around in Go."""
    if value == INT64_MIN:
        raise UnsupportedValueError(f"a quantity of {INT64_MIN} is not supported")


def _make_result(value: Quantity) -> Quantity:
    if value.mantissa == INT64_MIN:
        raise UnsupportedValueError(f"a quantity of {INT64_MIN} is not supported")
    return QuantityResult(value.mantissa, value.scale, value.format, value.is_decimal)


def _add(left: object, right: object) -> object:
    _check_addend(right)
    return _make_result(_require_term(left) + _to_addend(right))


def _subtract(left: object, right: object) -> object:
    _check_addend(right)
    return _make_result(_require_term(left) - _to_addend(right))


def _find_version(text: object, options: tuple[object, ...]) -> SemanticVersion | None:
    """Return the version that a text is, normalized if the option says so."""
    written = _require_text(text)
    if options and type(options[0]) is not bool:
        raise EvaluationError("no such overload")
    normalized = normalize_version(written) if options and options[0] else written
    return None if normalized is None else parse_version(normalized)


def _parse_semver(text: object, *options: object) -> object:
    version = _find_version(text, options)
    if version is None:
        raise EvaluationError(f"no semantic version: {text!r}")
    return version


def _is_semver(text: object, *options: object) -> object:
    return _find_version(text, options) is not None


def _select_number(name: str) -> Callable[[object], object]:
    def read_number(value: object) -> object:
        if not isinstance(value, SemanticVersion):
            raise EvaluationError("no such overload")
        number: int = getattr(value, name)
        if number > INT64_MAX:
            raise UnsupportedValueError(f"a version's number beyond {INT64_MAX} is not supported")
        return number

    return read_number


RESOURCE_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "add": _add,
    "asApproximateFloat": _as_float,
    "asInteger": _as_integer,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) == 1,
    "isInteger": lambda value: _to_integer(value) is not None,
    "isLessThan": lambda left, right: _compare(left, right) == -1,
    "isQuantity": _is_quantity,
    "isSemver": _is_semver,
    "major": _select_number("major"),
    "minor": _select_number("minor"),
    "patch": _select_number("patch"),
    "quantity": _parse_quantity,
    "semver": _parse_semver,
    "sign": lambda value: _require_quantity(value).sign,
    "sub": _subtract,
}
