"""Hours of devices from snapshots, compared with the lives of pods that these show."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.answers.device_hours import Grouping, HoursMeter, SeenPod, create_columns, format_hours

GPU = "nvidia.com/gpu"
NAMESPACES = Grouping()


class Life(NamedTuple):
    """A pod from its creation to its deletion; the times of which a snapshot shows `started` and `ended`."""

    uid: str
    created: int
    started: int
    ended: int
    deleted: int
    shows_start: bool
    shows_end: bool
    amount: int = 1


def _create_life(uid: str, gaps: tuple[int, int, int, int], amount: int, *, shows_start: bool, shows_end: bool) -> Life:
    created = gaps[0]
    started = created + gaps[1]
    ended = started + gaps[2]
    return Life(uid, created, started, ended, ended + gaps[3], shows_start, shows_end, amount)


LIVES = st.lists(
    st.builds(
        _create_life,
        st.uuids().map(str),
        st.tuples(*[st.integers(0, 50)] * 4),
        st.integers(1, 8),
        shows_start=st.booleans(),
        shows_end=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda life: life.uid,
)
TIMES = st.lists(st.integers(0, 200), min_size=2, max_size=8, unique=True).map(sorted)


def _see(life: Life, time: int) -> SeenPod | None:
    """Return what a snapshot of this time shows of a pod on a node."""
    if not life.started <= time < life.deleted:
        return None
    has_ended = life.ended <= time
    return SeenPod(
        life.uid,
        "team-a",
        "Job run",
        {"team": "vision"},
        {GPU: life.amount},
        life.created,
        life.started if life.shows_start else None,
        has_ended,
        life.ended if has_ended and life.shows_end else None,
    )


def _measure(lives: Sequence[Life], times: Sequence[int]) -> HoursMeter:
    meter = HoursMeter()
    for time in times:
        meter.add_snapshot(time, [pod for life in lives if (pod := _see(life, time))])
    return meter


@given(LIVES, TIMES, st.data())
def test_the_hours_of_pods_that_snapshots_show_are_between_both_sums(
    lives: list[Life], times: list[int], data: st.DataObject
) -> None:
    """Compare with the true times in a period; what no snapshot shows is not counted."""
    begin, end = sorted(data.draw(st.tuples(st.integers(times[0], times[-1]), st.integers(times[0], times[-1]))))
    shown = [life for life in lives if any(_see(life, time) for time in times)]
    true = sum(life.amount * max(min(life.ended, end) - max(life.started, begin), 0) for life in shown)
    sums = _measure(lives, times).sum_hours(NAMESPACES, begin, end)
    least, most = sum(each.seconds for each in sums), sum(each.most_seconds for each in sums)
    assert least <= true <= most
    assert most - least <= sum(life.amount for life in shown) * 2 * _measure(lives, times).find_longest_gap()


@given(LIVES, TIMES)
def test_known_times_are_exact(lives: list[Life], times: list[int]) -> None:
    """Expect no difference if the statuses have both times, and each pod is there until the last snapshot."""
    known = [life._replace(shows_start=True, shows_end=True, deleted=times[-1] + 1) for life in lives]
    for each in _measure(known, times).sum_hours(NAMESPACES, times[0], times[-1]):
        assert each.seconds == each.most_seconds


def test_pods_are_grouped_by_namespace_workload_or_label() -> None:
    """Expect one group for each, and the pods in it."""
    meter = _measure([Life("u", 0, 0, 100, 200, shows_start=True, shows_end=True, amount=2)], [0, 50])
    rows = {
        name: create_columns(grouping).to_dict(meter.sum_hours(grouping, 0, 50)[0])
        for name, grouping in (("n", NAMESPACES), ("w", Grouping(by_workload=True)), ("l", Grouping(label="team")))
    }
    assert rows["n"] == {
        "namespace": "team-a",
        "resource": GPU,
        "hours": "0.03",
        "hoursAtMost": "0.03",
        "seconds": 100,
        "secondsAtMost": 100,
        "pods": 1,
    }
    assert (rows["w"]["namespace"], rows["w"]["workload"]) == ("team-a", "Job run")
    assert rows["l"]["value"] == "vision"
    assert meter.sum_hours(Grouping(label="other"), 0, 50)[0].key.value == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.00"), (17, "0.00"), (18, "0.01"), (3600, "1.00"), (10**15, "277777777777.78")]
)
def test_hours_have_two_exact_decimals(seconds: int, text: str) -> None:
    assert format_hours(seconds) == text
