"""Whom a relay asks, in which order, and how long; on a clock that is moved by those who are asked."""

import pytest

from tests.server.building import Log
from webhook.server.relay.failover import (
    LocalHealth,
    Relay,
    RelayClock,
    RelayRequest,
    RelayResponse,
    SlowUpstreamError,
    UnreachableError,
    UpstreamTimeout,
)
from webhook.server.relay.upstreams import compute_announced_seconds
from webhook.server.telemetry.metrics import ServerMetrics, Telemetry

REVIEW = RelayRequest("/v1/admit/mutate", b"{}")
TWICE = RelayRequest("/v1/admit/mutate", b"{}", relayed_by="other")


class Gate:
    """Answers by its name; is silent for so many times, each of which takes `takes` seconds, or all it is given."""

    def __init__(self, world: "World", name: str, silent: int = 0, takes: float = 0.0) -> None:
        self._world = world
        self._name = name
        self._silent = silent
        self._takes = takes

    def ask(self, asked: RelayRequest, patience: UpstreamTimeout) -> RelayResponse:
        """Answer, or not."""
        self._world.asked.append((self._name, round(patience.seconds, 3)))
        self._world.moments.append(self._world.now)
        self._world.insisted.append(patience.allows_unready)
        if not self._silent:
            return RelayResponse(200, self._name.encode())
        self._silent -= 1
        self._world.now += min(self._takes, patience.seconds)
        raise (SlowUpstreamError if self._takes else UnreachableError)(f"{self._name} is silent at {asked.path}")


