"""Scaling with three kinds of rounding, compared with fractions."""

from fractions import Fraction
from math import ceil, floor, trunc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.quantity_parser import power_of_ten, round_as_decimal, round_down, round_up

MANTISSAS = st.integers(-(10**25), 10**25)
SCALES = st.integers(-12, 12)


@pytest.mark.parametrize("exponent", [0, 1, 9, 63, 64, 65, 1000])
def test_powers_of_ten_are_exact(exponent: int) -> None:
    assert power_of_ten(exponent) == int("1" + "0" * exponent)


@pytest.mark.parametrize(
    ("number", "target", "up", "as_decimal", "down"),
    [
        ((15, -1), 0, 2, 2, 1),
        ((-15, -1), 0, -2, 0, -2),
        ((-5, -1), 0, -1, 1, -1),
        ((-1001, -3), -3, -1001, -1001, -1001),
        ((-10, -1), 0, -1, -1, -1),
        ((3, 0), -3, 3000, 3000, 3000),
        ((1, -9), 0, 1, 1, 0),
        ((0, -9), 0, 0, 0, 0),
        ((-1, 3), 0, -1000, -1000, -1000),
    ],
)
def test_each_kind_rounds_in_its_direction(
    number: tuple[int, int], target: int, up: int, as_decimal: int, down: int
) -> None:
    assert round_up(*number, target) == up
    assert round_as_decimal(*number, target) == as_decimal
    assert round_down(*number, target) == down


@given(MANTISSAS, SCALES, SCALES)
def test_each_kind_rounds_as_fractions_do(mantissa: int, scale: int, target: int) -> None:
    exact = Fraction(mantissa) * Fraction(10) ** (scale - target)
    whole = trunc(exact)
    assert round_up(mantissa, scale, target) == (ceil(exact) if exact > 0 else floor(exact))
    assert round_down(mantissa, scale, target) == floor(exact)
    assert round_as_decimal(mantissa, scale, target) == (whole if exact == whole else whole + 1)
