"""The grammar of a quantity: text in, its parts out, nothing computed that the text's length does not bound.

Follows `parseQuantityString` and `suffixHandler.interpret` (apimachinery pkg/api/resource/quantity.go and suffix.go,
v1.36). The scanner there accepts more (no digits at all) and less (one dot) than the regular expression in its message.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from webhook.errors import TallygateError

MAX_QUANTITY_LENGTH = 1024
"""The longest text that is read. Kubernetes has no such bound; the longest number it can hold has 19 digits."""

MAX_MAGNITUDE = 1024
"""The most digits before the decimal point. Kubernetes has no such bound, and needs gigabytes for `1e999999999`."""

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # ErrFormatWrong
)
NUMERIC_WRONG = "unable to parse numeric part of quantity"  # ErrNumeric
SUFFIX_WRONG = "unable to parse quantity's suffix"  # ErrSuffix


class QuantityError(TallygateError):
    """A text is no quantity. `str()` is Kubernetes' own message where Kubernetes refuses it too."""


class QuantityTooLargeError(QuantityError):
    """A text is a quantity to Kubernetes, but larger or longer than any that can be meant."""


class Format(StrEnum):
    """How a quantity is written back (apimachinery resource.Format)."""

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


# Possessive throughout: a text that does not match is refused after one pass.
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


def scan_quantity(text: str) -> QuantityParts:
    """Take a text apart.

    Raises:
        QuantityError: Kubernetes refuses it, in Kubernetes' words.
        QuantityTooLargeError: it is longer than `MAX_TEXT`.
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


def _parse_exponent(suffix: str) -> tuple[int, Format]:
    """Read `e<int>` or `E<int>`; what does not fit an int64 is refused, as by strconv.ParseInt.

    Kubernetes then keeps the lowest 32 bits only, so that 1e4294967296 is 1 to it. Here it stays what it says.
    """
    match = _EXPONENT_PATTERN.fullmatch(suffix)
    if match is None or not suffix[-1].isdigit() or len(match[2]) > _MAX_EXPONENT_DIGITS:
        raise QuantityError(SUFFIX_WRONG)
    exponent = int(match[1] + (match[2] or "0"))
    if not -_MAX_EXPONENT - 1 <= exponent <= _MAX_EXPONENT:
        raise QuantityError(SUFFIX_WRONG)
    return exponent, Format.DECIMAL_EXPONENT


def check_magnitude(parts: QuantityParts) -> None:
    """Refuse a number too large to be worked with, before it is made.

    Raises:
        QuantityTooLargeError: it has more than `MAX_MAGNITUDE` digits before the point.
    """
    if parts.format is not Format.BINARY_SI and len(parts.whole) + parts.exponent > MAX_MAGNITUDE:
        raise QuantityTooLargeError(
            f"too large: more than {MAX_MAGNITUDE} digits before the point; Kubernetes counts to 9223372036854775807"
        )
