"""A quantity: an exact number and the way it is written (`3Ki`, `1500m`, `1e3`).

Follows apimachinery pkg/api/resource/quantity.go, v1.36, in grammar, rounding, arithmetic and text. It differs where
Kubernetes' integers wrap around: numbers here are Python's; `exceeds_int64` says when Kubernetes could not hold one.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from webhook.accounting.memory import remembered
from webhook.accounting.quantity_form import canonical_text, ten_to
from webhook.accounting.quantity_grammar import (
    NUMERIC_WRONG,
    Format,
    QuantityError,
    QuantityTooLargeError,
    Scanned,
    check_magnitude,
    scan,
)

__all__ = ["INT64_MAX", "Format", "Quantity", "QuantityError", "QuantityTooLargeError"]

INT64_MAX = 2**63 - 1
"""The largest number Kubernetes can hold."""

_NANO = -9
_MILLI = -3
_MAX_INT64_DIGITS = 18  # maxInt64Factors in math.go
_BINARY_PRECISION = {10: 11, 20: 8, 30: 5, 40: 2}  # digits that still take the int64 path, by power of two
# What strings.TrimSpace takes off, which is less than str.strip does.
_GO_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """The number `mantissa * 10**scale`, to be written in `format`.

    Immutable; equal, ordered and hashed by number alone. `is_decimal` tells that Kubernetes holds it as an
    arbitrary-precision decimal and not as an int64, which decides how it rounds negative fractions; `echo` is the text
    as it was written, where Kubernetes keeps that. Made by `parse`, `from_json` and `of`.
    """

    mantissa: int
    scale: int = 0
    format: Format = Format.DECIMAL_SI
    is_decimal: bool = False
    echo: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a text (resource.ParseQuantity).

        Raises:
            QuantityError: it is none, in Kubernetes' words.
            QuantityTooLargeError: it is one that Kubernetes would take, but out of any bounds.
        """
        return _parse(text)

    @classmethod
    def from_json(cls, raw: bytes | msgspec.Raw) -> Quantity:
        """Read a JSON token as it was sent (Quantity.UnmarshalJSON): a string, a number, or null for zero.

        Escapes in a string are not decoded, since Kubernetes does not.

        Raises:
            QuantityError: as `parse`.
        """
        return _from_json(bytes(raw))

    @classmethod
    def of(cls, units: int) -> Quantity:
        """A whole number of units (resource.NewQuantity, DecimalSI)."""
        return cls(units)

    @property
    def text(self) -> str:
        """As Kubernetes prints it (Quantity.String): as written where that looked canonical, else canonical."""
        return self.echo or self.canonical

    @property
    def canonical(self) -> str:
        """The canonical form (Quantity.CanonicalizeBytes)."""
        return canonical_text(self.mantissa, self.scale, self.format)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer, exactly."""
        return self.scale >= 0 or self.mantissa % ten_to(-self.scale) == 0

    @property
    def exceeds_int64(self) -> bool:
        """Whether it is too large for Kubernetes, where it would wrap around."""
        return abs(_scaled(self.mantissa, self.scale, 0, is_decimal=False)) > INT64_MAX

    def value(self) -> int:
        """Whole units, rounded up (Quantity.Value), never wrapped.

        Kubernetes rounds negative fractions away from zero when it holds them as int64, and one further up than to the
        next integer when it holds them as decimals (math.go, scaledValue); so does this.
        """
        return _scaled(self.mantissa, self.scale, 0, is_decimal=self.is_decimal)

    def milli(self) -> int:
        """Thousandths, rounded up like `value` (Quantity.MilliValue), never wrapped."""
        return _scaled(self.mantissa, self.scale, _MILLI, is_decimal=self.is_decimal)

    def floor(self) -> int:
        """Whole units, rounded down."""
        return _floored(self.mantissa, self.scale, 0)

    def floor_milli(self) -> int:
        """Thousandths, rounded down."""
        return _floored(self.mantissa, self.scale, _MILLI)

    def rounded_up_to_milli(self) -> Quantity:
        """What the API server's defaulter makes of it: no finer than thousandths, away from zero.

        Quantity.RoundUp(Milli), called for every value of a ResourceList (pkg/apis/core/v1/defaults.go). Itself when
        nothing changes, so that the text stays as it was written.
        """
        if self.scale >= _MILLI:
            return self
        milli = _scaled(self.mantissa, self.scale, _MILLI, is_decimal=False)
        return Quantity(milli, _MILLI, self.format, self.is_decimal)

    def __add__(self, other: Quantity) -> Quantity:
        """The exact sum, in this one's format, or the other's when this one is zero (Quantity.Add)."""
        form = self.format if self.mantissa else other.format
        scale, mine, theirs = _aligned(self, other)
        is_decimal = self.is_decimal or other.is_decimal or _overflows(mine, theirs, mine + theirs)
        return Quantity(mine + theirs, scale, form, is_decimal)

    def __sub__(self, other: Quantity) -> Quantity:
        """The exact difference, in the format of a sum (Quantity.Sub)."""
        return self + -other

    def __neg__(self) -> Quantity:
        """The same with the other sign (Quantity.Neg)."""
        return Quantity(-self.mantissa, self.scale, self.format, self.is_decimal)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return _difference(self, other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return _difference(self, other) < 0

    def __le__(self, other: Quantity) -> bool:
        return _difference(self, other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return _difference(self, other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return _difference(self, other) >= 0

    def __bool__(self) -> bool:
        """Whether it is not zero."""
        return self.mantissa != 0

    def __hash__(self) -> int:
        mantissa, scale = self.mantissa, self.scale
        if mantissa == 0:
            return 0
        while mantissa % 10 == 0:
            mantissa //= 10
            scale += 1
        return hash((mantissa, scale))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


_ZERO = Quantity(0)


@remembered
def _parse(text: str) -> Quantity:
    """What `parse` does."""
    if text == "0":
        return _ZERO
    scanned = scan(text)
    is_decimal = _takes_decimal_path(scanned)
    if is_decimal and not scanned.has_digits:
        raise QuantityError(NUMERIC_WRONG)
    if not (scanned.whole + scanned.fraction).strip("0"):
        return Quantity(0, format=scanned.format, is_decimal=is_decimal)
    check_magnitude(scanned)
    return _decimal(scanned) if is_decimal else _int64(scanned, text)


@remembered
def _from_json(token: bytes) -> Quantity:
    """What `from_json` does."""
    if token == b"null":
        return _ZERO
    text = token.decode("utf-8", "replace")
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    return Quantity.parse(text.strip(_GO_SPACE))


def _takes_decimal_path(scanned: Scanned) -> bool:
    """Whether ParseQuantity reads it into a decimal, as it does with all that might not fit an int64."""
    digits = len(scanned.whole)
    if scanned.format is Format.BINARY_SI:
        return bool(scanned.fraction) or digits > _BINARY_PRECISION.get(scanned.exponent, 0)
    places = len(scanned.fraction)
    return digits + places > _MAX_INT64_DIGITS or scanned.exponent - places < _NANO


def _int64(scanned: Scanned, text: str) -> Quantity:
    """Read as ParseQuantity does on its fast path, which keeps the text when it looks canonical already."""
    digits = scanned.whole + scanned.fraction
    number = int(digits)
    if scanned.format is Format.BINARY_SI:
        mantissa, scale = number << scanned.exponent, 0
        keeps = number % 8 != 0
    else:
        mantissa, scale = number, scanned.exponent - len(scanned.fraction)
        keeps = scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return Quantity(-mantissa if scanned.negative else mantissa, scale, scanned.format, echo=text if keeps else "")


def _decimal(scanned: Scanned) -> Quantity:
    """Read as ParseQuantity does off its fast path: to nano precision, binary ones capped, the text forgotten."""
    form = scanned.format
    digits, scale = int(scanned.whole + scanned.fraction), -len(scanned.fraction)
    if form is Format.BINARY_SI:
        digits <<= scanned.exponent
    else:
        scale += scanned.exponent
    if scale < _NANO:
        digits, scale = _nano(digits, scale), _NANO
    if form is Format.BINARY_SI:
        digits, scale, form = _capped(digits, scale)
    return Quantity(-digits if scanned.negative else digits, scale, form, is_decimal=True)


def _nano(digits: int, scale: int) -> int:
    """Billionths, rounded up; a positive number never becomes zero. No power is made that is longer than the text."""
    if scale < _NANO - len(str(digits)):
        return 1
    return -(-digits // ten_to(_NANO - scale))


def _capped(digits: int, scale: int) -> tuple[int, int, Format]:
    """A positive binary number held to int64's largest, and written in decimal below 1."""
    unit = ten_to(-scale)
    if digits > INT64_MAX * unit:
        return INT64_MAX, 0, Format.BINARY_SI
    return digits, scale, Format.BINARY_SI if digits >= unit else Format.DECIMAL_SI


