"""Parsing of quantities: the grammar, the number of a text, and rounding of decimal numbers.

The grammar follows `parseQuantityString` and `suffixHandler.interpret` (apimachinery pkg/api/resource/quantity.go and
suffix.go, v1.36). The scanner there accepts more (no digits at all) and less (one dot) than the regular expression in
its message. The length of the text bounds every computation.

The number follows ParseQuantity (quantity.go, v1.36), which has two paths: an int64 for numbers that surely fit one,
and an arbitrary-precision decimal for all others. The path decides whether the text is kept.

Decimal numbers are a mantissa and a power of ten. Rounding to another power follows `ScaledValue` (quantity.go,
amount.go and math.go, v1.36).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tallygate.errors import TallygateError

MAX_QUANTITY_LENGTH = 1024
"""The longest text that is read. Kubernetes has no such limit; the longest number it can represent has 19 digits."""

MAX_MAGNITUDE = 1024
"""The most digits before the decimal point. Kubernetes has no such limit, and needs gigabytes for `1e999999999`."""

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # ErrFormatWrong
)
NUMERIC_WRONG = "unable to parse numeric part of quantity"  # ErrNumeric
SUFFIX_WRONG = "unable to parse quantity's suffix"  # ErrSuffix


class QuantityError(TallygateError):
    """A text that is no quantity. `str()` is Kubernetes' own message where Kubernetes rejects the text too."""


class QuantityTooLargeError(QuantityError):
    """A text that is a quantity to Kubernetes, but larger or longer than any plausible one."""


class Format(StrEnum):
    """The notation in which a quantity is written back (apimachinery resource.Format)."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class QuantityParts:
    """The parts of a text: `whole` without leading zeros (at least `0`), `fraction` as written.

    A text may have no digits at all. The number is `whole.fraction` times 10 (BinarySI: 2) to the power `exponent`.
    """

    is_negative: bool
    has_digits: bool
    whole: str
    fraction: str
    exponent: int
    format: Format


# All quantifiers are possessive: a text that does not match is rejected after one pass.
_QUANTITY_PATTERN = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT_PATTERN = re.compile(r"[eE]([+-]?)0*+([0-9]*+)")
_MAX_EXPONENT_DIGITS = 19
_MAX_EXPONENT = 2**63 - 1

_SUFFIXES = {
    "": (0, Format.DECIMAL_SI),
    "n": (-9, Format.DECIMAL_SI),
    "u": (-6, Format.DECIMAL_SI),
    "m": (-3, Format.DECIMAL_SI),
    "k": (3, Format.DECIMAL_SI),
    "M": (6, Format.DECIMAL_SI),
    "G": (9, Format.DECIMAL_SI),
    "T": (12, Format.DECIMAL_SI),
    "P": (15, Format.DECIMAL_SI),
    "E": (18, Format.DECIMAL_SI),
    "Ki": (10, Format.BINARY_SI),
    "Mi": (20, Format.BINARY_SI),
    "Gi": (30, Format.BINARY_SI),
    "Ti": (40, Format.BINARY_SI),
    "Pi": (50, Format.BINARY_SI),
    "Ei": (60, Format.BINARY_SI),
}

_POWERS: tuple[int, ...] = tuple(10**exponent for exponent in range(64))

INT64_MAX = 2**63 - 1
"""The largest number that Kubernetes can represent."""

NANO_SCALE = -9
"""The finest power of ten that a quantity keeps."""

_MAX_INT64_DIGITS = 18  # maxInt64Factors in math.go
_MAX_BINARY_DIGITS = {10: 11, 20: 8, 30: 5, 40: 2}  # digits that still take the int64 path, by power of two
# The characters that strings.TrimSpace removes; str.strip removes more.
_GO_WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class ParsedQuantity(NamedTuple):
    """The parsed text in the fields of a `tallygate.accounting.quantity.Quantity`."""

    mantissa: int
    scale: int
    format: Format
    is_decimal: bool = False
    original_text: str = ""


def parse_text(text: str) -> ParsedQuantity:
    """Parse a text.

    Raises:
        QuantityError: if the text is no quantity, in Kubernetes' words.
        QuantityTooLargeError: if Kubernetes would accept the text, but it exceeds the limits of this parser.
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
    """Return the text that UnmarshalJSON parses: the JSON token without one pair of quotes and the blanks inside it."""
    text = token.decode("utf-8", "replace")
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return text.strip(_GO_WHITESPACE)


