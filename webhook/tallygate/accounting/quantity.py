"""Quantities: an exact number and the way it is written (`3Ki`, `1500m`, `1e3`), and its canonical text.

`Quantity` follows apimachinery pkg/api/resource/quantity.go, v1.36, in grammar, rounding, arithmetic and text. It
differs where the integers of Kubernetes wrap around: numbers are Python ints here; `is_beyond_int64` marks the numbers
that Kubernetes cannot represent.

The canonical form is the text that Kubernetes writes for a number in a format. It follows `CanonicalizeBytes` (same
file): no fraction, the largest suffix that leaves an integer, exponents in threes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from tallygate.accounting import quantity_parser
from tallygate.accounting.result_cache import memoize

_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MAX_DECIMAL_SCALE = max(_DECIMAL_SUFFIXES)
_KIBI = 1024

_MILLI = -3
_MAX_WRITTEN = 64
"""The longest text that is shown as it is written; of a longer one the canonical form is clearer."""


class Quantity:
    """The number `mantissa * 10**scale`, to be written in `format`.

    Immutable; equal, ordered and hashed by number alone. `is_decimal` is True if Kubernetes represents the number as an
    arbitrary-precision decimal and not as an int64, which decides how it rounds negative fractions. `original_text` is
    the text as it was written, if Kubernetes keeps it. `written` is the text as its author wrote it, empty for a number
    that was computed. Made by `parse`, `from_json` and `from_int`.

    A message for a person has `str(quantity)`, which is as it is `written`; Kubernetes' own words have its `text`.
    """

    # Not frozen: that makes each sum three times as slow. `Final` makes the type checker reject changes instead.
    __slots__ = ("format", "is_decimal", "mantissa", "original_text", "scale", "written")

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a parsed text, in their order
        self,
        mantissa: int,
        scale: int = 0,
        format: quantity_parser.Format = quantity_parser.Format.DECIMAL_SI,  # noqa: A002  # as in Kubernetes
        is_decimal: bool = False,  # noqa: FBT001, FBT002
        original_text: str = "",
        written: str = "",
    ) -> None:
        self.mantissa: Final = mantissa
        self.scale: Final = scale
        self.format: Final = format
        self.is_decimal: Final = is_decimal
        self.original_text: Final = original_text
        self.written: Final = written

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Parse a text (resource.ParseQuantity).

        Raises:
            QuantityError: if the text is no quantity, in Kubernetes' words.
            QuantityTooLargeError: if Kubernetes would accept the text, but it exceeds the limits of this parser.
        """
        return _parse(text)

    @classmethod
    def from_json(cls, raw: bytes | msgspec.Raw) -> Quantity:
        """Parse a JSON token as it was sent (Quantity.UnmarshalJSON): a string, a number, or null for zero.

        Escapes in a string are not decoded, since Kubernetes does not decode them.

        Raises:
            QuantityError: as `parse`.
        """
        return _from_json(bytes(raw))

    @classmethod
    def from_int(cls, units: int) -> Quantity:
        """Return a whole number of units (resource.NewQuantity, DecimalSI)."""
        return cls(units)

    @property
    def text(self) -> str:
        """The text that Kubernetes prints (Quantity.String): the original if it looked canonical, else canonical."""
        return self.original_text or self.canonical

    @property
    def canonical(self) -> str:
        """The canonical form (Quantity.CanonicalizeBytes)."""
        return format_canonical(self.mantissa, self.scale, self.format)

    @property
    def sign(self) -> int:
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_whole(self) -> bool:
        """Whether the number is an integer, exactly."""
        return self.scale >= 0 or self.mantissa % quantity_parser.power_of_ten(-self.scale) == 0

    @property
    def is_beyond_int64(self) -> bool:
        """Whether the number is too large for Kubernetes, where it would wrap around."""
        return abs(quantity_parser.round_up(self.mantissa, self.scale, 0)) > quantity_parser.INT64_MAX

    def value(self) -> int:
        """Return whole units, rounded up (Quantity.Value), never wrapped.

        Kubernetes rounds negative fractions away from zero if it represents them as int64, and one further up than to
        the next integer if it represents them as decimals (math.go, scaledValue); this method does the same.
        """
        return (quantity_parser.round_as_decimal if self.is_decimal else quantity_parser.round_up)(
            self.mantissa, self.scale, 0
        )

    def milli(self) -> int:
        """Return thousandths, rounded up like `value` (Quantity.MilliValue), never wrapped."""
        return (quantity_parser.round_as_decimal if self.is_decimal else quantity_parser.round_up)(
            self.mantissa, self.scale, _MILLI
        )

    def align(self, other: Quantity) -> tuple[int, int, int]:
        """Return the mantissas of this number and another one at one scale, and that scale; both are exact."""
        scale = min(self.scale, other.scale)
        return self.mantissa * 10 ** (self.scale - scale), other.mantissa * 10 ** (other.scale - scale), scale

    def is_multiple_of(self, unit: Quantity) -> bool:
        """Return whether the number is an exact whole multiple of a unit; nothing is a multiple of zero."""
        mantissa, unit_mantissa, _ = self.align(unit)
        return unit_mantissa != 0 and mantissa % unit_mantissa == 0

    def floor(self) -> int:
        """Return whole units, rounded down."""
        return quantity_parser.round_down(self.mantissa, self.scale, 0)

    def floor_milli(self) -> int:
        """Return thousandths, rounded down."""
        return quantity_parser.round_down(self.mantissa, self.scale, _MILLI)

    def round_up_to_milli(self) -> Quantity:
        """Round to thousandths, away from zero, as the API server's defaulter does.

        Source: Quantity.RoundUp(Milli), called for every value of a ResourceList (pkg/apis/core/v1/defaults.go). Return
        the quantity itself if nothing changes, so that its text stays as it was written.
        """
        if self.scale >= _MILLI:
            return self
        return Quantity(
            quantity_parser.round_up(self.mantissa, self.scale, _MILLI), _MILLI, self.format, self.is_decimal
        )

    def __add__(self, other: Quantity) -> Quantity:
        """Return the exact sum in the format of this quantity, or of the other if this one is zero (Quantity.Add)."""
        form = self.format if self.mantissa else other.format
        scale, left, right = _align(self, other)
        total = left + right
        is_decimal = self.is_decimal or other.is_decimal or not _is_within_int64(left, right, total)
        written = self.written if not other.mantissa else other.written if not self.mantissa else ""
        return Quantity(total, scale, form, is_decimal, written=written)

    def __sub__(self, other: Quantity) -> Quantity:
        """Return the exact difference, in the format of a sum (Quantity.Sub)."""
        return self + -other

    def __neg__(self) -> Quantity:
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
        """Return the text as its author wrote it, else a text of the same number that a person reads."""
        if self.written:
            return self.written
        if self.format is quantity_parser.Format.BINARY_SI and not self.is_whole:
            return _format_binary_fraction(self)
        return self.text

    def __repr__(self) -> str:
        return f"Quantity({self.text!r})"


