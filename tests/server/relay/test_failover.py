"""The order of a relay's upstreams and their timeouts, on a clock that the simulated upstreams advance."""

import pytest

from tallygate.webhook.server.relay.failover import (
    LocalHealth,
    Relay,
    RelayClock,
    RelayRequest,
    RelayResponse,
    SlowUpstreamError,
    UnreachableError,
    UpstreamTimeout,
)
from tallygate.webhook.server.relay.upstreams import compute_announced_seconds
from tallygate.webhook.server.telemetry.metrics import ServerMetrics, Telemetry
from tests.server.app_harness import Log

REVIEW = RelayRequest("/v1/admit/mutate", b"{}")
RELAYED_REVIEW = RelayRequest("/v1/admit/mutate", b"{}", relayed_by="other")


class SimulatedGate:
    """An upstream that answers its name after `silent` requests without answer, each of `takes` seconds at most."""

    def __init__(self, simulation: "Simulation", name: str, silent: int = 0, takes: float = 0.0) -> None:
        self._simulation = simulation
        self._name = name
        self._silent = silent
        self._takes = takes

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """Answer, or raise an error after the time of the request."""
        self._simulation.requests.append((self._name, round(timeout.seconds, 3)))
        self._simulation.moments.append(self._simulation.now)
        self._simulation.allows_unready.append(timeout.allows_unready)
        if not self._silent:
            return RelayResponse(200, self._name.encode())
        self._silent -= 1
        self._simulation.now += min(self._takes, timeout.seconds)
        raise (SlowUpstreamError if self._takes else UnreachableError)(f"{self._name} is silent at {request.path}")


