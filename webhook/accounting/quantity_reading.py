"""From a text to a number: what ParseQuantity makes of the parts it scanned.

Follows apimachinery pkg/api/resource/quantity.go, v1.36, which has two paths: what surely fits an int64, and an
arbitrary-precision decimal for all else. Which one is taken decides whether the text is kept.
"""

from typing import NamedTuple

from webhook.accounting.quantity_grammar import NUMERIC_WRONG, Format, QuantityError, Scanned, check_magnitude, scan
from webhook.accounting.scaling import ten_to

INT64_MAX = 2**63 - 1
"""The largest number Kubernetes can hold."""

NANO = -9
"""The finest power of ten that a quantity keeps."""

_MAX_INT64_DIGITS = 18  # maxInt64Factors in math.go
_BINARY_PRECISION = {10: 11, 20: 8, 30: 5, 40: 2}  # digits that still take the int64 path, by power of two
# What strings.TrimSpace takes off, which is less than str.strip does.
_GO_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class Reading(NamedTuple):
    """What a text says, in the fields of a `webhook.accounting.quantity.Quantity`."""

    mantissa: int
    scale: int
    format: Format
    is_decimal: bool = False
    echo: str = ""


def read(text: str) -> Reading:
    """Read a text.

    Raises:
        QuantityError: it is no quantity, in Kubernetes' words.
        QuantityTooLargeError: it is one that Kubernetes would take, but out of any bounds.
    """
    scanned = scan(text)
    is_decimal = _takes_decimal_path(scanned)
    if is_decimal and not scanned.has_digits:
        raise QuantityError(NUMERIC_WRONG)
    if not (scanned.whole + scanned.fraction).strip("0"):
        return Reading(0, 0, scanned.format, is_decimal)
    check_magnitude(scanned)
    return _decimal(scanned) if is_decimal else _int64(scanned, text)


def text_of(token: bytes) -> str:
    """What UnmarshalJSON parses of a JSON token: without one pair of quotes and the blanks within."""
    text = token.decode("utf-8", "replace")
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.strip(_GO_SPACE)


def _takes_decimal_path(scanned: Scanned) -> bool:
    """Whether ParseQuantity reads it into a decimal, as it does with all that might not fit an int64."""
    digits = len(scanned.whole)
    if scanned.format is Format.BINARY_SI:
        return bool(scanned.fraction) or digits > _BINARY_PRECISION.get(scanned.exponent, 0)
    places = len(scanned.fraction)
    return digits + places > _MAX_INT64_DIGITS or scanned.exponent - places < NANO


def _int64(scanned: Scanned, text: str) -> Reading:
    """Read as ParseQuantity does on its fast path, which keeps the text when it looks canonical already."""
    digits = scanned.whole + scanned.fraction
    number = int(digits)
    if scanned.format is Format.BINARY_SI:
        mantissa, scale = number << scanned.exponent, 0
        keeps = number % 8 != 0
    else:
        mantissa, scale = number, scanned.exponent - len(scanned.fraction)
        keeps = scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return Reading(-mantissa if scanned.negative else mantissa, scale, scanned.format, echo=text if keeps else "")


def _decimal(scanned: Scanned) -> Reading:
    """Read as ParseQuantity does off its fast path: to nano precision, binary ones capped, the text forgotten."""
    form = scanned.format
    digits, scale = int(scanned.whole + scanned.fraction), -len(scanned.fraction)
    if form is Format.BINARY_SI:
        digits <<= scanned.exponent
    else:
        scale += scanned.exponent
    if scale < NANO:
        digits, scale = _nano(digits, scale), NANO
    if form is Format.BINARY_SI:
        digits, scale, form = _capped(digits, scale)
    return Reading(-digits if scanned.negative else digits, scale, form, is_decimal=True)


def _nano(digits: int, scale: int) -> int:
    """Billionths, rounded up; a positive number never becomes zero. No power is made that is longer than the text."""
    if scale < NANO - len(str(digits)):
        return 1
    return -(-digits // ten_to(NANO - scale))


def _capped(digits: int, scale: int) -> tuple[int, int, Format]:
    """A positive binary number held to int64's largest, and written in decimal below 1."""
    unit = ten_to(-scale)
    if digits > INT64_MAX * unit:
        return INT64_MAX, 0, Format.BINARY_SI
    return digits, scale, Format.BINARY_SI if digits >= unit else Format.DECIMAL_SI