_SMALLER_UNITS: Final[dict[str, tuple[str, int]]] = {
    **{
        unit: (smaller, 1024**power)
        for unit, smaller, power in (
            ("Ei", "Pi", 5),
            ("Pi", "Ti", 4),
            ("Ti", "Gi", 3),
            ("Gi", "Mi", 2),
            ("Mi", "Ki", 1),
            ("Ki", "", 0),
        )
    },
    **{
        unit: (smaller, 1000**power)
        for unit, smaller, power in (
            ("E", "P", 5),
            ("P", "T", 4),
            ("T", "G", 3),
            ("G", "M", 2),
            ("M", "k", 1),
            ("k", "", 0),
        )
    },
}
"""By the suffix of an amount: that of the next smaller unit, and its bytes."""


def suggest_whole(quantity: Quantity) -> str:
    """Return the next whole amount that is not less, in the next smaller unit of the one in which it is written.

    For `1.2Gi` it is `1229Mi`, for `1.5` and `1500m` it is `2`.
    """
    suffix, size = next((_SMALLER_UNITS[unit] for unit in _SMALLER_UNITS if str(quantity).endswith(unit)), ("", 1))
    return f"{-(-quantity.value() // size)}{suffix}"


def format_decimal_point(quantity: Quantity) -> str:
    """Return a number with a decimal point and without a suffix: `1.5` in place of `1500m`."""
    digits, decimals = f"{abs(quantity.mantissa) * 10 ** max(quantity.scale, 0)}", max(-quantity.scale, 0)
    digits = digits.zfill(decimals + 1)
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    sign = "-" if quantity.sign < 0 else ""
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _format_binary_fraction(quantity: Quantity) -> str:
    """Return a fraction in the largest unit in which it has at most three decimals: `3.6Gi`, else in bytes."""
    scale = -quantity.scale
    for power in range(len(_BINARY_SUFFIXES) - 1, 0, -1):
        # the number is mantissa / 10**scale; in this unit its thousandths are whole if nothing remains
        thousandths, rest = divmod(quantity.mantissa * 1000, 10**scale * _KIBI**power)
        if not rest:
            return f"{format_decimal_point(Quantity(thousandths, _MILLI))}{_BINARY_SUFFIXES[power]}"
    return format_decimal_point(quantity)


