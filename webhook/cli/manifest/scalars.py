"""Scalars as kubectl reads them: YAML 1.1 as sigs.k8s.io/yaml resolves it, numbers through float64.

Follows `goyaml.v2/resolve.go` of sigs.k8s.io/yaml (used by v1.36) and, for numbers, what client-go's unstructured
decoder keeps: an int64, or else a float64 (`k8s.io/apimachinery/pkg/util/json`).
"""

import math
import re
from decimal import Decimal

from webhook.cli.manifest.nodes import ScalarValue

_WORDS: dict[str, ScalarValue] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_DIGITS = 70
"""No 64-bit integer is written longer than this, in any base; what is longer can only be a float."""
_INT64 = range(-(2**63), 2**63)
_PLAIN_FLOATS = (1e-6, 1e21)
"""Go writes a float64 without an exponent from the first to below the second (encoding/json, floatEncoder)."""


def plain(text: str) -> ScalarValue:
    """What an unquoted scalar means.

    A number outside int64 becomes a float64, as does anything with a point or an exponent; beyond float64 it stays
    text, and so does what only looks like a number (`1:30`, `0x`).
    """
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    return number(digits, text)


def number(digits: str, otherwise: ScalarValue) -> ScalarValue:
    """The number that is written, or `otherwise` when it is none or beyond float64."""
    if len(digits) <= _DIGITS and _INTEGER.fullmatch(digits):
        integer = _integer(digits)
        if integer in _INT64:
            return integer
        if integer not in range(2**64) and not _FLOAT.fullmatch(digits):
            return otherwise
        return float(integer)
    if not _FLOAT.fullmatch(digits):
        return otherwise
    value = float(digits)
    return value if math.isfinite(value) else otherwise


def _integer(digits: str) -> int:
    """Go's strconv.ParseInt with base 0: a leading zero means octal."""
    body = digits.lstrip("+-")
    base = {"x": 16, "o": 8, "b": 2}.get(body[1:2].lower(), 8 if body[0] == "0" else 10)
    return int(digits, base)


def go_float(value: float) -> str:
    """A finite float64 as Go's encoding/json writes it: shortest digits, an exponent only when very large or small."""
    shortest = repr(value)
    if value == 0 or _PLAIN_FLOATS[0] <= abs(value) < _PLAIN_FLOATS[1]:
        return format(Decimal(shortest), "f").removesuffix(".0")
    mantissa, _, exponent = shortest.partition("e")
    sign, digits = exponent[0], exponent.lstrip("+-").lstrip("0")
    return f"{mantissa}e{sign if sign == '-' else '+'}{digits}"
