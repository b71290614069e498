"""Tests of limits that are percentages of a capacity."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.percent import Percent
from tallygate.accounting.quantity import Quantity
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import Capacity, CapCapacities, resolve_limits
from tallygate.policy.cap_limits import CapLimit, PercentLimit, Rounding, is_never_above
from tests.admission.case import parse_policies

GPU = "nvidia.com/gpu"
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  hard: {nvidia.com/gpu: 25%, requests.cpu: {percent: 12.5%, atLeast: 8, atMost: 640, round: up}, memory: 64Gi}
  soft: {nvidia.com/gpu: 20%}
"""
AT = datetime(2026, 12, 1, 14, 25, tzinfo=UTC)

PERCENTS = st.integers(0, 200_000).map(Percent)
BOUNDS = st.none() | st.integers(0, 50).map(Quantity.from_int)


@pytest.mark.parametrize(
    ("limit", "capacity", "amount"),
    [
        (PercentLimit(Percent.parse("25%")), 64, 16),
        (PercentLimit(Percent.parse("25%")), 63, 15),
        (PercentLimit(Percent.parse("25%"), rounding=Rounding.UP), 63, 16),
        (PercentLimit(Percent.parse("150%")), 10, 15),
        (PercentLimit(Percent.parse("25%"), at_least=Quantity.from_int(4)), 0, 4),
        (PercentLimit(Percent.parse("25%"), at_most=Quantity.from_int(10)), 64, 10),
        (PercentLimit(Percent.parse("25%"), Quantity.from_int(12), Quantity.from_int(10)), 64, 10),
    ],
)
def test_a_limit_is_a_share_of_the_capacity_within_its_bounds(limit: PercentLimit, capacity: int, amount: int) -> None:
    assert resolve_limits({GPU: limit}, {GPU: Capacity(capacity)}).amounts == {GPU: amount}


@pytest.mark.parametrize(
    ("capacity", "text"),
    [
        (64, "25% of 64, at most 8"),
        (24, "25% of 24"),
        (32, "25% of 32"),
        (4, "25% of 4, at least 2"),
    ],
)
def test_a_bound_that_decides_in_place_of_the_percentage_is_named(capacity: int, text: str) -> None:
    limit = PercentLimit(Percent.parse("25%"), Quantity.from_int(2), Quantity.from_int(8))
    assert resolve_limits({GPU: limit}, {GPU: Capacity(capacity)}).shares[GPU].describe(GPU) == text


def test_a_share_of_cpu_is_rounded_to_thousandths() -> None:
    limit = PercentLimit(Percent.parse("33.333%"), at_least=Quantity.parse("10m"))
    assert resolve_limits({"cpu": limit}, {"cpu": Capacity(1000)}).amounts == {"cpu": 333}
    assert resolve_limits({"cpu": limit}, {"cpu": Capacity(3)}).amounts == {"cpu": 10}


def _index(capacities: CapCapacities) -> CapIndex:
    return CapIndex(parse_policies(CAP), None, CapSources(capacities=capacities))


def test_a_cap_has_the_limits_of_the_capacity_now_and_the_same_ledger() -> None:
    (none,) = _index({}).list_caps()
    (some,) = _index({"gpus": {GPU: Capacity(64), "cpu": Capacity(100_000)}}).list_caps()
    (more,) = _index({"gpus": {GPU: Capacity(128), "cpu": Capacity(10**9)}}).list_caps()
    assert some.hard == {GPU: 16, "cpu": 12_500, "memory": 64 << 30}
    assert some.soft == {GPU: 12}
    assert more.hard == {GPU: 32, "cpu": 640_000, "memory": 64 << 30}
    assert none.hard == {"memory": 64 << 30}
    assert none.limits.unknown == {GPU, "cpu"}
    assert (none.key, none.counted) == (some.key, some.counted) == (more.key, more.counted)


def test_a_limit_names_its_share_and_a_fall_that_does_not_act_yet() -> None:
    def describe(capacity: Capacity) -> str:
        (cap,) = _index({"gpus": {GPU: capacity}}).list_caps()
        return cap.limits.describe(GPU)

    assert describe(Capacity(64)) == "16 (25% of 64)"
    assert describe(Capacity(64, 48, AT)) == "16 (25% of 64, from 2026-12-01T14:25Z 12)"
    assert describe(Capacity(64, 63, AT)) == "16 (25% of 64, from 2026-12-01T14:25Z 15)"
    assert describe(Capacity(67, 64, AT)) == "16 (25% of 67)"


def test_an_override_replaces_a_share_and_says_when_it_ends() -> None:
    text = f"{CAP}  overrides:\n  - {{hard: {{nvidia.com/gpu: 40}}, until: 2026-12-02T00:00:00Z}}\n"
    for now, expected in ((AT, "40 (until 2026-12-02T00:00Z, then 16)"), (None, "16 (25% of 64; was 40 until")):
        index = CapIndex(parse_policies(text), now, CapSources(capacities={"gpus": {GPU: Capacity(64)}}))
        (cap,) = index.find_matching("team-a", {}).caps
        assert cap.limits.describe(GPU).startswith(expected)


@given(st.tuples(PERCENTS, BOUNDS, BOUNDS), st.tuples(PERCENTS, BOUNDS, BOUNDS), st.booleans(), st.booleans())
def test_one_limit_is_never_above_another_only_if_no_capacity_shows_it(
    first: tuple[Percent, Quantity | None, Quantity | None],
    second: tuple[Percent, Quantity | None, Quantity | None],
    first_is_up: bool,  # noqa: FBT001  # drawn
    second_is_up: bool,  # noqa: FBT001  # drawn
) -> None:
    limit = PercentLimit(*first, Rounding.UP if first_is_up else Rounding.DOWN)
    other = PercentLimit(*second, Rounding.UP if second_is_up else Rounding.DOWN)
    amounts = [Quantity.from_int(amount) for amount in range(0, 60, 7)]
    pairs: list[tuple[CapLimit, CapLimit]] = [(limit, other)]
    pairs += [(limit, amount) for amount in amounts]
    pairs += [(amount, other) for amount in amounts]
    for one, two in pairs:
        if is_never_above(one, two, has_same_capacity=True):
            for capacity in (0, 1, 3, 7, 64, 1000):
                low, high = (resolve_limits({GPU: each}, {GPU: Capacity(capacity)}).amounts[GPU] for each in (one, two))
                assert low <= high
