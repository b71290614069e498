"""Functions of expressions by name: operators, conversions, and those of the other modules (common/stdlib, types)."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from tallygate.accounting.cel import runtime_values
from tallygate.accounting.cel.cel_types import DOUBLE, DYN, UINT, CelType
from tallygate.accounting.cel.collection_functions import COLLECTION_FUNCTIONS, sum_values
from tallygate.accounting.cel.network_functions import NETWORK_FUNCTIONS, Network, is_address
from tallygate.accounting.cel.resource_functions import RESOURCE_FUNCTIONS
from tallygate.accounting.cel.semantic_version import SemanticVersion
from tallygate.accounting.cel.text_functions import TEXT_FUNCTIONS

Function = Callable[..., object]

_INT = re.compile("[+-]?[0-9]+")
_UINT = re.compile("[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile("([+-]?)inf(?:inity)?|nan", re.IGNORECASE)
_BOOLS = {**dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True)}
_BOOLS |= dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False)
_MAX_DIGITS = 400
_GUARDED = {
    *("bool", "bytes", "double", "int", "string", "uint", "isSorted", "max", "min", "sum", "add", "sub", "indexOf"),
    *("lastIndexOf", "isGreaterThan", "isLessThan", "compareTo", "ip", "ip.isCanonical", "containsIP", "containsCIDR"),
}
_LARGEST_PLAIN_EXPONENT = 6
_SMALLEST_PLAIN_EXPONENT = -4


def find_function(name: str, result: CelType, parameters: tuple[CelType, ...] | None) -> Function:
    """Return the function of a name; a sum begins with the zero of its type.

    Where the types resolve to one form, a value of another type is no argument, though another form would accept it: a
    value whose type is not known can come with any type.
    """
    function = FUNCTIONS[name]
    if name == "sum" and result in (DOUBLE, UINT):
        zero = 0.0 if result == DOUBLE else runtime_values.Uint(0)
        function = functools.partial(sum_values, zero=zero)
    if parameters is None or name not in _GUARDED:
        return function

    def call_guarded(*arguments: object) -> object:
        if not all(map(_is_of_type, arguments, parameters)):
            raise _fail()
        return function(*arguments)

    return call_guarded


def _is_of_type(value: object, kind: CelType) -> bool:
    """Return whether a value is of a type; of a list only the first element counts (defaultIsAssignableRuntimeType)."""
    if kind.is_parameter or kind == DYN:
        return True
    if runtime_values.name_type(value) != kind.name:
        return False
    return not isinstance(value, list) or not value or _is_of_type(value[0], kind.parameters[0])


def _fail() -> runtime_values.EvaluationError:
    return runtime_values.EvaluationError("no such overload")


def _limit_range(value: int, *, is_unsigned: bool) -> object:
    """Return a number as an int or a uint, if it fits."""
    low, high = (0, runtime_values.UINT64_MAX) if is_unsigned else (runtime_values.INT64_MIN, runtime_values.INT64_MAX)
    if not low <= value <= high:
        raise runtime_values.EvaluationError(f"{'unsigned integer' if is_unsigned else 'integer'} overflow")
    return runtime_values.Uint(value) if is_unsigned else value


def _is_pair(left: object, right: object, kind: type) -> bool:
    return type(left) is kind and type(right) is kind


def _add(left: object, right: object) -> object:
    if type(left) is int and type(right) is int:
        return _limit_range(left + right, is_unsigned=False)
    if type(left) is str and type(right) is str:
        runtime_values.check_length(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        runtime_values.check_length(len(left) + len(right))
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        runtime_values.check_length(len(left) + len(right))
        return left + right
    return _calculate(left, right, lambda one, other: one + other)


def _subtract(left: object, right: object) -> object:
    return _calculate(left, right, lambda one, other: one - other)


def _multiply(left: object, right: object) -> object:
    return _calculate(left, right, lambda one, other: one * other)


def _calculate(left: object, right: object, operation: Callable[[float, float], float]) -> object:
    if type(left) is float and type(right) is float:
        return float(operation(left, right))
    if isinstance(left, int) and isinstance(right, int) and type(left) is type(right) and type(left) is not bool:
        is_unsigned = type(left) is runtime_values.Uint
        return _limit_range(int(operation(int(left), int(right))), is_unsigned=is_unsigned)
    raise _fail()


def _divide(left: object, right: object) -> object:
    if type(left) is float and type(right) is float:
        if right:
            return left / right
        if left == 0 or math.isnan(left) or math.isnan(right):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return _divide_integers(left, right)[0]


def _divide_integers(left: object, right: object) -> tuple[object, object]:
    """Return quotient and remainder, rounded toward zero as Go does."""
    if not (_is_pair(left, right, int) or _is_pair(left, right, runtime_values.Uint)):
        raise _fail()
    assert isinstance(left, int)  # noqa: S101
    assert isinstance(right, int)  # noqa: S101
    if right == 0:
        raise runtime_values.EvaluationError("division by zero")
    is_unsigned = type(left) is runtime_values.Uint
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    bounded = _limit_range(quotient, is_unsigned=is_unsigned)
    return bounded, _limit_range(int(left) - quotient * int(right), is_unsigned=is_unsigned)


def _negate(value: object) -> object:
    if type(value) is float:
        return -value
    if type(value) is int:
        return _limit_range(-value, is_unsigned=False)
    raise _fail()


def _invert(value: object) -> object:
    if type(value) is not bool:
        raise _fail()
    return not value


def _is_in(item: object, container: object) -> object:
    if isinstance(container, list):
        return runtime_values.is_list_member(item, container)
    if isinstance(container, runtime_values.CelMap):
        if isinstance(item, bytes | SemanticVersion) and container.entries and not container.is_published:
            raise runtime_values.AbortedEvaluationError(
                f"internal error: runtime error: hash of unhashable type {runtime_values.name_type(item)}"
            )
        return container.has_own(item)
    raise _fail()


def _get_size(value: object) -> object:
    if isinstance(value, str | bytes | list | runtime_values.CelMap) and not isinstance(
        value, runtime_values.TypeValue
    ):
        return len(value)
    if is_address(value):
        raise runtime_values.UnsupportedValueError("the size of an address is not supported")
    raise _fail()


def _to_bool(value: object) -> object:
    if type(value) is bool:
        return value
    if type(value) is str and value in _BOOLS:
        return _BOOLS[value]
    raise _describe_conversion(value, "bool")


def _describe_conversion(value: object, kind: str) -> runtime_values.EvaluationError:
    return runtime_values.EvaluationError(f"type conversion error from '{runtime_values.name_type(value)}' to '{kind}'")


def _to_bytes(value: object) -> object:
    if type(value) is str:
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise _fail()


def _to_double(value: object) -> object:
    if type(value) is float or (isinstance(value, int) and type(value) is not bool):
        return float(value)
    if type(value) is str:
        return _parse_double(value)
    raise _fail()


def _parse_double(text: str) -> float:
    infinite = _INFINITE.fullmatch(text)
    if infinite is not None:
        return math.nan if infinite[1] is None else float(text)
    if text.lower().lstrip("+-").startswith("0x") or "_" in text:
        raise runtime_values.UnsupportedValueError("hexadecimal doubles and underscores in numbers are not supported")
    number = float(text) if _DOUBLE.fullmatch(text) else math.inf
    if math.isinf(number):
        raise _describe_conversion(text, "double")
    return number


def _to_int(value: object) -> object:
    if type(value) is str:
        if not _INT.fullmatch(value):
            raise _describe_conversion(value, "int")
        return _limit_range(_parse_digits(value), is_unsigned=False)
    if type(value) is float:
        if not runtime_values.INT64_MIN < value < float(runtime_values.INT64_MAX):
            raise runtime_values.EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, int) and type(value) is not bool:
        return _limit_range(int(value), is_unsigned=False)
    raise _fail()


def _to_uint(value: object) -> object:
    if type(value) is str:
        if not _UINT.fullmatch(value):
            raise _describe_conversion(value, "uint")
        return _limit_range(_parse_digits(value), is_unsigned=True)
    if type(value) is float:
        if not 0 <= value < float(runtime_values.UINT64_MAX):
            raise runtime_values.EvaluationError("unsigned integer overflow")
        return runtime_values.Uint(int(value))
    if isinstance(value, int) and type(value) is not bool:
        return _limit_range(int(value), is_unsigned=True)
    raise _fail()


def _parse_digits(text: str) -> int:
    """Return the number of digits with a sign; of very many digits only their number matters."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MAX_DIGITS:
        return runtime_values.UINT64_MAX + 1
    return int(text[: text.find(text.lstrip("+-"))] + (digits or "0"))


