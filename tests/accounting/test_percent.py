"""Tests of percentages: exact shares, and the texts that are read."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.percent import MAX_PERCENT, Percent, PercentError

THOUSANDTHS = st.integers(0, MAX_PERCENT * 1000)


@given(THOUSANDTHS, st.integers(0, 2**63))
def test_a_share_is_that_of_exact_fractions_rounded_down_or_up(thousandths: int, amount: int) -> None:
    percent, exact = Percent(thousandths), Fraction(amount * thousandths, 100_000)
    assert percent.compute_share(amount) == exact.__floor__()
    assert percent.compute_share(amount, rounds_up=True) == exact.__ceil__()


@given(THOUSANDTHS)
def test_a_percentage_is_read_as_it_is_written(thousandths: int) -> None:
    assert Percent.parse(str(Percent(thousandths))) == thousandths


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [("25%", 25_000), ("12.5%", 12_500), ("0%", 0), ("0.001%", 1), ("33.330%", 33_330), ("1000%", 1_000_000)],
)
def test_texts_are_read_exactly(text: str, thousandths: int) -> None:
    assert Percent.parse(text) == thousandths


@pytest.mark.parametrize("text", ["", "%", "25", "25 %", "-1%", "+1%", "1e2%", ".5%", "1.%", "1.0001%", "٢%", "12345%"])
def test_other_texts_are_refused_with_a_form_that_passes(text: str) -> None:
    with pytest.raises(PercentError, match="as in 25% or"):
        Percent.parse(text)


def test_more_than_the_largest_percentage_is_refused() -> None:
    with pytest.raises(PercentError, match=r"^is more than 1000%; write less$"):
        Percent.parse("1000.001%")
