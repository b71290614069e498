"""Amounts: units, rounding, and the two meanings of absence."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import (
    Amounts,
    format_amount,
    is_milli,
    round_down_to_unit,
    round_up_to_unit,
    share_amounts,
)
from tallygate.accounting.quantity import Quantity

NAMES = ("cpu", "memory", "nvidia.com/gpu", "pods")
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(-(10**20), 10**20)).map(Amounts)

# id, name, quantity, units of a request, units of a limit.
UNITS = (
    ("cpu is in thousandths", "cpu", "1500m", 1500, 1500),
    ("a cpu is a thousand", "cpu", "2", 2000, 2000),
    ("a fraction of a thousandth is requested as one and allowed as zero", "cpu", "100u", 1, 0),
    ("requests.cpu is in thousandths", "requests.cpu", "0.5", 500, 500),
    ("limits.cpu is in thousandths", "limits.cpu", "0.5", 500, 500),
    ("memory is in bytes", "memory", "1Ki", 1024, 1024),
    ("a fraction of a byte is requested as one and allowed as zero", "memory", "500m", 1, 0),
    ("gpus are whole", "nvidia.com/gpu", "3", 3, 3),
    ("half a gpu is requested as one and allowed as zero", "nvidia.com/gpu", "500m", 1, 0),
    ("two and a half are requested as three and allowed as two", "nvidia.com/gpu", "2500m", 3, 2),
    ("pods are whole", "pods", "10", 10, 10),
    ("a name that ends in cpu is not cpu", "example.com/cpu", "1500m", 2, 1),
    ("amounts beyond int64 do not wrap", "example.com/tokens", "10E", 10**19, 10**19),
    ("thousandths beyond int64 do not wrap", "cpu", "10E", 10**22, 10**22),
    ("zero is zero", "cpu", "0", 0, 0),
)


@pytest.mark.parametrize(
    ("name", "text", "requested", "allowed"), [row[1:] for row in UNITS], ids=[row[0] for row in UNITS]
)
def test_a_quantity_is_an_amount(name: str, text: str, requested: int, allowed: int) -> None:
    quantity = Quantity.parse(text)
    assert (round_up_to_unit(name, quantity), round_down_to_unit(name, quantity)) == (requested, allowed)


@pytest.mark.parametrize(
    ("name", "units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("limits.cpu", 250, "250m"),
        ("cpu", 0, "0"),
        ("memory", 64 * 2**30, "64Gi"),
        ("memory", 1000, "1k"),
        ("limits.memory", 3 * 2**20, "3Mi"),
        ("nvidia.com/gpu", 3000, "3000"),
        ("nvidia.com/gpu", 10**19, "10000000000000000000"),
        ("pods", 50, "50"),
        ("memory", -1024, "-1Ki"),
    ],
)
def test_an_amount_has_a_short_text(name: str, units: int, text: str) -> None:
    assert format_amount(name, units) == text
    assert round_up_to_unit(name, Quantity.parse(text)) == units


def test_only_cpu_is_in_thousandths() -> None:
    assert [name for name in ("cpu", "limits.cpu", "requests.cpu", "memory", "cpus", "x.io/cpu") if is_milli(name)] == [
        "cpu",
        "limits.cpu",
        "requests.cpu",
    ]


def test_amounts_are_an_immutable_mapping() -> None:
    source = {"cpu": 1}
    amounts = Amounts(source)
    source["cpu"] = 2
    assert amounts == {"cpu": 1}
    assert amounts["cpu"] == 1
    assert len(amounts) == 1
    assert "memory" not in amounts
    for change in ("clear", "pop", "popitem", "setdefault", "update"):
        with pytest.raises(TypeError):
            getattr(amounts, change)()
    with pytest.raises(TypeError):
        amounts["cpu"] = 2
    with pytest.raises(TypeError):
        del amounts["cpu"]
    with pytest.raises(TypeError):
        amounts |= {"cpu": 2}
    assert amounts == {"cpu": 1}
    assert pickle.loads(pickle.dumps(amounts)) == copy.deepcopy(amounts) == amounts  # noqa: S301  # our own bytes
    assert repr(amounts) == "Amounts({'cpu': 1})"
    with pytest.raises(KeyError):
        amounts["memory"]


def test_amounts_have_no_order() -> None:
    with pytest.raises(TypeError):
        assert Amounts() <= Amounts()  # type: ignore[operator] # the test expects the error


def test_equal_amounts_have_equal_hashes() -> None:
    assert hash(Amounts({"a": 1, "b": 2})) == hash(Amounts({"b": 2, "a": 1}))
    assert Amounts({"a": 0}) != Amounts()


def test_equal_amounts_are_shared_unless_their_names_are_long() -> None:
    for name, is_shared in (("a", True), ("a" * 1024, True), ("a" * 1025, False)):
        one, other = Amounts({name: 1}), Amounts({name: 1})
        assert share_amounts(one) == one
        assert (share_amounts(one) is share_amounts(other)) is is_shared


def test_no_amounts_are_empty() -> None:
    assert dict(Amounts()) == {}
    assert not Amounts()


def test_a_sum_counts_absent_names_as_zero() -> None:
    assert Amounts({"a": 1, "b": 2}) + Amounts({"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}


def test_a_difference_counts_absent_names_as_zero() -> None:
    assert Amounts({"a": 1, "b": 2}) - Amounts({"b": 3, "c": 4}) == {"a": 1, "b": -1, "c": -4}


def test_a_maximum_keeps_the_names_of_both_sides() -> None:
    assert Amounts({"a": 1, "b": 2}).merge_max({"b": 3, "c": -4}) == {"a": 1, "b": 3, "c": -4}


def test_a_missing_limit_is_unlimited() -> None:
    used = Amounts({"nvidia.com/gpu": 9, "cpu": 500, "memory": 7})
    assert used.find_excess({"nvidia.com/gpu": 8, "cpu": 500}) == {"nvidia.com/gpu": 1}
    assert used.find_excess({}) == {}
    assert used.find_excess({"pods": 0}) == {}


def test_a_missing_capacity_is_zero() -> None:
    requests = Amounts({"nvidia.com/gpu": 2, "cpu": 500, "memory": 0})
    assert requests.find_shortfall({"cpu": 500}) == {"nvidia.com/gpu": 2}
    assert requests.find_shortfall({}) == {"nvidia.com/gpu": 2, "cpu": 500}
    assert requests.find_shortfall({"nvidia.com/gpu": 1, "cpu": 499}) == {"nvidia.com/gpu": 1, "cpu": 1}


@given(AMOUNTS, AMOUNTS)
def test_a_subtraction_reverts_an_addition(one: Amounts, other: Amounts) -> None:
    back = (one + other) - other
    assert {name: back[name] for name in one} == one
    assert all(back[name] == 0 for name in back if name not in one)


@given(AMOUNTS, AMOUNTS)
def test_sums_and_maxima_are_commutative(one: Amounts, other: Amounts) -> None:
    assert one + other == other + one
    assert one.merge_max(other) == other.merge_max(one)
    assert one.merge_max(one) == one


@given(AMOUNTS, AMOUNTS)
def test_excess_and_shortfall_are_positive_differences(one: Amounts, other: Amounts) -> None:
    for name, excess in one.find_excess(other).items():
        assert excess == one[name] - other[name] > 0
    for name, shortfall in one.find_shortfall(other).items():
        assert shortfall == one[name] - other.get(name, 0) > 0
    assert not (one - one.find_shortfall(other)).find_shortfall(other)
    assert not (one - one.find_excess(other)).find_excess(other)


@given(
    st.sampled_from(NAMES),
    st.fractions(0, 10**12, max_denominator=10**9).map(lambda f: Quantity.parse(f"{int(f * 10**9)}n")),
)
def test_rounding_up_is_at_most_a_unit_above_rounding_down(name: str, quantity: Quantity) -> None:
    assert 0 <= round_up_to_unit(name, quantity) - round_down_to_unit(name, quantity) <= 1