@lru_cache(maxsize=4096)
def format_canonical(mantissa: int, scale: int, form: quantity_parser.Format) -> str:
    """Return the canonical text of `mantissa * 10**scale`.

    A number in a binary form is written in decimal if it is below 1024 or would be rounded. Above 999E and 1023Ei
    Kubernetes has no more suffixes and omits them, which changes the number (1000E reads 1); here the mantissa grows
    instead.
    """
    if mantissa == 0:
        return "0"
    if form is quantity_parser.Format.BINARY_SI:
        whole = _to_integer(mantissa, scale)
        if whole is not None and abs(whole) >= _KIBI:
            return _format_binary(whole)
    return _format_decimal(mantissa, scale, form)


@memoize
def _parse(text: str) -> Quantity:
    written = text if len(text) <= _MAX_WRITTEN else ""
    return Quantity(*quantity_parser.parse_text(text), written=written)


@memoize
def _from_json(token: bytes) -> Quantity:
    return Quantity(0) if token == b"null" else Quantity.parse(quantity_parser.extract_text(token))


def _align(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """Return the finer scale of two numbers, and both as mantissas of it.

    A zero has no scale of its own. In Kubernetes a zero with 19 decimals or more has one, which affects only the
    rounding of a negative fraction that is added to it.
    """
    if left.scale == right.scale:
        return left.scale, left.mantissa, right.mantissa
    if not right.mantissa:
        return left.scale, left.mantissa, 0
    if not left.mantissa:
        return right.scale, 0, right.mantissa
    scale = min(left.scale, right.scale)
    return (
        scale,
        left.mantissa * quantity_parser.power_of_ten(left.scale - scale),
        right.mantissa * quantity_parser.power_of_ten(right.scale - scale),
    )


def _compare(left: Quantity, right: Quantity) -> int:
    """Return a negative number, zero or a positive number: the first is less, equal or greater (Quantity.Cmp)."""
    if left.scale == right.scale:
        return left.mantissa - right.mantissa
    _, left_mantissa, right_mantissa = _align(left, right)
    return left_mantissa - right_mantissa


def _is_within_int64(left: int, right: int, total: int) -> bool:
    """Return whether two aligned mantissas and their sum all fit an int64."""
    return (
        abs(left) <= quantity_parser.INT64_MAX
        and abs(right) <= quantity_parser.INT64_MAX
        and abs(total) <= quantity_parser.INT64_MAX
    )


def _to_integer(mantissa: int, scale: int) -> int | None:
    """Return the number as an int, or None if it has a fraction."""
    if scale >= 0:
        return mantissa * quantity_parser.power_of_ten(scale)
    whole, fraction = divmod(mantissa, quantity_parser.power_of_ten(-scale))
    return None if fraction else whole


def _format_binary(number: int) -> str:
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and number % _KIBI == 0:
        number //= _KIBI
        power += 1
    return f"{number}{_BINARY_SUFFIXES[power]}"


def _format_decimal(mantissa: int, scale: int, form: quantity_parser.Format) -> str:
    """Return a number with a decimal suffix or exponent; only multiples of three are written."""
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    spare = scale % 3
    if form is not quantity_parser.Format.DECIMAL_EXPONENT and scale - spare > _MAX_DECIMAL_SCALE:
        spare = scale - _MAX_DECIMAL_SCALE
    mantissa *= quantity_parser.power_of_ten(spare)
    scale -= spare
    if form is quantity_parser.Format.DECIMAL_EXPONENT:
        return f"{mantissa}e{scale}" if scale else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[scale]}"
