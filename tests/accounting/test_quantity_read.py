"""Parsing of quantities' texts, row by row."""

import pytest

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import (
    FORMAT_WRONG,
    INT64_MAX,
    NUMERIC_WRONG,
    SUFFIX_WRONG,
    Format,
    QuantityError,
)

SI, BIN, EXP = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT
EXA = 10**18

# id, text, String(), canonical, format, value, milli. Where Kubernetes' numbers wrap around, these are right.
READ: tuple[tuple[str, str, str, str, Format, int, int], ...] = (
    ("a plain number stays", "3", "3", "3", SI, 3, 3000),
    ("zero stays", "0", "0", "0", SI, 0, 0),
    ("a plus sign is kept but not canonical", "+3", "+3", "3", SI, 3, 3000),
    ("a leading zero is kept but not canonical", "03", "03", "3", SI, 3, 3000),
    ("two leading zeros are kept but not canonical", "003", "003", "3", SI, 3, 3000),
    ("thousandths that make whole units are written as units", "3000m", "3", "3", SI, 3, 3000),
    ("a zero after the point is removed", "3.0", "3", "3", SI, 3, 3000),
    ("three zeros after the point are removed", "3.000", "3", "3", SI, 3, 3000),
    ("a bare point is kept", "3.", "3.", "3", SI, 3, 3000),
    ("a bare point before a suffix is kept", "1.G", "1.G", "1G", SI, 10**9, 10**12),
    ("an absent whole part is zero", ".5", "500m", "500m", SI, 1, 500),
    ("a half is thousandths", "0.5", "500m", "500m", SI, 1, 500),
    ("three decimals are kept as written", "3.001", "3.001", "3001m", SI, 4, 3001),
    ("one decimal is written in thousandths", "3.5", "3500m", "3500m", SI, 4, 3500),
    ("thousandths stay thousandths", "3500m", "3500m", "3500m", SI, 4, 3500),
    ("four decimals are millionths", "3.0005", "3000500u", "3000500u", SI, 4, 3001),
    ("a billionth counts as one, rounded up", "1n", "1n", "1n", SI, 1, 1),
    ("half a billionth becomes one", "0.5n", "1n", "1n", SI, 1, 1),
    ("below a billionth an exponent is rounded up", "1e-10", "1e-9", "1e-9", EXP, 1, 1),
    ("far below a billionth an exponent is rounded up", "1e-400", "1e-9", "1e-9", EXP, 1, 1),
    ("below a billionth a negative is rounded away from zero", "-1e-10", "-1e-9", "-1e-9", EXP, 1, 1),
    ("binary thousands", "3Ki", "3Ki", "3Ki", BIN, 3072, 3072000),
    ("a binary fraction becomes whole", "1.5Ki", "1536", "1536", BIN, 1536, 1536000),
    ("a binary fraction takes the smaller suffix", "1.5Gi", "1536Mi", "1536Mi", BIN, 1610612736, 1610612736000),
    ("half a Ki is 512", ".5Ki", "512", "512", BIN, 512, 512000),
    ("a binary number that is not whole is decimal", "1.1Ki", "1126400m", "1126400m", BIN, 1127, 1126400),
    ("below one even the format is decimal", "0.0001Ki", "102400u", "102400u", SI, 1, 103),
    ("1024Ki is 1Mi", "1024Ki", "1Mi", "1Mi", BIN, 2**20, 2**20 * 1000),
    ("1000Ki stays", "1000Ki", "1000Ki", "1000Ki", BIN, 1024000, 1024000000),
    ("3000 is 3k", "3000", "3k", "3k", SI, 3000, 3000000),
    ("a million thousandths are 1k", "1000000m", "1k", "1k", SI, 1000, 1000000),
    ("a lone E is exa", "1E", "1E", "1E", SI, EXA, EXA * 1000),
    ("E and a number is an exponent, kept as typed", "1E3", "1E3", "1e3", EXP, 1000, 10**6),
    ("an exponent's plus is kept", "1E+3", "1E+3", "1e3", EXP, 1000, 10**6),
    ("an exponent's zero is kept", "1e03", "1e03", "1e3", EXP, 1000, 10**6),
    ("an exponent not in threes is written out", "1e2", "100", "100", EXP, 100, 10**5),
    ("an exponent of one is written out", "1e1", "10", "10", EXP, 10, 10**4),
    ("a fraction times a thousand", "1.5e3", "1500", "1500", EXP, 1500, 1500000),
    ("an exponent of zero is kept", "1e0", "1e0", "1", EXP, 1, 1000),
    ("1500e0 is kept", "1500e0", "1500e0", "1500", EXP, 1500, 1500000),
    ("1e19 takes an exponent of eighteen", "1e19", "10e18", "10e18", EXP, 10**19, 10**22),
    ("0003m is kept", "0003m", "0003m", "3m", SI, 1, 3),
    ("+03Ki is kept, three being no multiple of eight", "+03Ki", "+03Ki", "3Ki", BIN, 3072, 3072000),
    ("+8Ki is not kept", "+8Ki", "8Ki", "8Ki", BIN, 8192, 8192000),
    ("8Ei is capped at int64's largest", "8Ei", str(INT64_MAX), str(INT64_MAX), BIN, INT64_MAX, INT64_MAX * 1000),
    ("9Ei is capped at int64's largest", "9Ei", str(INT64_MAX), str(INT64_MAX), BIN, INT64_MAX, INT64_MAX * 1000),
    ("100Ei is capped at int64's largest", "100Ei", str(INT64_MAX), str(INT64_MAX), BIN, INT64_MAX, INT64_MAX * 1000),
    ("8192Pi is capped at int64's largest", "8192Pi", str(INT64_MAX), str(INT64_MAX), BIN, INT64_MAX, INT64_MAX * 1000),
    ("-8Ei is capped below", "-8Ei", str(-INT64_MAX), str(-INT64_MAX), BIN, -INT64_MAX, -INT64_MAX * 1000),
    ("7Ei is not capped", "7Ei", "7Ei", "7Ei", BIN, 7 * 2**60, 7000 * 2**60),
    ("10E is not capped", "10E", "10E", "10E", SI, 10 * EXA, 10000 * EXA),
    ("100E is not capped", "100E", "100E", "100E", SI, 100 * EXA, 100000 * EXA),
    ("1000E is kept, where Kubernetes writes 1", "1000E", "1000E", "1000E", SI, 1000 * EXA, 10**24),
    ("one above int64 is itself", "9223372036854775808", str(2**63), str(2**63), SI, 2**63, 2**63 * 1000),
    ("nineteen nines are themselves", "9" * 19, "9" * 19, "9" * 19, SI, 10**19 - 1, (10**19 - 1) * 1000),
    ("eighteen nines are themselves", "9" * 18, "9" * 18, "9" * 18, SI, EXA - 1, (EXA - 1) * 1000),
    ("too many decimals end at billionths", "1.2345678901234567891", "1234567891n", "1234567891n", SI, 2, 1235),
    ("a negative is rounded away from zero", "-1.5", "-1500m", "-1500m", SI, -2, -1500),
    ("a small negative is rounded away from zero", "-0.5", "-500m", "-500m", SI, -1, -500),
    (
        "as a decimal a negative is rounded up by one from the integer",
        "-1.0000000001",
        "-1000000001n",
        "-1000000001n",
        SI,
        0,
        -999,
    ),
    ("1e400 is itself", "1e400", "10e399", "10e399", EXP, 10**400, 10**403),
    ("a thousand digits are the most", "1e1000", "10e999", "10e999", EXP, 10**1000, 10**1003),
    ("a zero may have any exponent", "0e999999999", "0", "0", EXP, 0, 0),
    ("a zero may have any negative exponent", "0e-999999999", "0", "0", EXP, 0, 0),
    ("zeros before the number do not count", "0" * 500 + "3", "0" * 500 + "3", "3", SI, 3, 3000),
    ("zeros in the exponent do not count", "3e" + "0" * 500 + "3", "3e" + "0" * 500 + "3", "3e3", EXP, 3000, 3000000),
)

