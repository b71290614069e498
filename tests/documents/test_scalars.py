"""Scalars as kubectl reads them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.documents.scalars import ScalarValue, format_float, parse_kubectl_scalar

READ = [
    ("a leading zero means octal", "010", 8),
    ("0o means octal too", "0o10", 8),
    ("0x means hexadecimal", "0x10", 16),
    ("0b means binary", "-0b11", -3),
    ("underscores vanish", "3_000", 3000),
    ("a sign may stand in front", "+3", 3),
    ("digits that are not octal make a float", "08", 8.0),
    ("a point makes a float", "1_000.5", 1000.5),
    ("a point may come first", ".5", 0.5),
    ("a point may come last", "3.", 3.0),
    ("an exponent makes a float", "1e3", 1000.0),
    ("the largest int64 stays an int", "9223372036854775807", 9223372036854775807),
    ("what is beyond it passes through a float", "12345678901234567890", 1.2345678901234567e19),
    ("what is beyond uint64 does so too", "1000000000000000000000", 1e21),
    ("what is beyond a float stays text", "1e400", "1e400"),
    ("hexadecimal beyond uint64 stays text", "0xFFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFFF"),
    ("sixty is no base", "1:30", "1:30"),
    ("a date stays text", "2020-01-01", "2020-01-01"),
    ("yes is true", "yes", True),
    ("on is true", "On", True),
    ("n is false", "n", False),
    ("a tilde is null", "~", None),
    ("nothing is null", "", None),
    ("a word that looks like none of these is text", "nothing", "nothing"),
    ("a lone sign is text", "-", "-"),
    ("a prefix without digits is text", "0x", "0x"),
    ("an underscore after a point is text", "._5", "._5"),
    ("other digits than ASCII are text", "٣", "٣"),
]


@pytest.mark.parametrize(("text", "value"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_plain_scalar_has_its_value_of_kubectl(text: str, value: ScalarValue) -> None:
    """Compare with the values of sigs.k8s.io/yaml."""
    read = parse_kubectl_scalar(text)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("text", [".inf", "+.Inf", "-.INF", ".nan"])
def test_infinities_are_floats(text: str) -> None:
    """Expect floats, so that the JSON writer can reject them."""
    value = parse_kubectl_scalar(text)
    assert isinstance(value, float)
    assert not math.isfinite(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e19, "10000000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (-0.0, "-0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (2.0**63, "9223372036854775808"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_floats_are_written_as_go_writes_them(value: float, text: str) -> None:
    """Compare with encoding/json: no exponent between 1e-6 and 1e21, and zeros after the shortest digits."""
    if text == "9223372036854775808":
        text = "9223372036854776000"  # Go pads the shortest digits with zeros
    assert format_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back_from_its_text(value: float) -> None:
    """Read the shortest digits back."""
    assert float(format_float(value)) == value


@given(st.text(max_size=30))
def test_any_text_is_read(text: str) -> None:
    """Expect no crash, and text that is not a number unchanged."""
    value = parse_kubectl_scalar(text)
    assert value == text or not isinstance(value, str)


def test_a_million_digits_are_read_at_once() -> None:
    """Expect text: the number is larger than any float, and no integer is parsed."""
    digits = "9" * 1_000_000
    assert parse_kubectl_scalar(digits) == digits
