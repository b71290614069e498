"""The settled capacities: a sliding maximum of what a replica has measured, and of what the leader has recorded."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from tallygate.admission.capacity_limits import Capacity
from tallygate.gate.settled_capacities import SettledCapacities
from tallygate.state.ports import CapacityRecord
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU

SETTLE = 20
POLICIES = parse_policies(CAP.replace(f"{GPU}: 4", f"{GPU}: 50%") + f"  capacity: {{settle: {SETTLE}s}}\n")
OTHER_NODES = parse_policies(
    CAP.replace(f"{GPU}: 4", f"{GPU}: 50%") + f"  capacity: {{settle: {SETTLE}s, excludeTaints: [drain]}}\n"
)
UNIX_START = 1_764_000_000.0


class _Replica:
    """A replica that starts at a time of the wall clock; its monotonic clock begins at 500."""

    def __init__(self, record: CapacityRecord | None = None, at: float = 0.0) -> None:
        self.now, self._at = 0.0, at
        self.settled = SettledCapacities(lambda: 500.0 + self.now, lambda: UNIX_START + self._at + self.now, record)

    def measure(self, amount: int | None, seconds: float = 0.0) -> int | None:
        """Let seconds pass, measure a capacity, and return the settled one."""
        self.now += seconds
        found = self.settled.measure(POLICIES, {"gpus": {} if amount is None else {GPU: Capacity(amount)}})
        capacity = found["gpus"].get(GPU)
        return None if capacity is None else capacity.amount

    @property
    def capacity(self) -> Capacity:
        """The settled capacity that is published."""
        return self.settled.capacities["gpus"][GPU]


def _format(seconds: float) -> datetime:
    return datetime.fromtimestamp(UNIX_START + seconds, UTC)


def test_a_rise_counts_at_once_and_a_fall_after_the_time() -> None:
    replica = _Replica()
    assert [replica.measure(8), replica.measure(16, 5), replica.measure(4, 5)] == [8, 16, 16]
    assert replica.measure(4, 10) == 16
    assert replica.measure(4, SETTLE - 10.01) == 16
    assert replica.measure(4, 0.01) == 4


def test_a_capacity_that_comes_back_in_time_never_falls() -> None:
    replica = _Replica()
    assert [replica.measure(16), replica.measure(8, 5), replica.measure(16, SETTLE - 1)] == [16] * 3
    assert replica.measure(16, 100) == 16


def test_a_fall_that_does_not_act_yet_is_published() -> None:
    replica = _Replica()
    replica.measure(16)
    replica.measure(8, 5)
    replica.measure(4, 15)
    assert replica.capacity == Capacity(16, 8, _format(5 + SETTLE))
    replica.measure(4, 5)
    assert replica.capacity == Capacity(8, 4, _format(20 + SETTLE))
    replica.measure(4, 15)
    assert replica.capacity == Capacity(4)


def test_nodes_that_flap_change_nothing_but_the_fall_to_come_and_that_seldom() -> None:
    """Flap each second: the index of caps is built again for a new value."""
    replica = _Replica()
    replica.measure(16)
    values = set()
    for number in range(100):
        replica.measure(16 - number % 3, 1)
        values.add(id(replica.settled.capacities))
        assert replica.capacity.amount == 16
    assert len(values) <= 11


def test_the_same_object_is_returned_until_a_capacity_changes() -> None:
    replica = _Replica()
    replica.measure(16)
    before = replica.settled.capacities
    replica.measure(16, 60)
    assert replica.settled.capacities is before


def test_a_capacity_that_is_not_known_is_none_and_its_window_remains() -> None:
    replica = _Replica()
    assert [replica.measure(16), replica.measure(None, 1), replica.measure(8, 1)] == [16, None, 16]
    assert replica.measure(8, SETTLE) == 8


def test_a_cap_that_selects_other_nodes_begins_without_steps() -> None:
    replica = _Replica()
    replica.measure(16)
    assert replica.settled.measure(OTHER_NODES, {"gpus": {GPU: Capacity(4)}}) == {"gpus": {GPU: Capacity(4)}}


def test_a_replica_that_starts_takes_what_the_leader_has_recorded() -> None:
    leader = _Replica()
    leader.measure(24)
    leader.measure(16, 10)
    record = leader.settled.create_record()
    replica = _Replica(record, at=12)
    assert replica.measure(8) == 24
    assert replica.measure(8, SETTLE - 2) == 16
    assert replica.measure(8, 2) == 8


def test_an_old_record_and_one_of_other_nodes_are_ignored() -> None:
    leader = _Replica()
    leader.measure(16)
    record = leader.settled.create_record()
    assert _Replica(record, at=SETTLE).measure(8) == 16
    assert _Replica(record, at=SETTLE + 1).measure(8) == 8
    assert _Replica(record, at=-SETTLE - 1).measure(8) == 8
    settled = _Replica(record, at=1).settled
    assert settled.measure(OTHER_NODES, {"gpus": {GPU: Capacity(8)}}) == {"gpus": {GPU: Capacity(8)}}


def test_replicas_that_start_again_and_again_delay_a_fall_once() -> None:
    replica, at = _Replica(), 0.0
    replica.measure(16)
    amounts = []
    for _ in range(5):
        record = replica.settled.create_record()
        at += SETTLE / 2
        replica = _Replica(record, at)
        amounts.append(replica.measure(8))
    assert amounts == [16, 16, 8, 8, 8]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=30))
def test_the_settled_capacity_is_the_largest_one_of_the_last_seconds(changes: list[tuple[int, int]]) -> None:
    replica, history = _Replica(), list[tuple[float, int]]()
    for seconds, amount in changes:
        measured = replica.measure(amount, seconds)
        history.append((replica.now, amount))
        ends = [until for until, _ in history[1:]] + [float("inf")]
        pairs = zip(history, ends, strict=True)
        assert measured == max(
            each for (_, each), until in pairs if until > replica.now - SETTLE or until == replica.now
        )


@example([(1, 1)] * 250)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=150, max_size=250))
def test_a_capacity_that_falls_all_the_time_keeps_few_steps_and_acts_at_most_a_sixtieth_late(
    falls: list[tuple[int, int]],
) -> None:
    """Let it fall in steps of eighths of a second, of which floats are exact, by the exact sliding maximum."""
    replica, history = _Replica(), list[tuple[float, int]]()
    amount = 1000
    for eighths, fall in falls:
        settled = replica.measure(amount, eighths / 8)
        history.append((replica.now, amount))
        ends = [until for until, _ in history[1:]] + [float("inf")]
        pairs = list(zip(history, ends, strict=True))
        assert settled is not None
        assert settled >= max(each for (_, each), until in pairs if until > replica.now - SETTLE), "no fall acts early"
        assert settled <= max(each for (_, each), until in pairs if until >= replica.now - SETTLE * 61 / 60)
        amount -= fall
    (steps,) = replica.settled.create_record().caps["gpus"].steps.values()
    assert len(steps) <= 62


def test_a_fall_to_come_alone_is_published_ten_seconds_after_the_last_value() -> None:
    replica = _Replica()
    replica.measure(16)
    replica.measure(8, 1)
    replica.measure(8, 8.9)
    assert replica.capacity == Capacity(16)
    replica.measure(8, 0.1)
    assert replica.capacity == Capacity(16, 8, _format(1 + SETTLE))
