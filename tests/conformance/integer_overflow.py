"""Overflow of Kubernetes' integers, computed only from the numbers in a case.

The numbers are exact fractions with a parser of their own: this module does not call tallygate.
"""

import re
from fractions import Fraction

INT64_MAX = 2**63 - 1

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?", re.ASCII)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = "KMGTPE"
_LARGEST_EXPONENT = 2000
_NANO = 10**9


def parse_exactly(text: str) -> Fraction | None:
    """Return the exact number of a quantity's text; None if it is not a quantity or its exponent is beyond 2000."""
    parts = _TEXT.fullmatch(text)
    if parts is None:
        return None
    sign, whole, fraction, suffix, exponent = parts.groups()
    fraction = fraction or ""
    mantissa = Fraction(int("0" + whole + fraction), 10 ** len(fraction))
    if exponent is not None and abs(int(exponent)) > _LARGEST_EXPONENT:
        return None
    if suffix is not None and len(suffix) > 1:
        mantissa *= 1024 ** (_BINARY.index(suffix[0]) + 1)
    else:
        mantissa *= Fraction(10) ** (_POWERS[suffix] if suffix else int(exponent or 0))
    return -mantissa if sign == "-" else mantissa


def exponent_wraps(text: str) -> bool:
    """Return whether a text has an exponent of more than 32 bits, of which Kubernetes keeps the lowest 32."""
    parts = _TEXT.fullmatch(text)
    return parts is not None and parts[5] is not None and not -(2**31) <= int(parts[5]) < 2**31


def value_wraps(exact: Fraction) -> bool:
    """Return whether the number in whole units does not fit an int64."""
    return abs(exact) > INT64_MAX


def milli_wraps(exact: Fraction) -> bool:
    """Return whether the number in thousandths does not fit an int64."""
    return abs(exact) * 1000 > INT64_MAX


def decimal_wraps(digits: str) -> bool:
    """Return whether a negative decimal wraps when it is scaled down, since its digits are an int64 first.

    scaledValue in apimachinery pkg/api/resource/math.go, v1.36: the path for int64 only checks that the digits are
    *below* int64's largest value, which every negative number is.
    """
    return "." in digits and digits.startswith("-") and int(digits.replace(".", "")) < -INT64_MAX
