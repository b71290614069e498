"""From a text to a number: what ParseQuantity makes of the parts it scanned.

Follows apimachinery pkg/api/resource/quantity.go, v1.36, which has two paths: what surely fits an int64, and an
arbitrary-precision decimal for all else. Which one is taken decides whether the text is kept.
"""

from typing import NamedTuple

from webhook.accounting.quantity_grammar import (
    NUMERIC_WRONG,
    Format,
    QuantityError,
    QuantityParts,
    check_magnitude,
    scan_quantity,
)
from webhook.accounting.scaling import power_of_ten

INT64_MAX = 2**63 - 1
"""The largest number Kubernetes can hold."""

NANO_SCALE = -9
"""The finest power of ten that a quantity keeps."""

_MAX_INT64_DIGITS = 18  # maxInt64Factors in math.go
_MAX_BINARY_DIGITS = {10: 11, 20: 8, 30: 5, 40: 2}  # digits that still take the int64 path, by power of two
# What strings.TrimSpace takes off, which is less than str.strip does.
_GO_WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class ParsedQuantity(NamedTuple):
    """What a text says, in the fields of a `webhook.accounting.quantity.Quantity`."""

    mantissa: int
    scale: int
    format: Format
    is_decimal: bool = False
    original_text: str = ""


def parse_text(text: str) -> ParsedQuantity:
    """Read a text.

    Raises:
        QuantityError: it is no quantity, in Kubernetes' words.
        QuantityTooLargeError: it is one that Kubernetes would take, but out of any bounds.
    """
    parts = scan_quantity(text)
    is_decimal = _is_decimal_path(parts)
    if is_decimal and not parts.has_digits:
        raise QuantityError(NUMERIC_WRONG)
    if not (parts.whole + parts.fraction).strip("0"):
        return ParsedQuantity(0, 0, parts.format, is_decimal)
    check_magnitude(parts)
    return _parse_decimal(parts) if is_decimal else _parse_int64(parts, text)


def extract_text(token: bytes) -> str:
    """What UnmarshalJSON parses of a JSON token: without one pair of quotes and the blanks within."""
    text = token.decode("utf-8", "replace")
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.strip(_GO_WHITESPACE)


def _is_decimal_path(parts: QuantityParts) -> bool:
    """Whether ParseQuantity reads it into a decimal, as it does with all that might not fit an int64."""
    digits = len(parts.whole)
    if parts.format is Format.BINARY_SI:
        return bool(parts.fraction) or digits > _MAX_BINARY_DIGITS.get(parts.exponent, 0)
    places = len(parts.fraction)
    return digits + places > _MAX_INT64_DIGITS or parts.exponent - places < NANO_SCALE


def _parse_int64(parts: QuantityParts, text: str) -> ParsedQuantity:
    """Read as ParseQuantity does on its fast path, which keeps the text when it looks canonical already."""
    digits = parts.whole + parts.fraction
    number = int(digits)
    if parts.format is Format.BINARY_SI:
        mantissa, scale = number << parts.exponent, 0
        is_canonical = number % 8 != 0
    else:
        mantissa, scale = number, parts.exponent - len(parts.fraction)
        is_canonical = scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return ParsedQuantity(
        -mantissa if parts.is_negative else mantissa, scale, parts.format, original_text=text if is_canonical else ""
    )


def _parse_decimal(parts: QuantityParts) -> ParsedQuantity:
    """Read as ParseQuantity does off its fast path: to nano precision, binary ones capped, the text forgotten."""
    form = parts.format
    digits, scale = int(parts.whole + parts.fraction), -len(parts.fraction)
    if form is Format.BINARY_SI:
        digits <<= parts.exponent
    else:
        scale += parts.exponent
    if scale < NANO_SCALE:
        digits, scale = _round_up_to_nano(digits, scale), NANO_SCALE
    if form is Format.BINARY_SI:
        digits, scale, form = _clamp_to_int64(digits, scale)
    return ParsedQuantity(-digits if parts.is_negative else digits, scale, form, is_decimal=True)


def _round_up_to_nano(digits: int, scale: int) -> int:
    """Billionths, rounded up; a positive number never becomes zero. No power is made that is longer than the text."""
    if scale < NANO_SCALE - len(str(digits)):
        return 1
    return -(-digits // power_of_ten(NANO_SCALE - scale))


def _clamp_to_int64(digits: int, scale: int) -> tuple[int, int, Format]:
    """A positive binary number held to int64's largest, and written in decimal below 1."""
    unit = power_of_ten(-scale)
    if digits > INT64_MAX * unit:
        return INT64_MAX, 0, Format.BINARY_SI
    return digits, scale, Format.BINARY_SI if digits >= unit else Format.DECIMAL_SI
