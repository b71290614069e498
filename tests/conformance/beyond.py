"""When Kubernetes' integers wrap around, told from the numbers in a case alone.

Exact fractions, read by a few lines of their own: nothing here asks tallygate what it thinks.
"""

import re
from fractions import Fraction

INT64_MAX = 2**63 - 1

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?", re.ASCII)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = "KMGTPE"
_LARGEST_EXPONENT = 2000
_NANO = 10**9


def number(text: str) -> Fraction | None:
    """The number a quantity's text means, exactly; None for one that is none or has an exponent beyond 2000."""
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
    """Whether a text has an exponent of more than 32 bits, of which Kubernetes keeps the lowest 32."""
    parts = _TEXT.fullmatch(text)
    return parts is not None and parts[5] is not None and not -(2**31) <= int(parts[5]) < 2**31


def value_wraps(exact: Fraction) -> bool:
    """Whether whole units of it do not fit an int64."""
    return abs(exact) > INT64_MAX


def milli_wraps(exact: Fraction) -> bool:
    """Whether thousandths of it do not fit an int64."""
    return abs(exact) * 1000 > INT64_MAX


def decimal_wraps(digits: str) -> bool:
    """Whether a negative decimal wraps when it is scaled down, its digits being taken as an int64 first.

    scaledValue in apimachinery pkg/api/resource/math.go, v1.36: the path for what fits an int64 asks only whether the
    digits are *below* int64's largest, which every negative number is.
    """
    return "." in digits and digits.startswith("-") and int(digits.replace(".", "")) < -INT64_MAX
