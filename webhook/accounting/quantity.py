"""A quantity: an exact number and the way it is written (`3Ki`, `1500m`, `1e3`).

Follows apimachinery pkg/api/resource/quantity.go, v1.36, in grammar, rounding, arithmetic and text. It differs where
Kubernetes' integers wrap around: numbers here are Python's; `exceeds_int64` says when Kubernetes could not hold one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.accounting.memory import memoize
from webhook.accounting.quantity_form import format_canonical
from webhook.accounting.quantity_grammar import Format, QuantityError, QuantityTooLargeError
from webhook.accounting.quantity_reading import INT64_MAX, extract_text, parse_text
from webhook.accounting.scaling import power_of_ten, round_as_decimal, round_down, round_up

__all__ = ["INT64_MAX", "Format", "Quantity", "QuantityError", "QuantityTooLargeError"]

_MILLI = -3


# Not frozen: that makes each sum three times as slow. `Final` lets the type checker hold it immutable instead.
@dataclass(slots=True, eq=False, repr=False)
class Quantity:
    """The number `mantissa * 10**scale`, to be written in `format`.

    Immutable; equal, ordered and hashed by number alone. `is_decimal` tells that Kubernetes holds it as an
    arbitrary-precision decimal and not as an int64, which decides how it rounds negative fractions; `echo` is the text
    as it was written, where Kubernetes keeps that. Made by `parse`, `from_json` and `of`.
    """

    mantissa: Final[int]
    scale: Final[int] = 0
    format: Final[Format] = Format.DECIMAL_SI
    is_decimal: Final[bool] = False
    original_text: Final[str] = ""

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
    def from_int(cls, units: int) -> Quantity:
        """A whole number of units (resource.NewQuantity, DecimalSI)."""
        return cls(units)

    @property
    def text(self) -> str:
        """As Kubernetes prints it (Quantity.String): as written where that looked canonical, else canonical."""
        return self.original_text or self.canonical

    @property
    def canonical(self) -> str:
        """The canonical form (Quantity.CanonicalizeBytes)."""
        return format_canonical(self.mantissa, self.scale, self.format)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer, exactly."""
        return self.scale >= 0 or self.mantissa % power_of_ten(-self.scale) == 0

    @property
    def is_beyond_int64(self) -> bool:
        """Whether it is too large for Kubernetes, where it would wrap around."""
        return abs(round_up(self.mantissa, self.scale, 0)) > INT64_MAX

    def value(self) -> int:
        """Whole units, rounded up (Quantity.Value), never wrapped.

        Kubernetes rounds negative fractions away from zero when it holds them as int64, and one further up than to the
        next integer when it holds them as decimals (math.go, scaledValue); so does this.
        """
        return (round_as_decimal if self.is_decimal else round_up)(self.mantissa, self.scale, 0)

    def milli(self) -> int:
        """Thousandths, rounded up like `value` (Quantity.MilliValue), never wrapped."""
        return (round_as_decimal if self.is_decimal else round_up)(self.mantissa, self.scale, _MILLI)

    def floor(self) -> int:
        """Whole units, rounded down."""
        return round_down(self.mantissa, self.scale, 0)

    def floor_milli(self) -> int:
        """Thousandths, rounded down."""
        return round_down(self.mantissa, self.scale, _MILLI)

    def round_up_to_milli(self) -> Quantity:
        """What the API server's defaulter makes of it: no finer than thousandths, away from zero.

        Quantity.RoundUp(Milli), called for every value of a ResourceList (pkg/apis/core/v1/defaults.go). Itself when
        nothing changes, so that the text stays as it was written.
        """
        if self.scale >= _MILLI:
            return self
        return Quantity(round_up(self.mantissa, self.scale, _MILLI), _MILLI, self.format, self.is_decimal)

    def __add__(self, other: Quantity) -> Quantity:
        """The exact sum, in this one's format, or the other's when this one is zero (Quantity.Add)."""
        form = self.format if self.mantissa else other.format
        scale, left, right = _align(self, other)
        total = left + right
        is_decimal = self.is_decimal or other.is_decimal or not _is_within_int64(left, right, total)
        return Quantity(total, scale, form, is_decimal)

    def __sub__(self, other: Quantity) -> Quantity:
        """The exact difference, in the format of a sum (Quantity.Sub)."""
        return self + -other

    def __neg__(self) -> Quantity:
        """The same with the other sign (Quantity.Neg)."""
        return Quantity(-self.mantissa, self.scale, self.format, self.is_decimal)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return _compare(self, other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return _compare(self, other) < 0

    def __le__(self, other: Quantity) -> bool:
        return _compare(self, other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return _compare(self, other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return _compare(self, other) >= 0

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


@memoize
def _parse(text: str) -> Quantity:
    """What `parse` does."""
    return Quantity(*parse_text(text))


@memoize
def _from_json(token: bytes) -> Quantity:
    """What `from_json` does."""
    return Quantity(0) if token == b"null" else Quantity.parse(extract_text(token))


def _align(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """The finer scale of two numbers, and both as mantissas of it.

    A zero has no scale of its own. In Kubernetes one written with 19 decimals or more has, which shows in nothing but
    the rounding of a negative fraction that is added to it.
    """
    if left.scale == right.scale:
        return left.scale, left.mantissa, right.mantissa
    if not right.mantissa:
        return left.scale, left.mantissa, 0
    if not left.mantissa:
        return right.scale, 0, right.mantissa
    scale = min(left.scale, right.scale)
    return scale, left.mantissa * power_of_ten(left.scale - scale), right.mantissa * power_of_ten(right.scale - scale)


def _compare(left: Quantity, right: Quantity) -> int:
    """Negative, zero or positive as the first is less than, equal to or greater than the second (Quantity.Cmp)."""
    if left.scale == right.scale:
        return left.mantissa - right.mantissa
    _, left_mantissa, right_mantissa = _align(left, right)
    return left_mantissa - right_mantissa


def _is_within_int64(left: int, right: int, total: int) -> bool:
    """Whether two aligned mantissas and their sum all fit an int64."""
    return abs(left) <= INT64_MAX and abs(right) <= INT64_MAX and abs(total) <= INT64_MAX
