"""The two dialects of plain scalars: kubectl's YAML 1.1, and the core schema of YAML 1.2 with exact numbers.

kubectl's follows `goyaml.v2/resolve.go` of sigs.k8s.io/yaml (used by v1.36) and, for numbers, the unstructured decoder
of client-go: an int64, or else a float64 (`k8s.io/apimachinery/pkg/util/json`).
"""

import math
import re
from decimal import Decimal
from typing import TypeAlias

ScalarValue: TypeAlias = str | int | float | bool | None
"""The value of a scalar as kubectl reads it."""

_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_CORE_WORDS: dict[str, bool | None] = {**dict.fromkeys(_NULLS), **_BOOLEANS}
_CORE_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_KUBECTL_WORDS: dict[str, ScalarValue] = {
    **_CORE_WORDS,
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_DIGITS = 70
"""No 64-bit integer is written longer than this, in any base; a longer text can only be a float."""
_INT64 = range(-(2**63), 2**63)
_PLAIN_FLOATS = (1e-6, 1e21)
"""Go writes a float64 without an exponent from the first to below the second (encoding/json, floatEncoder)."""


class Number(int):
    """A number of a policy for JSON Schema, which needs its type and sign only; `text` has the exact value."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "Number":
        """Return the number of a source text, in constant time and space for any number of digits and any exponent."""
        mantissa = re.split("[eE]", text, maxsplit=1)[0]
        size = 0 if not mantissa.strip("+-0.") else 1
        number = cls(-size if text.startswith("-") else size)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def parse_core_scalar(text: str) -> str | Number | bool | None:
    """Return the value of a plain scalar by the core schema: `yes` and `on` are strings, `true` is not."""
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    return Number.parse(text) if _CORE_NUMBER.fullmatch(text) else text


def parse_kubectl_scalar(text: str) -> ScalarValue:
    """Return the value of a plain scalar as kubectl reads it.

    A number outside int64 becomes a float64, as does anything with a point or an exponent; a number beyond float64
    stays a string, as does a text that only looks like a number (`1:30`, `0x`).
    """
    if text in _KUBECTL_WORDS:
        return _KUBECTL_WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    return parse_number(text if text[0] == "." else text.replace("_", ""), text)


def parse_number(digits: str, default: ScalarValue) -> ScalarValue:
    """Return the number of a text, or the default if the text is not a number or is beyond float64."""
    if len(digits) <= _DIGITS and _INTEGER.fullmatch(digits):
        integer = _parse_integer(digits)
        if integer in _INT64:
            return integer
        if integer not in range(2**64) and not _FLOAT.fullmatch(digits):
            return default
        return float(integer)
    if not _FLOAT.fullmatch(digits):
        return default
    value = float(digits)
    return value if math.isfinite(value) else default


def _parse_integer(digits: str) -> int:
    """Return the integer of strconv.ParseInt with base 0 in Go: a leading zero means octal."""
    body = digits.lstrip("+-")
    base = {"x": 16, "o": 8, "b": 2}.get(body[1:2].lower(), 8 if body[0] == "0" else 10)
    return int(digits, base)


def format_float(value: float) -> str:
    """Return a finite float64 as Go's encoding/json writes it: shortest digits, an exponent only for extreme values."""
    shortest = repr(value)
    if value == 0 or _PLAIN_FLOATS[0] <= abs(value) < _PLAIN_FLOATS[1]:
        return format(Decimal(shortest), "f").removesuffix(".0")
    mantissa, _, exponent = shortest.partition("e")
    sign, digits = exponent[0], exponent.lstrip("+-").lstrip("0")
    return f"{mantissa}e{sign if sign == '-' else '+'}{digits}"
