"""What somebody may have meant by a text that is no quantity."""

import re

from webhook.accounting.quantity import Quantity, QuantityError

_MAX_LENGTH = 64
_NUMBER_AND_SUFFIX = re.compile(r"([+-]?)\s*([0-9][0-9_, ]*+(?:\.[0-9]+)?+)\s*([A-Za-z]*+)")
_GROUPED_THOUSANDS = re.compile(r"[0-9]{1,3}(?:[,_ ][0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL_SUFFIXES = {"k": "k", "m": "M", "g": "G", "t": "T", "p": "P", "e": "E"}
_BYTE_UNITS = frozenset({"b", "byte", "bytes"})


def suggest_quantities(text: str) -> tuple[str, ...]:
    """Quantities that look like a text that is none: `1GB` is near `1G` and `1Gi`, `1,5` near `1.5`. Empty for most."""
    match = _NUMBER_AND_SUFFIX.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return ()
    sign, number, suffix = match.groups()
    digits = sign + _remove_separators(number.strip())
    return tuple(digits + each for each in _suggest_suffixes(suffix.lower()) if _is_quantity(digits + each))


def _remove_separators(number: str) -> str:
    """A number without separators; a comma before anything but thousands is a decimal point."""
    if _GROUPED_THOUSANDS.fullmatch(number):
        return re.sub("[,_ ]", "", number)
    return number.replace(",", ".").replace("_", "").replace(" ", "")


def _suggest_suffixes(suffix: str) -> tuple[str, ...]:
    """The suffixes that a lower-case one may stand for, decimal first."""
    if not suffix or suffix in _BYTE_UNITS:
        return ("",)
    decimal, rest = _DECIMAL_SUFFIXES.get(suffix[0]), suffix[1:]
    if decimal is None or rest.removesuffix("b") not in {"", "i"}:
        return ()
    binary = decimal.upper() + "i"
    return (binary,) if rest.startswith("i") else (decimal, binary)


def _is_quantity(text: str) -> bool:
    """Whether a suggestion would pass."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
