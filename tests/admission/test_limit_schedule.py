"""The limits of a cap by time, group and namespace: those of the first override that has not ended, else its own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.quantity import Quantity
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.capacity_limits import resolve_limits
from tallygate.admission.limit_schedule import LimitSchedule
from tallygate.policy.globs import matches
from tallygate.policy.model import LimitOverride, PolicySet
from tests.admission.case import parse_policies

GPU = "nvidia.com/gpu"
END = datetime(2026, 12, 4, 18, tzinfo=UTC)
SECOND = timedelta(seconds=1)

BY_TEAM = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  groupBy: {label: team}
  hard: {nvidia.com/gpu: 8, cpu: 4}
  soft: {pods: 9}
  overrides:
  - {groups: [vision, "v-*"], hard: {nvidia.com/gpu: 12}, until: 2026-12-04T18:00:00Z}
  - {groups: [vision], hard: {nvidia.com/gpu: 10}, until: 2026-12-04}
  - {hard: {cpu: 1500m}}
"""
BY_NAMESPACE = BY_TEAM.replace("groupBy: {label: team}", "namespaces: {include: ['*']}").replace(
    "groups:", "namespaces:"
)
SHARED = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  shared: true
  hard: {nvidia.com/gpu: 8}
  overrides: [{hard: {nvidia.com/gpu: 4}, until: 2026-12-04T18:00:00Z}]