ZERO = ("+", "-", ".", "+.", "Ki", "-Ki", "m", "k", "E", "e3", "-0", "00", "0.0", ".Ti", "0Ei", "-.0e5")

NOT_THE_FORM = (
    "", " ", " 3", "3 ", "3 Ki", "1e 3", "1e3.5", "1KI", "1Kib", "1KiB", "1g", "1GB", "1,000", "1_000", "0x10", "0b1",
    "1..2", "1.2.3", "NaN", "Inf", "infinity", "true", "null", "\u0663", "\uff13", "3\n", "\t3",
    "1e3\n", "3\x00", "\uff11Ki", "\xbd", "1m.", "3\xb2", "\ud800", "\u22123",
)  # fmt: skip
NO_SUFFIX = (
    "e", "1e", "1e+", "1e-", "1Ee3", "1EE", "1K", "1ki", "1i", "1mi", "1kk", "1Mm", "1nn", "1Ei3", "1m3", "1u5", "1k+3",
    "1k-", "1+", "1-", "1+3", "--1", "+-1", "1e9223372036854775808", "1e-9223372036854775809", "1e" + "9" * 500, "1E+",
)  # fmt: skip
NO_NUMBER = ("Pi", "Ei", "+Ei", "-Pi", ".Ei", "e-10", "E-10", "+e-100", ".e-010")


