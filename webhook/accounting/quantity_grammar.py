"""The grammar of a quantity: text in, its parts out, nothing computed that the text's length does not bound.

Follows `parseQuantityString` and `suffixHandler.interpret` (apimachinery pkg/api/resource/quantity.go and suffix.go,
v1.36). The scanner there accepts more (no digits at all) and less (one dot) than the regular expression in its message.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from webhook.errors import TallygateError

MAX_TEXT = 1024
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
class Scanned:
    """The parts of a text: `whole` without leading zeros (at least `0`), `fraction` as written.

    A text may have no digits at all. The number is `whole.fraction` times 10 (BinarySI: 2) to the power `exponent`.
    """

    negative: bool
    has_digits: bool
    whole: str
    fraction: str
    exponent: int
    format: Format


# Possessive throughout: a text that does not match is refused after one pass.
_PARTS = re.compile(r"([+-]?+)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?)0*+([0-9]*+)")
_INT64_DIGITS = 19
_INT64_MAX = 2**63 - 1

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


def scan(text: str) -> Scanned:
    """Take a text apart.

    Raises:
        QuantityError: Kubernetes refuses it, in Kubernetes' words.
        QuantityTooLargeError: it is longer than `MAX_TEXT`.
    """
    if len(text) > MAX_TEXT:
        raise QuantityTooLargeError(f"too large: a quantity of {len(text)} characters; at most {MAX_TEXT} are read")
    parts = _PARTS.fullmatch(text)
    if parts is None or not text:
        raise QuantityError(FORMAT_WRONG)
    sign, zeros, whole, fraction, suffix = parts.groups()
    exponent, form = _SUFFIXES.get(suffix) or _exponent(suffix)
    return Scanned(sign == "-", bool(zeros or whole or fraction), whole or "0", fraction or "", exponent, form)


def _exponent(suffix: str) -> tuple[int, Format]:
    """Read `e<int>` or `E<int>`; what does not fit an int64 is refused, as by strconv.ParseInt.

    Kubernetes then keeps the lowest 32 bits only, so that 1e4294967296 is 1 to it. Here it stays what it says.
    """
    parts = _EXPONENT.fullmatch(suffix)
    if parts is None or not suffix[-1].isdigit() or len(parts[2]) > _INT64_DIGITS:
        raise QuantityError(SUFFIX_WRONG)
    exponent = int(parts[1] + (parts[2] or "0"))
    if not -_INT64_MAX - 1 <= exponent <= _INT64_MAX:
        raise QuantityError(SUFFIX_WRONG)
    return exponent, Format.DECIMAL_EXPONENT


def check_magnitude(scanned: Scanned) -> None:
    """Refuse a number too large to be worked with, before it is made.

    Raises:
        QuantityTooLargeError: it has more than `MAX_MAGNITUDE` digits before the point.
    """
    if scanned.format is not Format.BINARY_SI and len(scanned.whole) + scanned.exponent > MAX_MAGNITUDE:
        raise QuantityTooLargeError(
            f"too large: more than {MAX_MAGNITUDE} digits before the point; Kubernetes counts to 9223372036854775807"
        )
