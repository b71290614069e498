"""The text of a quantity in messages: as it is written, else one that a person reads; Kubernetes keeps its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity, format_decimal_point, suggest_whole

_WRITTEN = ["1.5", "0.5", "1.2Gi", "0.3Ki", "1500m", "2.50", "1e3", "+4", "1024Mi", "-1.5Gi", "0.0", "0.5k"]


@pytest.mark.parametrize("text", _WRITTEN)
def test_a_quantity_is_shown_as_it_is_written(text: str) -> None:
    quantity = Quantity.parse(text)
    assert str(quantity) == text
    assert str(Quantity.from_json(f'"{text}"'.encode())) == text
    assert str(quantity + Quantity.from_int(0)) == str(Quantity.from_int(0) + quantity) == text or not quantity


def test_the_text_of_kubernetes_stays() -> None:
    assert [Quantity.parse(text).text for text in ("1.5", "1.2Gi", "1024Mi", "1e3")] == [
        "1500m",
        "1288490188800m",
        "1Gi",
        "1e3",
    ]


def test_a_text_with_many_zeros_is_shortened() -> None:
    assert str(Quantity.parse("0" * 100 + "1.5")) == "1500m"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (("1.2Gi", "1.2Gi"), "2.4Gi"),
        (("0.3Ki", "0.3Ki"), "0.6Ki"),
        (("1.2Gi", "1"), "1288490189.8"),
        (("0.5Ki", "0.5Ki"), "1Ki"),
        (("-1.2Gi", "-1.2Gi"), "-2.4Gi"),
        (("500m", "1500m"), "2"),
    ],
)
def test_a_sum_is_shown_in_a_unit_that_a_person_reads(texts: tuple[str, str], shown: str) -> None:
    first, second = map(Quantity.parse, texts)
    assert str(first + second) == shown


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "Ki", "Mi", "Gi"]), st.integers(0, 3))
def test_every_shown_text_is_the_same_number(mantissa: int, suffix: str, decimals: int) -> None:
    point = format_decimal_point(Quantity(mantissa, -decimals))
    quantity = Quantity.parse(f"{point}{suffix}")
    total = quantity + quantity
    if abs(mantissa) < 2**31:  # a text of 2**63 or more is read as 2**63 - 1, as Kubernetes reads it
        assert Quantity.parse(str(total)) == total
    assert Quantity.parse(point) == Quantity(mantissa, -decimals)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1.2Gi", "1229Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.3Ki", "308"),
        ("1.0000001M", "1001k"),
        ("1.5", "2"),
        ("1500m", "2"),
        ("0.1", "1"),
    ],
)
def test_the_next_whole_amount_is_in_the_next_smaller_unit(text: str, whole: str) -> None:
    quantity = Quantity.parse(text)
    assert suggest_whole(quantity) == whole
    assert Quantity.parse(whole) >= quantity
    assert Quantity.parse(whole).is_whole
