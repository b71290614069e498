"""Bounds of quantities: hostile texts are rejected before a number is computed."""

import sys
import time

import pytest

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import (
    MAX_MAGNITUDE,
    MAX_QUANTITY_LENGTH,
    QuantityError,
    QuantityTooLargeError,
)
from tallygate.accounting.result_cache import MAX_TEXT_LENGTH

TOO_LARGE = (
    ("a huge exponent", "1e999999999"),
    ("an exponent that wraps to -2**31 in 32 bits", "1e2147483648"),
    ("an exponent that wraps to zero in 32 bits", "1e4294967296"),
    ("the largest exponent of 64 bits", "1e9223372036854775807"),
    ("a negative number with a huge exponent", "-9e999999999"),
    ("one digit more than is parsed before the point", f"1e{MAX_MAGNITUDE}"),
    ("a fraction that a huge exponent makes large", "0.001e999999999"),
    ("a megabyte of nines", "9" * 1_000_000),
    ("a megabyte of zeros", "0" * 1_000_000),
    ("a megabyte of decimals", "0." + "9" * 1_000_000),
    ("a megabyte of exponent", "1e" + "0" * 1_000_000),
    ("one character more than is parsed", "0" * (MAX_QUANTITY_LENGTH + 1)),
)
TINY = ("1e-999999999", "1e-9223372036854775808", "0.1e-2147483648", "9" * 400 + "e-999999999")
AT_THE_EDGE = (
    f"1e{MAX_MAGNITUDE - 1}",
    "0" * MAX_QUANTITY_LENGTH,
    "9" * MAX_QUANTITY_LENGTH,
    "9" * (MAX_QUANTITY_LENGTH - 2) + "Ei",
    "." + "9" * 1000,
)
NEARLY = (
    "0" * 1000 + "x",
    "1" * 1000 + "x",
    "1." + "1" * 1000 + "x",
    "Ki" * 500,
    "e" * 1000,
    "1e" + "1" * 1000,
    "." * 1000,
)

# Far above the microseconds of a bounded parse, far below the time of an unbounded one.
SOON = 0.2


def _measure_seconds(text: str) -> float:
    """Return the seconds to parse a text, the best of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        try:
            quantity = Quantity.parse(text)
            _ = (quantity.text, quantity.value(), quantity.milli(), hash(quantity), (quantity + quantity).canonical)
        except QuantityError:
            pass
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@pytest.mark.parametrize("text", [row[1] for row in TOO_LARGE], ids=[row[0] for row in TOO_LARGE])
def test_a_text_out_of_bounds_is_too_large(text: str) -> None:
    with pytest.raises(QuantityTooLargeError, match="too large") as caught:
        Quantity.parse(text)
    assert len(str(caught.value)) < 200
    assert _measure_seconds(text) < SOON


@pytest.mark.parametrize("text", TINY)
def test_a_tiny_exponent_is_one_billionth(text: str) -> None:
    assert Quantity.parse(text) == Quantity.parse("1n")
    assert _measure_seconds(text) < SOON


@pytest.mark.parametrize("text", AT_THE_EDGE, ids=lambda text: text[:8])
def test_a_text_at_the_bounds_is_parsed(text: str) -> None:
    assert Quantity.parse(text).text
    assert _measure_seconds(text) < SOON


@pytest.mark.parametrize("text", NEARLY, ids=lambda text: text[:8])
def test_a_text_that_nearly_matches_is_rejected_in_one_pass(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)
    assert _measure_seconds(text) < SOON


def test_too_large_is_a_kind_of_quantity_error() -> None:
    with pytest.raises(QuantityError):
        Quantity.parse("1e999999999")


def test_the_largest_numbers_have_fewer_digits_than_pythons_limit() -> None:
    largest = Quantity.parse("9" * MAX_QUANTITY_LENGTH)
    total = largest + Quantity.parse("1n")
    assert len(total.canonical) < sys.get_int_max_str_digits()


def test_long_texts_are_not_memoized() -> None:
    text = "0" * MAX_TEXT_LENGTH + "5"
    assert Quantity.parse(text) is not Quantity.parse(text)
    assert Quantity.parse("5") is Quantity.parse("5")