def scan_quantity(text: str) -> QuantityParts:
    """Split a text into its parts.

    Raises:
        QuantityError: if Kubernetes rejects the text, in Kubernetes' words.
        QuantityTooLargeError: if the text is longer than `MAX_QUANTITY_LENGTH`.
    """
    if len(text) > MAX_QUANTITY_LENGTH:
        raise QuantityTooLargeError(
            f"too large: a quantity of {len(text)} characters; at most {MAX_QUANTITY_LENGTH} are read"
        )
    match = _QUANTITY_PATTERN.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_WRONG)
    sign, zeros, whole, fraction, suffix = match.groups()
    exponent, form = _SUFFIXES.get(suffix) or _parse_exponent(suffix)
    return QuantityParts(sign == "-", bool(zeros or whole or fraction), whole or "0", fraction or "", exponent, form)


def check_magnitude(parts: QuantityParts) -> None:
    """Reject a number that is too large to compute with, before it is made.

    Raises:
        QuantityTooLargeError: if the number has more than `MAX_MAGNITUDE` digits before the point.
    """
    if parts.format is not Format.BINARY_SI and len(parts.whole) + parts.exponent > MAX_MAGNITUDE:
        raise QuantityTooLargeError(
            f"too large: more than {MAX_MAGNITUDE} digits before the point; Kubernetes counts to 9223372036854775807"
        )


def power_of_ten(exponent: int) -> int:
    """Return 10 to a power that is not negative."""
    return _POWERS[exponent] if exponent < len(_POWERS) else int(10**exponent)


def round_up(mantissa: int, scale: int, target: int) -> int:
    """Return `mantissa * 10**scale` in units of `10**target`, rounded away from zero (negativeScaleInt64)."""
    if scale >= target:
        return mantissa * power_of_ten(scale - target)
    quotient, remainder = divmod(abs(mantissa), power_of_ten(target - scale))
    magnitude = quotient + bool(remainder)
    return magnitude if mantissa >= 0 else -magnitude


def round_as_decimal(mantissa: int, scale: int, target: int) -> int:
    """Round as `round_up`, but as decimals are rounded (scaledValue): one more than the integer nearer to zero.

    This includes negative numbers, so that -1.1 becomes 0. That is a fault of Kubernetes; it has no effect where
    negative quantities are rejected.
    """
    if mantissa >= 0 or scale >= target:
        return round_up(mantissa, scale, target)
    quotient, remainder = divmod(-mantissa, power_of_ten(target - scale))
    return bool(remainder) - quotient


def round_down(mantissa: int, scale: int, target: int) -> int:
    """Return `mantissa * 10**scale` in units of `10**target`, rounded to the lower integer."""
    if scale >= target:
        return mantissa * power_of_ten(scale - target)
    return mantissa // power_of_ten(target - scale)


def _parse_exponent(suffix: str) -> tuple[int, Format]:
    """Parse `e<int>` or `E<int>`; reject an exponent that does not fit an int64, as strconv.ParseInt does.

    Kubernetes then keeps only the lowest 32 bits, so that it reads 1e4294967296 as 1. This parser keeps the exponent.
    """
    match = _EXPONENT_PATTERN.fullmatch(suffix)
    if match is None or not suffix[-1].isdigit() or len(match[2]) > _MAX_EXPONENT_DIGITS:
        raise QuantityError(SUFFIX_WRONG)
    exponent = int(match[1] + (match[2] or "0"))
    if not -_MAX_EXPONENT - 1 <= exponent <= _MAX_EXPONENT:
        raise QuantityError(SUFFIX_WRONG)
    return exponent, Format.DECIMAL_EXPONENT


def _is_decimal_path(parts: QuantityParts) -> bool:
    """Return whether ParseQuantity makes a decimal, as it does with every text that might not fit an int64."""
    digits = len(parts.whole)
    if parts.format is Format.BINARY_SI:
        return bool(parts.fraction) or digits > _MAX_BINARY_DIGITS.get(parts.exponent, 0)
    places = len(parts.fraction)
    return digits + places > _MAX_INT64_DIGITS or parts.exponent - places < NANO_SCALE


def _parse_int64(parts: QuantityParts, text: str) -> ParsedQuantity:
    """Parse as ParseQuantity does on its fast path, which keeps the text if it looks canonical already."""
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
    """Parse as ParseQuantity does off its fast path: to nano precision, binary ones clamped, the text dropped."""
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
    """Return billionths, rounded up; a positive number never becomes zero.

    No power is computed that is longer than the text.
    """
    if scale < NANO_SCALE - len(str(digits)):
        return 1
    return -(-digits // power_of_ten(NANO_SCALE - scale))


def _clamp_to_int64(digits: int, scale: int) -> tuple[int, int, Format]:
    """Clamp a positive binary number to the largest int64, and write it in decimal if it is below 1."""
    unit = power_of_ten(-scale)
    if digits > INT64_MAX * unit:
        return INT64_MAX, 0, Format.BINARY_SI
    return digits, scale, Format.BINARY_SI if digits >= unit else Format.DECIMAL_SI
