"""What somebody may have meant by a text that is no quantity."""

import re

from webhook.accounting.quantity import Quantity, QuantityError

_LONGEST = 64
_SHAPE = re.compile(r"([+-]?)\s*([0-9][0-9_, ]*+(?:\.[0-9]+)?+)\s*([A-Za-z]*+)")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:[,_ ][0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL = {"k": "k", "m": "M", "g": "G", "t": "T", "p": "P", "e": "E"}
_UNITS = frozenset({"b", "byte", "bytes"})


def meant(text: str) -> tuple[str, ...]:
    """Quantities that look like a text that is none: `1GB` is near `1G` and `1Gi`, `1,5` near `1.5`. Empty for most."""
    shape = _SHAPE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if shape is None:
        return ()
    sign, number, suffix = shape.groups()
    digits = sign + _plain(number.strip())
    return tuple(digits + each for each in _suffixes(suffix.lower()) if _is_quantity(digits + each))


def _plain(number: str) -> str:
    """A number without separators; a comma before anything but thousands is a decimal point."""
    if _THOUSANDS.fullmatch(number):
        return re.sub("[,_ ]", "", number)
    return number.replace(",", ".").replace("_", "").replace(" ", "")


def _suffixes(suffix: str) -> tuple[str, ...]:
    """The suffixes that a lower-case one may stand for, decimal first."""
    if not suffix or suffix in _UNITS:
        return ("",)
    decimal, rest = _DECIMAL.get(suffix[0]), suffix[1:]
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
