"""Order, sums and rounding of quantities."""

import pytest

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX, Format

SI, BIN, EXP = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT


def q(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", "1000m"),
        ("1Ki", "1024"),
        ("1e3", "1k"),
        ("1.5Gi", "1536Mi"),
        ("0.0000000001", "1n"),
        ("8Ei", "9223372036854775807"),
        ("100Ei", "8Ei"),
        ("+", "0"),
        ("0Ki", "0e99"),
        ("-0", "0"),
        ("1e1000", "1000e997"),
        ("2.50", "2500000u"),
    ],
)
def test_numbers_written_differently_are_equal(left: str, right: str) -> None:
    assert q(left) == q(right)
    assert hash(q(left)) == hash(q(right))
    assert q(left) <= q(right)
    assert q(left) >= q(right)
    assert not q(left) < q(right)
    assert not q(left) > q(right)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("3", "3.0000000001"),
        ("9E", "10E"),
        ("-1", "0"),
        ("-2", "-1"),
        ("0", "1n"),
        ("1Ki", "1025"),
        ("999m", "1"),
        ("9223372036854775807", "9223372036854775808"),
        ("1e999", "1e1000"),
        ("1n", "1e1000"),
    ],
)
def test_numbers_are_ordered(less: str, more: str) -> None:
    assert q(less) < q(more)
    assert q(more) > q(less)
    assert q(less) <= q(more)
    assert q(more) >= q(less)
    assert q(less) != q(more)


def test_a_quantity_is_not_equal_to_a_number_or_text() -> None:
    assert q("3") != 3
    assert q("3") != "3"


@pytest.mark.parametrize(
    ("left", "right", "text", "form"),
    [
        ("0", "1Ki", "1Ki", BIN),
        ("0e3", "1Ki", "1Ki", BIN),
        ("0Ki", "1", "1", SI),
        ("1", "1Ki", "1025", SI),
        ("1Ki", "1", "1025", BIN),
        ("1Ki", "1023Ki", "1Mi", BIN),
        ("1e3", "1", "1001", EXP),
        ("3", "-5", "-2", SI),
        ("-3", "3", "0", SI),
        ("9223372036854775807", "1", "9223372036854775808", SI),
        ("9E", "9E", "18E", SI),
        ("600E", "400E", "1000E", SI),
        ("8Ei", "1Ki", "9223372036854776831", BIN),
        ("4Ei", "1020Ei", str(2**62 + INT64_MAX), BIN),
        ("1Ki", "1n", "1024000000001n", BIN),
        ("3.001", "0", "3001m", SI),
        ("+3", "0", "3", SI),
        ("0.5", "0.5", "1", SI),
        ("1e-9", "1e18", "1000000000000000000000000001e-9", EXP),
        ("1Gi", "512Mi", "1536Mi", BIN),
        ("1k", "24", "1024", SI),
    ],
)
def test_a_sum_keeps_the_first_format_unless_the_first_is_zero(left: str, right: str, text: str, form: Format) -> None:
    total = q(left) + q(right)
    assert (total.text, total.format) == (text, form)


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ("3", "1", "2"),
        ("1Ki", "1Ki", "0"),
        ("0", "1Ki", "-1Ki"),
        ("1Mi", "1Ki", "1023Ki"),
        ("1", "1n", "999999999n"),
        ("1e3", "1", "999"),
        ("0", "0.5", "-500m"),
        ("-1", "-3", "2"),
        ("-9223372036854775807", "9", "-9223372036854775816"),
    ],
)
def test_a_difference_is_exact(left: str, right: str, text: str) -> None:
    assert (q(left) - q(right)).text == text
    assert -(q(right) - q(left)) == q(left) - q(right)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1n", "1m"),
        ("2.9999", "3"),
        ("2.99901", "3"),
        ("2.999", "2.999"),
        ("3.0001", "3001m"),
        ("1100u", "2m"),
        ("3000m", "3"),
        ("3e0", "3e0"),
        ("+3", "+3"),
        ("03", "03"),
        ("3.", "3."),
        ("0.5m", "1m"),
        ("1e-400", "1e-3"),
        ("-1n", "-1m"),
        ("-2.9999", "-3"),
        ("1.1Ki", "1126400m"),
        ("1.0001Ki", "1024103m"),
        ("0", "0"),
        ("1e400", "10e399"),
        ("2.9999999999", "3"),
    ],
)
def test_the_api_server_rounds_up_to_thousandths(text: str, stored: str) -> None:
    assert q(text).round_up_to_milli().text == stored


def test_rounding_returns_the_same_object_if_nothing_changes() -> None:
    for text in ("+3", "3.001", "1Ki", "1E3", "0"):
        assert q(text).round_up_to_milli() is q(text)


def test_rounding_up_to_thousandths_is_idempotent() -> None:
    for text in ("1n", "2.9999", "-1.0000001", "1.0001Ki", "123456789.123456789"):
        once = q(text).round_up_to_milli()
        assert once.round_up_to_milli() == once
        assert once.milli() == once.floor_milli()


def test_a_sum_within_int64_rounds_negatives_as_int64_does() -> None:
    assert (q("-1") + q("-0.5")).value() == -2
    assert (q("-1.1Ki") + q("-0.5")).value() == -1125
