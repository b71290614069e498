"""Properties of all quantities, compared with Python's fractions."""

from contextlib import suppress
from fractions import Fraction
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import INT64_MAX, Format, QuantityError
from tests.conformance.integer_overflow import parse_exactly

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DIGITS = st.text("0123456789", max_size=22)
EXPONENTS = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 40))
TEXTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    st.text("0123456789", min_size=1, max_size=22),
    st.one_of(st.just(""), DIGITS.map(".{}".format)),
    st.one_of(st.sampled_from(SUFFIXES), EXPONENTS),
)
QUANTITIES = TEXTS.map(Quantity.parse)
ALPHABET = "0123456789.+-eEinumkKMGTP"
NANO = 10**9


def get_exact_value(quantity: Quantity) -> Fraction:
    return Fraction(quantity.mantissa) * Fraction(10) ** quantity.scale


def parse_fraction(text: str) -> Fraction:
    found = parse_exactly(text)
    assert found is not None
    return found


def round_away_from_zero(amount: Fraction) -> int:
    return ceil(amount) if amount > 0 else floor(amount)


@given(TEXTS)
def test_a_text_is_its_number_to_the_billionth_and_binary_ones_are_capped(text: str) -> None:
    wanted = Fraction(round_away_from_zero(parse_fraction(text) * NANO), NANO)
    if text.endswith("i"):
        wanted = max(-Fraction(INT64_MAX), min(Fraction(INT64_MAX), wanted))
    assert get_exact_value(Quantity.parse(text)) == wanted


@given(QUANTITIES)
def test_canonical_text_reads_back_as_the_same_number(quantity: Quantity) -> None:
    again = Quantity.parse(quantity.canonical)
    assert again == quantity
    assert again.canonical == quantity.canonical
    assert again.text == quantity.canonical


@given(QUANTITIES)
def test_text_reads_back_as_the_same_quantity(quantity: Quantity) -> None:
    again = Quantity.parse(quantity.text)
    assert (again, again.text) == (quantity, quantity.text)


@given(QUANTITIES)
def test_canonical_form_has_no_fraction_no_plus_and_no_spare_zeros(quantity: Quantity) -> None:
    canonical = quantity.canonical
    assert "." not in canonical
    assert not canonical.startswith("+")
    digits = canonical.lstrip("-").rstrip("numkKMGTPEi").partition("e")[0]
    assert digits == "0" or not digits.startswith("0")
    if quantity.format is not Format.BINARY_SI and not quantity.is_beyond_int64:
        assert not digits.endswith("000")


@given(QUANTITIES, QUANTITIES)
def test_quantities_are_ordered_as_their_numbers(left: Quantity, right: Quantity) -> None:
    one, other = get_exact_value(left), get_exact_value(right)
    assert (left < right, left == right, left > right) == (one < other, one == other, one > other)
    assert (left <= right, left >= right) == (one <= other, one >= other)
    if one == other:
        assert hash(left) == hash(right)


@given(QUANTITIES, QUANTITIES)
def test_sums_and_differences_are_exact(left: Quantity, right: Quantity) -> None:
    assert get_exact_value(left + right) == get_exact_value(left) + get_exact_value(right)
    assert get_exact_value(left - right) == get_exact_value(left) - get_exact_value(right)
    assert (left + right) - right == left
    assert left + right == right + left
    assert get_exact_value(-left) == -get_exact_value(left)


@given(st.lists(QUANTITIES, max_size=6))
def test_the_order_of_a_sum_does_not_change_its_number(quantities: list[Quantity]) -> None:
    zero = Quantity.from_int(0)
    assert sum(quantities, zero) == sum(reversed(quantities), zero)


@given(QUANTITIES)
def test_positive_numbers_are_rounded_up(quantity: Quantity) -> None:
    amount = get_exact_value(quantity)
    if amount >= 0:
        assert quantity.value() == ceil(amount)
        assert quantity.milli() == ceil(amount * 1000)
    assert quantity.floor() == floor(amount)
    assert quantity.floor_milli() == floor(amount * 1000)
    assert quantity.is_whole == (amount.denominator == 1)
    assert quantity.is_beyond_int64 == (abs(round_away_from_zero(amount)) > INT64_MAX)
    assert quantity.sign == (amount > 0) - (amount < 0)


@given(QUANTITIES)
def test_negative_numbers_are_rounded_within_two(quantity: Quantity) -> None:
    assert abs(quantity.value() - get_exact_value(quantity)) < 2
    assert abs(quantity.milli() - get_exact_value(quantity) * 1000) < 2


@given(QUANTITIES)
def test_the_defaulter_rounds_away_from_zero_to_thousandths(quantity: Quantity) -> None:
    rounded = quantity.round_up_to_milli()
    assert get_exact_value(rounded) == Fraction(round_away_from_zero(get_exact_value(quantity) * 1000), 1000)
    assert rounded.round_up_to_milli() is rounded
    assert rounded.format == quantity.format


@given(st.one_of(st.text(ALPHABET, max_size=40), st.text(max_size=20)))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(QuantityError):
        quantity = Quantity.parse(text)
        assert Quantity.parse(quantity.canonical) == quantity


@given(st.one_of(st.binary(max_size=30), TEXTS.map(str.encode), TEXTS.map(lambda text: f'" {text}"'.encode())))
def test_any_token_is_parsed_or_rejected(token: bytes) -> None:
    with suppress(QuantityError):
        assert Quantity.from_json(token).text


@given(TEXTS)
def test_a_token_equals_its_text(text: str) -> None:
    assert Quantity.from_json(f'"{text}"'.encode()) == Quantity.parse(text)


@given(st.integers(-(2**70), 2**70))
def test_whole_units_keep_their_value(units: int) -> None:
    quantity = Quantity.from_int(units)
    assert (quantity.value(), quantity.milli(), quantity.floor()) == (units, units * 1000, units)
    assert Quantity.parse(str(units)) == quantity