"""


def _find(text: str, owner: str, now: datetime | None) -> ActiveCap:
    """Return the cap of the namespace with this name and this value of the label."""
    (cap,) = CapIndex(parse_policies(text), now).find_matching(owner, {"team": owner}).caps
    return cap


@pytest.mark.parametrize("text", [BY_TEAM, BY_NAMESPACE])
@pytest.mark.parametrize(
    ("owner", "now", "hard", "described"),
    [
        ("vision", END - SECOND, 12, "12 (until 2026-12-04T18:00Z, then 10)"),
        ("vision", END, 10, "10 (until 2026-12-05T00:00Z, then 8)"),
        ("vision", END + 6 * timedelta(hours=1) - SECOND, 10, "10 (until 2026-12-05T00:00Z, then 8)"),
        ("vision", END + 6 * timedelta(hours=1), 8, "8 (was 10 until 2026-12-05T00:00Z)"),
        ("vision", None, 8, "8 (was 10 until 2026-12-05T00:00Z)"),
        ("v-1", END - SECOND, 12, "12 (until 2026-12-04T18:00Z, then 8)"),
        ("v-1", END, 8, "8 (was 12 until 2026-12-04T18:00Z)"),
        ("speech", END - SECOND, 8, "8"),
        ("", END, 8, "8"),
    ],
)
def test_the_first_override_that_has_not_ended_is_the_limit(
    text: str, owner: str, now: datetime | None, hard: int, described: str
) -> None:
    cap = _find(text, owner, now)
    assert cap.hard == {GPU: hard, "cpu": 1500}
    assert cap.soft == {"pods": 9}
    assert cap.limits.describe(GPU) == described
    assert cap.limits.describe("cpu") == "1500m", "an override without an end is the limit"


def test_an_override_may_lower_a_shared_cap() -> None:
    cap = _find(SHARED, "team-a", END - SECOND)
    assert (cap.hard, cap.limits.get_most(GPU)) == ({GPU: 4}, 8)
    assert _find(SHARED, "team-a", END).hard == {GPU: 8}


def test_a_smaller_limit_of_the_ledger_has_no_end() -> None:
    limits = _find(BY_TEAM, "vision", END - SECOND).limits
    assert limits.describe(GPU, 8) == "8"
    assert limits.describe("pods", 5) == "5", "only the ledger limits it"
    assert limits.get_most("pods") == 0


@pytest.mark.parametrize("text", [BY_TEAM, BY_NAMESPACE, SHARED])
def test_keys_do_not_depend_on_overrides(text: str) -> None:
    plain = text[: text.index("  overrides:")] + "\n"
    caps = [_find(each, "vision", now) for each in (text, plain) for now in (END - SECOND, END)]
    assert len({cap.key for cap in caps}) == len({cap.active_key for cap in caps}) == 1
    assert len({cap.counted for cap in caps}) == 1


@pytest.mark.parametrize("text", [BY_TEAM, BY_NAMESPACE, SHARED])
def test_a_ledger_finds_the_cap_that_a_review_finds(text: str) -> None:
    index = CapIndex(parse_policies(text), END - SECOND)
    for owner in ("vision", "v-1", "speech"):
        (cap,) = index.find_matching(owner, {"team": owner}).caps
        found = index.find_cap(cap.key, "" if cap.definition.shared else owner)
        assert found == cap
        assert found is index.find_cap(cap.key, "" if cap.definition.shared else owner), "one object for each limit"


def test_an_index_is_current_until_the_next_end_and_from_the_last_one() -> None:
    """Check the ends, whatever the direction of the clock."""
    index = CapIndex(parse_policies(BY_TEAM), END)
    times = (END - SECOND, END, END + 6 * timedelta(hours=1) - SECOND, END + 6 * timedelta(hours=1), None)
    assert [index.is_current(each) for each in times] == [False, True, True, False, False]
    assert index.may_change
    without_end = CapIndex(parse_policies(BY_TEAM.replace(", until: 2026-12-04T18:00:00Z", "")), END)
    assert without_end.may_change, "the second override has an end"
    assert not CapIndex(PolicySet(), END).may_change


_TIMES = [END + timedelta(hours=hours) for hours in range(4)]
_OVERRIDES = st.builds(
    LimitOverride,
    hard=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 3).map(Quantity.from_int), min_size=1),
    groups=st.sampled_from([(), ("vision",), ("v*",), ("speech", "x")]),
    until=st.sampled_from([None, *_TIMES]),
)


def _find_plainly(overrides: Sequence[LimitOverride], name: str, group: str, now: datetime, base: int) -> int:
    for each in overrides:
        is_selected = not each.groups or any(matches(glob, group) for glob in each.groups)
        if name in each.hard and is_selected and (each.until is None or now < each.until):
            return each.hard[name].value()
    return base


@given(
    st.lists(_OVERRIDES, max_size=5),
    st.sampled_from(["vision", "speech", "v", ""]),
    st.sampled_from([each + delta for each in _TIMES for delta in (-SECOND, 0 * SECOND, SECOND)]),
)
def test_limits_and_periods_equal_those_of_a_plain_search(
    overrides: list[LimitOverride], group: str, now: datetime
) -> None:
    (definition,) = parse_policies(BY_TEAM).caps
    definition = msgspec.structs.replace(
        definition, hard={"a": Quantity.from_int(1), "b": Quantity.from_int(2)}, overrides=tuple(overrides)
    )
    limits = LimitSchedule(definition, resolve_limits(definition.hard, {}), now).find_limits(group, "")
    for name, base in (("a", 1), ("b", 2)):

        def find_at(time: datetime, name: str = name, base: int = base) -> int:
            return _find_plainly(overrides, name, group, time, base)

        assert limits.hard[name] == find_at(now)
        assert limits.get_most(name) == max(find_at(time) for time in (now, *_TIMES) if time >= now)
        period = limits.periods.get(name)
        later = [time for time in _TIMES if time > now and find_at(time) != find_at(now)]
        earlier = [time for time in _TIMES if time <= now and find_at(time - SECOND) != find_at(time)]
        assert (period.end if period else None) == (later[0] if later else None)
        assert (period.later if period else None) == (find_at(later[0]) if later else None)
        if period is not None and period.start is not None:
            assert (period.start, period.earlier) == (earlier[-1], find_at(earlier[-1] - SECOND))
        else:
            assert not earlier
    assert limits.hard.keys() == {"a", "b"}, "an override adds no name"
    assert isinstance(limits.hard, Amounts)