class World:
    """A relay, what it has asked of whom with how much patience, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[str, float]] = []
        self.moments: list[float] = []
        self.insisted: list[bool] = []
        self.log = Log()
        self._metrics = ServerMetrics("0")

    @property
    def names(self) -> list[str]:
        """Who was asked, in turn."""
        return [name for name, _ in self.asked]

    def relay(self, own: Gate, others: Gate | None = None) -> Relay:
        """A relay between these."""
        clock = RelayClock(lambda: self.now, self._pause)
        return Relay(own.ask, others.ask if others else None, Telemetry(self.log.logger, self._metrics), "this", clock)

    def counted(self) -> dict[str, float]:
        """How many reviews were answered by whom."""
        value = self._metrics.registry.get_sample_value
        every = {by: value("tallygate_relay_requests_total", {"upstream": by}) for by in ("local", "peer", "none")}
        return {by: number for by, number in every.items() if number}

    def _pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def world() -> World:
    return World()


def test_the_own_gate_is_asked_and_nobody_else(world: World) -> None:
    relay = world.relay(Gate(world, "local"), Gate(world, "peer"))
    assert relay.forward(REVIEW, 104.8).body == b"local"
    assert (world.names, world.counted()) == (["local"], {"local": 1})


def test_another_is_asked_when_the_own_is_silent_which_is_asked_first_again(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=2), Gate(world, "peer"))
    assert [relay.forward(REVIEW, 104.8).body for _ in range(3)] == [b"peer", b"peer", b"local"]
    assert world.names == ["local", "peer", "local", "peer", "local"]
    assert world.counted() == {"local": 1, "peer": 2}


def test_silence_is_logged_once_and_its_end(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=2), Gate(world, "peer"))
    for _ in range(4):
        relay.forward(REVIEW, 104.8)
    assert [line["event"] for line in world.log.lines] == ["upstream-unreachable", "upstream-reachable"]
    assert world.log.lines[0]["message"] == "local is silent at /v1/admit/mutate"


def test_one_that_was_late_is_spared_and_then_tried_by_one_review_every_five_seconds(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=2, takes=60), Gate(world, "peer"))
    assert relay.forward(REVIEW, 104.8).body == b"peer"  # it was 103.2 then
    assert [relay.forward(REVIEW, 108.0).body for _ in range(3)] == [b"peer"] * 3
    world.now = 108.4
    assert relay.forward(REVIEW, 113.2).body == b"peer"
    assert relay.forward(REVIEW, 116.0).body == b"peer"
    world.now = 120.0
    assert [relay.forward(REVIEW, 124.8).body for _ in range(2)] == [b"local"] * 2
    assert world.names == ["local", *["peer"] * 4, "local", *["peer"] * 2, "local", "local"]


def test_while_one_review_finds_out_whether_it_is_still_held_up_others_do_not_wait_for_it(world: World) -> None:
    state = LocalHealth(world.log.logger, lambda: world.now)
    state.mark_unreachable(SlowUpstreamError("late"))
    world.now += 5
    assert [state.is_preferred() for _ in range(3)] == [True, False, False]


def test_one_that_is_spared_is_asked_all_the_same_when_there_is_no_other(world: World) -> None:
    """It may have been slow, not held up."""
    relay = world.relay(Gate(world, "local", silent=1, takes=60), Gate(world, "peer", silent=1000))
    assert relay.forward(REVIEW, 104.8).body == b"local"
    assert world.names == ["local", *["peer"] * 12, "local"]


def test_both_are_asked_again_while_there_is_time(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=9), Gate(world, "peer", silent=17))
    assert relay.forward(REVIEW, 104.8).body == b"peer"
    assert world.names == ["local", "peer", "peer"] * 9
    assert world.now == pytest.approx(100.18)


def test_an_own_gate_alone_is_given_all_the_time_and_asked_until_it_is_over(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=1000))
    with pytest.raises(UnreachableError, match="local is silent at /v1/admit/mutate"):
        relay.forward(REVIEW, 104.8)
    assert world.asked[0] == ("local", 4.8)
    assert 104.7 < world.now <= 104.8
    assert world.counted() == {"none": 1}


@pytest.mark.parametrize(
    ("seconds", "own", "another"),
    [
        pytest.param(1.8, 0.9, 0.45, id="half of a time up to 3 s"),
        pytest.param(4.0, 2.5, 0.75, id="1.5 s of a time up to 4.5 s"),
        pytest.param(4.8, 3.2, 0.8, id="a third of a longer time"),
        pytest.param(29.8, 19.867, 6.622, id="a third of the longest time"),
    ],
)
def test_a_gate_that_takes_its_time_leaves_some_for_another(
    world: World, seconds: float, own: float, another: float
) -> None:
    relay = world.relay(Gate(world, "local", silent=1, takes=60), Gate(world, "peer"))
    assert relay.forward(REVIEW, world.now + seconds).body == b"peer"
    assert world.asked == [("local", own), ("peer", another)]


@pytest.mark.parametrize(("seconds", "told"), [(4.8, 4.7), (0.75, 0.65), (0.2, 0.1), (0.02, 0.01)])
def test_a_gate_is_told_less_than_is_waited_so_that_it_is_heard_when_it_was_too_busy(
    seconds: float, told: float
) -> None:
    assert compute_announced_seconds(seconds) == pytest.approx(told)


def test_in_the_last_second_it_insists(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=1000), Gate(world, "peer", silent=1000))
    with pytest.raises(UnreachableError):
        relay.forward(REVIEW, 104.0)
    assert world.insisted == [104.0 - moment < 1 for moment in world.moments]
    asked = zip(world.names, world.insisted, strict=True)
    assert {name for name, insisted in asked if insisted} == {"local", "peer"}


def test_who_was_sent_by_a_relay_asks_the_own_gate_only_and_once(world: World) -> None:
    relay = world.relay(Gate(world, "local", silent=1), Gate(world, "peer"))
    with pytest.raises(UnreachableError, match="local is silent"):
        relay.forward(TWICE, 104.8)
    assert (world.names, world.now) == (["local"], 100.0)


def test_who_was_led_back_to_itself_asks_nobody(world: World) -> None:
    """As by a Service, by chance: else a gate that is held up would be waited for twice."""
    relay = world.relay(Gate(world, "local"), Gate(world, "peer"))
    with pytest.raises(UnreachableError, match="there is no gate to ask"):
        relay.forward(RelayRequest("/v1/admit/mutate", b"{}", relayed_by="this"), 104.8)
    assert world.names == []


def test_no_time_is_told_as_such(world: World) -> None:
    with pytest.raises(UnreachableError, match="or no time"):
        world.relay(Gate(world, "local")).forward(REVIEW, 100.0)
    assert world.counted() == {"none": 1}