@pytest.mark.parametrize(
    ("text", "expected"),
    [(text, expected) for _, text, *expected in READ],
    ids=[row[0] for row in READ],
)
def test_a_text_is_parsed(text: str, expected: list[object]) -> None:
    string, canonical, form, value, milli = expected
    quantity = Quantity.parse(text)
    assert (quantity.text, quantity.canonical, quantity.format) == (string, canonical, form)
    assert (quantity.value(), quantity.milli()) == (value, milli)


@pytest.mark.parametrize("text", ZERO)
def test_a_text_without_a_number_is_zero(text: str) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.text, quantity.value(), quantity.milli(), quantity.sign) == ("0", 0, 0, 0)
    assert quantity == Quantity.from_int(0)
    assert not quantity


@pytest.mark.parametrize(
    ("text", "error"),
    [
        *((text, FORMAT_WRONG) for text in NOT_THE_FORM),
        *((text, SUFFIX_WRONG) for text in NO_SUFFIX),
        *((text, NUMERIC_WRONG) for text in NO_NUMBER),
    ],
)
def test_an_invalid_text_has_kubernetes_error(text: str, error: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("3", True),
        ("3000m", True),
        ("3.0", True),
        ("3e0", True),
        ("1.5Ki", True),
        ("0", True),
        ("1e300", True),
        ("-2", True),
        ("10E", True),
        ("0.5", False),
        ("1n", False),
        ("2.9999", False),
        ("1.1Ki", False),
        ("-0.5", False),
        ("9223372036854775807.5", False),
    ],
)
def test_a_whole_quantity_is_exactly_an_integer(text: str, is_whole: bool) -> None:  # noqa: FBT001 - a column of the table
    assert Quantity.parse(text).is_whole is is_whole


@pytest.mark.parametrize(
    ("text", "exceeds"),
    [
        ("9223372036854775807", False),
        ("9223372036854775806.000000001", False),
        ("9223372036854775807.000000001", True),
        ("9223372036854775808", True),
        ("-9223372036854775807", False),
        ("-9223372036854775808", True),
        ("9E", False),
        ("10E", True),
        ("8Ei", False),
        ("1e18", False),
        ("1e19", True),
        ("1e1000", True),
        ("-1e19", True),
        ("1n", False),
        ("0", False),
    ],
)
def test_quantities_beyond_int64_are_recognized(text: str, exceeds: bool) -> None:  # noqa: FBT001 - a column of the table
    assert Quantity.parse(text).is_beyond_int64 is exceeds


@pytest.mark.parametrize(
    ("text", "floor", "floor_milli"),
    [
        ("3", 3, 3000),
        ("3.5", 3, 3500),
        ("3.0009", 3, 3000),
        ("1n", 0, 0),
        ("-1n", -1, -1),
        ("-3.5", -4, -3500),
        ("1.1Ki", 1126, 1126400),
        ("2Gi", 2**31, 2**31 * 1000),
        ("5e3", 5000, 5000000),
    ],
)
def test_the_floor_rounds_down(text: str, floor: int, floor_milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.floor(), quantity.floor_milli()) == (floor, floor_milli)


def test_a_quantity_is_created_from_whole_units() -> None:
    assert [Quantity.from_int(units).text for units in (0, 3, 3000, -3)] == ["0", "3", "3k", "-3"]
    assert str(Quantity.from_int(3)) == "3"
    assert repr(Quantity.parse("+03")) == "Quantity('+03')"
