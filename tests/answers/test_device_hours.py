"""Hours of devices from drawn histories of pods and claims, compared with plain arithmetic over them."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.answers.device_hours import Grouping, HoursSums, create_columns, format_hours, parse_grouping
from tallygate.answers.usage_records import AskHours
from tallygate.cluster.device_times import ConsumerMeter, TimedConsumer
from tallygate.kube.resource_codec import Replaced
from tests.answers.device_histories import (
    BEGIN,
    CLASSES,
    GPU,
    ClaimLife,
    Life,
    PodLife,
    Watcher,
    draw_lives,
    sum_items,
    sum_lives,
)

NAMESPACES = Grouping()
END = BEGIN + 300
TIMES = st.lists(st.integers(BEGIN, BEGIN + 200), min_size=2, max_size=8, unique=True).map(sorted)


def read_snapshots(lives: Sequence[Life], times: Sequence[int]) -> tuple[ConsumerMeter, list[TimedConsumer]]:
    """Return what lists at these times show, and what has ended by the last one."""
    ended: list[TimedConsumer] = []
    meter = ConsumerMeter(ended.append)
    meter.names.update(CLASSES)
    for time in times:
        stored = [life for life in lives if life.is_stored(time)]
        pods = [life.create_record(time) for life in stored if isinstance(life, PodLife)]
        claims = [life.create_record(time) for life in stored if isinstance(life, ClaimLife)]
        meter.apply_pods(Replaced(pods, 1), time)
        meter.apply_claims(Replaced(claims, 1), time)
    return meter, ended


def sum_snapshots(
    lives: Sequence[Life], times: Sequence[int], begin: int, end: int
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """Return the least and the largest device-seconds that lists at these times show, by namespace and devices."""
    meter, ended = read_snapshots(lives, times)
    sums = HoursSums(NAMESPACES)
    for consumer in (*ended, *meter.list_timed(times[-1])):
        sums.add_consumer(consumer, begin, end)
    found = sums.list_hours()
    least = {(each.key.namespace or "", each.key.resource): each.seconds for each in found if each.seconds}
    return least, {(each.key.namespace or "", each.key.resource): each.most_seconds for each in found}


@given(draw_lives(), st.integers(BEGIN, BEGIN + 60), st.sampled_from((1, 2, 20_000)))
def test_a_watch_that_sees_all_gives_the_hours_of_plain_arithmetic(
    lives: list[Life], begin: int, max_sums: int
) -> None:
    """Expect equal sums, also where few sums of what has ended are kept, and in each form of groups."""
    watcher = Watcher(lives, begin, max_sums)
    for until in (begin + 40, END):
        watcher.watch_until(until)
        answer = watcher.answer()
        msgspec.convert(answer, AskHours)
        expected = sum_lives(lives, begin, until)
        if any("left out" in note for note in answer["notes"]):
            assert max_sums < 4  # two namespaces and two names of devices
            continue
        assert sum_items(answer) == sum_items(answer, "secondsAtMost") == expected
        assert sum_items(watcher.answer("workload")) == expected
        assert sum(item["seconds"] for item in watcher.answer("label=team")["items"]) == sum(expected.values())
        for namespace in ("team-a", "team-b"):
            own = {key: seconds for key, seconds in expected.items() if key[0] == namespace}
            assert sum_items(watcher.answer("workload", namespace)) == own


@given(draw_lives(), st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=4))
def test_an_interrupted_watch_bounds_the_hours_of_what_it_shows(
    lives: list[Life], parts: list[tuple[int, int]]
) -> None:
    """Expect the true hours between both sums, whose difference the interruptions bound; what was never seen is not."""
    watcher = Watcher(lives, BEGIN)
    for watched, missed in parts:
        watcher.watch_until(watcher.now + watched)
        watcher.now += missed
        watcher.list_all()
    watcher.watch_until(END + 300)
    answer = watcher.answer()
    assert answer["longestGapSeconds"] == max((missed for _, missed in parts), default=0)
    seen = [life for life in lives if life.uid in watcher.seen]
    least, most = (sum(sum_items(answer, key).values()) for key in ("seconds", "secondsAtMost"))
    true = sum(sum_lives(_drop_missed(seen, parts), BEGIN, END + 300).values())
    assert least <= true <= most or _has_untimed_claims(seen)
    amounts = sum(life.amount * (1 if isinstance(life, PodLife) else 2) for life in seen)
    assert most - least <= amounts * 2 * answer["longestGapSeconds"]


def _drop_missed(lives: Sequence[Life], parts: Sequence[tuple[int, int]]) -> list[Life]:
    """Return the lives without the allocations of claims that began and ended within one interruption."""
    gaps, now = list[tuple[int, int]](), BEGIN
    for watched, missed in parts:
        now += watched + missed
        gaps.append((now - missed, now))
    return [
        life._replace(
            allocations=tuple(
                times for times in life.allocations if not any(a < times[0] and times[1] <= b for a, b in gaps)
            )
        )
        if isinstance(life, ClaimLife)
        else life
        for life in lives
    ]


def _has_untimed_claims(lives: Sequence[Life]) -> bool:
    """Return whether a claim may have been freed and allocated again unseen, since it shows no time."""
    return any(isinstance(life, ClaimLife) and not life.shows_start and len(life.allocations) > 1 for life in lives)


@given(draw_lives(), st.booleans())
def test_a_watch_agrees_with_snapshots_at_each_change(lives: list[Life], shows_all: bool) -> None:  # noqa: FBT001
    """Expect the sums of a watch between those of snapshots, and the upper ones where statuses have all times."""
    if shows_all:
        lives = [life._replace(shows_start=True) for life in lives]
        lives = [life._replace(shows_end=True) if isinstance(life, PodLife) else life for life in lives]
    changes = {BEGIN, END, *(time for life in lives for time in (life.created, *life.list_times()))}
    times = sorted(time for time in changes if time <= END)
    watcher = Watcher(lives, BEGIN)
    watcher.watch_until(END)
    watched = sum_items(watcher.answer())
    least, most = sum_snapshots(lives, times, BEGIN, END)
    assert all(least.get(key, 0) <= seconds <= most[key] for key, seconds in watched.items())
    assert least.keys() <= watched.keys()
    if shows_all:
        assert {key: seconds for key, seconds in most.items() if seconds} == watched


@given(draw_lives(), TIMES, st.data())
def test_the_hours_of_what_snapshots_show_are_between_both_sums(
    lives: list[Life], times: list[int], data: st.DataObject
) -> None:
    """Compare with the true times of pods in a period; what no snapshot shows is not counted."""
    begin, end = sorted(data.draw(st.tuples(st.integers(times[0], times[-1]), st.integers(times[0], times[-1]))))
    pods = [life for life in lives if isinstance(life, PodLife)]
    shown = [pod for pod in pods if any(pod.started <= time < pod.deleted for time in times)]
    true = sum(sum_lives(shown, begin, end).values())
    least, most = (sum(sums.values()) for sums in sum_snapshots(pods, times, begin, end))
    assert least <= true <= most
    longest = read_snapshots(pods, times)[0].pods.longest_gap
    assert most - least <= sum(pod.amount for pod in shown) * 2 * longest


@given(draw_lives(shows_all=True), TIMES)
def test_known_times_are_exact(lives: list[Life], times: list[int]) -> None:
    """Expect no difference if the statuses have both times, and each pod is there until the last snapshot."""
    known = [life._replace(deleted=times[-1] + 1) for life in lives if isinstance(life, PodLife)]
    least, most = sum_snapshots(known, times, times[0], times[-1])
    assert least == {key: seconds for key, seconds in most.items() if seconds}


def test_pods_are_grouped_by_namespace_workload_or_label() -> None:
    """Expect one group for each, and the pods in it."""
    life = PodLife("u", "team-a", 0, 1, 100, 200, amount=2, owner="run", labels=(("team", "vision"),))
    meter, _ = read_snapshots([life], [1, 51])
    rows = {}
    for by in ("namespace", "workload", "label=team", "label=other"):
        grouping = parse_grouping(by) or NAMESPACES
        sums = HoursSums(grouping)
        for consumer in meter.list_timed(51):
            sums.add_consumer(consumer, 1, 51)
        rows[by] = create_columns(grouping).to_dict(sums.list_hours()[0])
    assert rows["namespace"] == {
        "namespace": "team-a",
        "resource": GPU,
        "hours": "0.03",
        "hoursAtMost": "0.03",
        "seconds": 100,
        "secondsAtMost": 100,
        "pods": 1,
        "claims": 0,
    }
    assert (rows["workload"]["namespace"], rows["workload"]["workload"]) == ("team-a", "Job run")
    assert (rows["label=team"]["value"], rows["label=other"]["value"]) == ("vision", "")
    assert {parse_grouping(text) for text in ("", "team", "label=", "label")} == {None}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.00"), (17, "0.00"), (18, "0.01"), (3600, "1.00"), (10**15, "277777777777.78")]
)
def test_hours_have_two_exact_decimals(seconds: int, text: str) -> None:
    assert format_hours(seconds) == text
