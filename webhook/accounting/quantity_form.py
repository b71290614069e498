"""The canonical form of a quantity: the text that Kubernetes writes for a number in a format.

Follows `CanonicalizeBytes` (apimachinery pkg/api/resource/quantity.go, v1.36): no fraction, the largest suffix that
leaves an integer, exponents in threes.
"""

from functools import lru_cache

from webhook.accounting.quantity_grammar import Format
from webhook.accounting.scaling import ten_to

_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST_DECIMAL = max(_DECIMAL)
_KIBI = 1024


@lru_cache(maxsize=4096)
def canonical_text(mantissa: int, scale: int, form: Format) -> str:
    """Write `mantissa * 10**scale`.

    A binary form is decimal after all below 1024 and where it would round. Above 999E and 1023Ei Kubernetes runs out
    of suffixes and leaves them off, which changes the number (1000E reads 1); here the mantissa grows instead.
    """
    if mantissa == 0:
        return "0"
    if form is Format.BINARY_SI:
        whole = _whole(mantissa, scale)
        if whole is not None and abs(whole) >= _KIBI:
            return _binary(whole)
    return _decimal(mantissa, scale, form)


def _whole(mantissa: int, scale: int) -> int | None:
    """The number as an int, or None when it has a fraction."""
    if scale >= 0:
        return mantissa * ten_to(scale)
    whole, fraction = divmod(mantissa, ten_to(-scale))
    return None if fraction else whole


def _binary(number: int) -> str:
    """A whole number with the largest binary suffix that divides it."""
    power = 0
    while power < len(_BINARY) - 1 and number % _KIBI == 0:
        number //= _KIBI
        power += 1
    return f"{number}{_BINARY[power]}"


def _decimal(mantissa: int, scale: int, form: Format) -> str:
    """A number with a decimal suffix or exponent, of which only multiples of three are written."""
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    spare = scale % 3
    if form is not Format.DECIMAL_EXPONENT and scale - spare > _LARGEST_DECIMAL:
        spare = scale - _LARGEST_DECIMAL
    mantissa *= ten_to(spare)
    scale -= spare
    if form is Format.DECIMAL_EXPONENT:
        return f"{mantissa}e{scale}" if scale else str(mantissa)
    return f"{mantissa}{_DECIMAL[scale]}"