class Simulation:
    """A relay, its requests to upstreams with their timeouts, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.requests: list[tuple[str, float]] = []
        self.moments: list[float] = []
        self.allows_unready: list[bool] = []
        self.log = Log()
        self._metrics = ServerMetrics("0")

    @property
    def names(self) -> list[str]:
        """The names of the upstreams in the order of requests."""
        return [name for name, _ in self.requests]

    def create_relay(self, local: SimulatedGate, peers: SimulatedGate | None = None) -> Relay:
        """Return a relay with these upstreams."""
        clock = RelayClock(lambda: self.now, self._pause)
        return Relay(
            local.send, peers.send if peers else None, Telemetry(self.log.logger, self._metrics), "this", clock
        )

    def count_requests(self) -> dict[str, float]:
        """Return the number of reviews by the upstream that answered."""
        value = self._metrics.registry.get_sample_value
        counts = {by: value("tallygate_relay_requests_total", {"upstream": by}) for by in ("local", "peer", "none")}
        return {by: number for by, number in counts.items() if number}

    def _pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def simulation() -> Simulation:
    return Simulation()


def test_a_local_gate_that_answers_gets_every_review(simulation: Simulation) -> None:
    relay = simulation.create_relay(SimulatedGate(simulation, "local"), SimulatedGate(simulation, "peer"))
    assert relay.forward(REVIEW, 104.8).body == b"local"
    assert (simulation.names, simulation.count_requests()) == (["local"], {"local": 1})


def test_a_peer_gets_the_review_when_the_local_gate_is_silent_which_stays_first(simulation: Simulation) -> None:
    relay = simulation.create_relay(SimulatedGate(simulation, "local", silent=2), SimulatedGate(simulation, "peer"))
    assert [relay.forward(REVIEW, 104.8).body for _ in range(3)] == [b"peer", b"peer", b"local"]
    assert simulation.names == ["local", "peer", "local", "peer", "local"]
    assert simulation.count_requests() == {"local": 1, "peer": 2}


def test_silence_and_its_end_are_logged_once(simulation: Simulation) -> None:
    relay = simulation.create_relay(SimulatedGate(simulation, "local", silent=2), SimulatedGate(simulation, "peer"))
    for _ in range(4):
        relay.forward(REVIEW, 104.8)
    assert [line["event"] for line in simulation.log.lines] == ["upstream-unreachable", "upstream-reachable"]
    assert simulation.log.lines[0]["message"] == "local is silent at /v1/admit/mutate"


def test_a_local_gate_that_was_late_gets_one_review_every_five_seconds(simulation: Simulation) -> None:
    relay = simulation.create_relay(
        SimulatedGate(simulation, "local", silent=2, takes=60), SimulatedGate(simulation, "peer")
    )
    assert relay.forward(REVIEW, 104.8).body == b"peer"  # it was 103.2 then
    assert [relay.forward(REVIEW, 108.0).body for _ in range(3)] == [b"peer"] * 3
    simulation.now = 108.4
    assert relay.forward(REVIEW, 113.2).body == b"peer"
    assert relay.forward(REVIEW, 116.0).body == b"peer"
    simulation.now = 120.0
    assert [relay.forward(REVIEW, 124.8).body for _ in range(2)] == [b"local"] * 2
    assert simulation.names == ["local", *["peer"] * 4, "local", *["peer"] * 2, "local", "local"]


def test_while_one_review_tries_a_late_gate_others_do_not_wait_for_it(simulation: Simulation) -> None:
    state = LocalHealth(simulation.log.logger, lambda: simulation.now)
    state.mark_unreachable(SlowUpstreamError("late"))
    simulation.now += 5
    assert [state.is_preferred() for _ in range(3)] == [True, False, False]


def test_a_late_gate_still_gets_the_review_when_no_peer_answers(simulation: Simulation) -> None:
    """Try the late gate again: it may be slow and not blocked."""
    relay = simulation.create_relay(
        SimulatedGate(simulation, "local", silent=1, takes=60), SimulatedGate(simulation, "peer", silent=1000)
    )
    assert relay.forward(REVIEW, 104.8).body == b"local"
    assert simulation.names == ["local", *["peer"] * 12, "local"]


def test_both_are_tried_again_until_the_deadline(simulation: Simulation) -> None:
    relay = simulation.create_relay(
        SimulatedGate(simulation, "local", silent=9), SimulatedGate(simulation, "peer", silent=17)
    )
    assert relay.forward(REVIEW, 104.8).body == b"peer"
    assert simulation.names == ["local", "peer", "peer"] * 9
    assert simulation.now == pytest.approx(100.18)


def test_a_local_gate_without_peers_gets_all_the_time_and_is_tried_until_the_deadline(simulation: Simulation) -> None:
    relay = simulation.create_relay(SimulatedGate(simulation, "local", silent=1000))
    with pytest.raises(UnreachableError, match="local is silent at /v1/admit/mutate"):
        relay.forward(REVIEW, 104.8)
    assert simulation.requests[0] == ("local", 4.8)
    assert 104.7 < simulation.now <= 104.8
    assert simulation.count_requests() == {"none": 1}


@pytest.mark.parametrize(
    ("seconds", "local", "peer"),
    [
        pytest.param(1.8, 0.9, 0.45, id="half of a time up to 3 s"),
        pytest.param(4.0, 2.5, 0.75, id="1.5 s of a time up to 4.5 s"),
        pytest.param(4.8, 3.2, 0.8, id="a third of a longer time"),
        pytest.param(29.8, 19.867, 6.622, id="a third of the longest time"),
    ],
)
def test_a_slow_local_gate_leaves_time_for_a_peer(
    simulation: Simulation, seconds: float, local: float, peer: float
) -> None:
    relay = simulation.create_relay(
        SimulatedGate(simulation, "local", silent=1, takes=60), SimulatedGate(simulation, "peer")
    )
    assert relay.forward(REVIEW, simulation.now + seconds).body == b"peer"
    assert simulation.requests == [("local", local), ("peer", peer)]


@pytest.mark.parametrize(("seconds", "announced"), [(4.8, 4.7), (0.75, 0.65), (0.2, 0.1), (0.02, 0.01)])
def test_a_gate_gets_a_shorter_timeout_than_the_relays_so_that_its_error_arrives(
    seconds: float, announced: float
) -> None:
    assert compute_announced_seconds(seconds) == pytest.approx(announced)


def test_in_the_last_second_gates_that_are_not_ready_get_reviews(simulation: Simulation) -> None:
    relay = simulation.create_relay(
        SimulatedGate(simulation, "local", silent=1000), SimulatedGate(simulation, "peer", silent=1000)
    )
    with pytest.raises(UnreachableError):
        relay.forward(REVIEW, 104.0)
    assert simulation.allows_unready == [104.0 - moment < 1 for moment in simulation.moments]
    requests = zip(simulation.names, simulation.allows_unready, strict=True)
    assert {name for name, allows_unready in requests if allows_unready} == {"local", "peer"}


def test_a_review_from_another_relay_goes_to_the_local_gate_only_and_once(simulation: Simulation) -> None:
    relay = simulation.create_relay(SimulatedGate(simulation, "local", silent=1), SimulatedGate(simulation, "peer"))
    with pytest.raises(UnreachableError, match="local is silent"):
        relay.forward(RELAYED_REVIEW, 104.8)
    assert (simulation.names, simulation.now) == (["local"], 100.0)


def test_a_review_that_returns_to_its_relay_goes_to_no_gate(simulation: Simulation) -> None:
    """Reject it: a Service may choose the same relay, which would wait twice for a blocked gate."""
    relay = simulation.create_relay(SimulatedGate(simulation, "local"), SimulatedGate(simulation, "peer"))
    with pytest.raises(UnreachableError, match="there is no gate to ask"):
        relay.forward(RelayRequest("/v1/admit/mutate", b"{}", relayed_by="this"), 104.8)
    assert simulation.names == []


def test_a_passed_deadline_is_named(simulation: Simulation) -> None:
    with pytest.raises(UnreachableError, match="or no time"):
        simulation.create_relay(SimulatedGate(simulation, "local")).forward(REVIEW, 100.0)
    assert simulation.count_requests() == {"none": 1}