def _scaled(mantissa: int, scale: int, target: int, *, is_decimal: bool) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded as ScaledValue does."""
    if scale >= target:
        return mantissa * ten_to(scale - target)
    quotient, rest = divmod(abs(mantissa), ten_to(target - scale))
    if mantissa >= 0:
        return quotient + bool(rest)
    return bool(rest) - quotient if is_decimal else -quotient - bool(rest)


def _floored(mantissa: int, scale: int, target: int) -> int:
    """`mantissa * 10**scale` in units of `10**target`, rounded down."""
    if scale >= target:
        return mantissa * ten_to(scale - target)
    return mantissa // ten_to(target - scale)


def _aligned(one: Quantity, other: Quantity) -> tuple[int, int, int]:
    """The finer scale of two numbers, and both as mantissas of it. A zero has no scale of its own."""
    if not other.mantissa:
        return one.scale, one.mantissa, 0
    if not one.mantissa:
        return other.scale, 0, other.mantissa
    scale = min(one.scale, other.scale)
    return scale, one.mantissa * ten_to(one.scale - scale), other.mantissa * ten_to(other.scale - scale)


def _difference(one: Quantity, other: Quantity) -> int:
    """Negative, zero or positive as the first is less than, equal to or greater than the second (Quantity.Cmp)."""
    if one.scale == other.scale:
        return one.mantissa - other.mantissa
    _, mine, theirs = _aligned(one, other)
    return mine - theirs


def _overflows(*numbers: int) -> bool:
    """Whether one of them does not fit an int64."""
    return any(abs(number) > INT64_MAX for number in numbers)
