"""The canonical form of a quantity: the text that Kubernetes writes for a number in a format.

Follows `CanonicalizeBytes` (apimachinery pkg/api/resource/quantity.go, v1.36): no fraction, the largest suffix that
leaves an integer, exponents in threes.
"""

from functools import lru_cache

from webhook.accounting.quantity_grammar import Format
from webhook.accounting.scaling import power_of_ten

_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_DECIMAL_SCALE = max(_DECIMAL_SUFFIXES)
_KIBI = 1024


@lru_cache(maxsize=4096)
def format_canonical(mantissa: int, scale: int, form: Format) -> str:
    """Write `mantissa * 10**scale`.

    A binary form is decimal after all below 1024 and where it would round. Above 999E and 1023Ei Kubernetes runs out
    of suffixes and leaves them off, which changes the number (1000E reads 1); here the mantissa grows instead.
    """
    if mantissa == 0:
        return "0"
    if form is Format.BINARY_SI:
        whole = _to_integer(mantissa, scale)
        if whole is not None and abs(whole) >= _KIBI:
            return _format_binary(whole)
    return _format_decimal(mantissa, scale, form)


def _to_integer(mantissa: int, scale: int) -> int | None:
    """The number as an int, or None when it has a fraction."""
    if scale >= 0:
        return mantissa * power_of_ten(scale)
    whole, fraction = divmod(mantissa, power_of_ten(-scale))
    return None if fraction else whole


def _format_binary(number: int) -> str:
    """A whole number with the largest binary suffix that divides it."""
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and number % _KIBI == 0:
        number //= _KIBI
        power += 1
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _format_decimal(mantissa: int, scale: int, form: Format) -> str:
    """A number with a decimal suffix or exponent, of which only multiples of three are written."""
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    spare = scale % 3
    if form is not Format.DECIMAL_EXPONENT and scale - spare > _MAX_DECIMAL_SCALE:
        spare = scale - _MAX_DECIMAL_SCALE
    mantissa *= power_of_ten(spare)
    scale -= spare
    if form is Format.DECIMAL_EXPONENT:
        return f"{mantissa}e{scale}" if scale else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[scale]}"