def _to_string(value: object) -> object:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if type(value) is float:
        return _format_double(value)
    if isinstance(value, bytes):
        return _decode_text(value)
    if isinstance(value, Network) or is_address(value):
        return str(value)
    raise _fail()


def _decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise runtime_values.EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error


def _format_double(value: float) -> str:
    """Return a number as Go's verb %g writes it."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0"
    leading = len(whole + fraction) - len(digits)
    exponent = len(whole) - 1 - leading + int(exponent_text or 0)
    digits = digits.rstrip("0")
    if exponent < _SMALLEST_PLAIN_EXPONENT or exponent >= _LARGEST_PLAIN_EXPONENT:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


FUNCTIONS: Final[Mapping[str, Function]] = {
    **TEXT_FUNCTIONS,
    **COLLECTION_FUNCTIONS,
    **RESOURCE_FUNCTIONS,
    **NETWORK_FUNCTIONS,
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": lambda left, right: _divide_integers(left, right)[1],
    "-_": _negate,
    "!_": _invert,
    "@in": _is_in,
    "_<_": lambda left, right: runtime_values.compare_values(left, right) < 0,
    "_<=_": lambda left, right: runtime_values.compare_values(left, right) <= 0,
    "_>_": lambda left, right: runtime_values.compare_values(left, right) > 0,
    "_>=_": lambda left, right: runtime_values.compare_values(left, right) >= 0,
    "size": _get_size,
    "type": lambda value: runtime_values.TypeValue(runtime_values.name_type(value)),
    "dyn": lambda value: value,
    "bool": _to_bool,
    "bytes": _to_bytes,
    "double": _to_double,
    "int": _to_int,
    "string": _to_string,
    "uint": _to_uint,
}
CONVERSIONS: Final = frozenset(("bool", "bytes", "double", "dyn", "int", "string", "type", "uint"))
"""Functions that are evaluated when the expression is compiled, if the argument is a constant."""
