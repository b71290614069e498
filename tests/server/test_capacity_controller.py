"""The controller of capacities: it measures each second, starts with the record, and writes it as the leader."""

import json
from datetime import UTC, datetime

import pytest

from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
from tallygate.kube.resource_codec import Changed, Deleted, Replaced
from tallygate.policy.model import PolicySet
from tallygate.server.controllers.capacity_controller import CapacityController
from tallygate.server.telemetry.json_log import create_logger
from tallygate.state.informers.named_stores import NODE_CODEC, ObjectRecord
from tallygate.state.ports import CapacityRecord, StoreUnavailableError
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU

SHARE = CAP.replace(f"{GPU}: 4", f"{GPU}: 50%") + "  capacity: {settle: 20s, notReadyFor: 30s}\n"
UNIX_START = datetime(2026, 12, 1, 14, tzinfo=UTC).timestamp()


class _Store:
    """A record that a test sets, or that cannot be read or written."""

    def __init__(self, record: CapacityRecord | None = None) -> None:
        self.record, self.is_down, self.writes = record, False, 0

    def read(self) -> CapacityRecord | None:
        """Return the record."""
        self._require()
        return self.record

    def write(self, record: CapacityRecord) -> None:
        """Keep the record."""
        self._require()
        self.record, self.writes = record, self.writes + 1

    def close(self) -> None:
        """Do nothing."""

    def _require(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("leases may not be listed")


class _Replica:
    """A controller with the stores of a cluster; a test moves the time and delivers nodes."""

    def __init__(self, store: _Store, policies: PolicySet | None = None, at: float = 0.0) -> None:
        self.now, self.at, self.is_listing, self.store = 0.0, at, True, store
        self.state = ClusterState(lambda: self.now)
        self.state.device_classes.apply(Replaced([], 1))
        self.policies = policies or parse_policies(SHARE)
        self.controller = CapacityController(
            state=self.state,
            policies=lambda: self.policies,
            store=store,
            is_listing=lambda: self.is_listing,
            monotonic=lambda: self.now,
            unix_time=lambda: UNIX_START + self.at + self.now,
            log=create_logger("error"),
        )

    def list_nodes(self, **gpus: int) -> None:
        """Deliver the list of all nodes, with their GPUs."""
        self.state.nodes.apply(Replaced([_decode(name, amount, 1) for name, amount in gpus.items()], 1))
        self.is_listing = False

    def run(self, seconds: float = 0.0) -> None:
        """Let seconds pass, and run the worker once."""
        self.now += seconds
        self.controller.run()

    def read_limit(self) -> int | None:
        """Return the settled capacity, None if it is not known."""
        found = self.controller.get_cap_sources().capacities.get("gpus", {}).get(GPU)
        return None if found is None else found.amount


def _decode(name: str, gpus: int, revision: int, ready: str = "True") -> ObjectRecord[bytes]:
    metadata = {"name": name, "uid": name, "resourceVersion": str(revision)}
    amounts = {GPU: str(gpus)}
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-12-01T14:00:00Z"}
    node = {"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts, "conditions": [condition]}}
    event = NODE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": node}).encode())
    assert isinstance(event, Changed)
    record: ObjectRecord[bytes] = event.item
    return record


def test_a_capacity_is_unknown_until_nodes_are_listed_and_the_replica_is_not_ready() -> None:
    replica = _Replica(_Store())
    assert not replica.controller.check().ready
    replica.run()
    assert replica.read_limit() is None
    assert "nodes" in replica.controller.get_cap_sources().capacity_problem
    assert not replica.controller.check().ready
    replica.list_nodes(a=8, b=8)
    replica.run(1)
    assert replica.read_limit() == 16
    assert replica.controller.check().ready
    assert replica.controller.get_cap_sources().capacity_problem == ""


def test_a_replica_whose_nodes_cannot_be_listed_is_ready_and_says_so() -> None:
    replica = _Replica(_Store())
    replica.is_listing = False
    replica.run()
    status = replica.controller.check()
    assert status.ready
    assert "nodes" in status.detail["problem"]


def test_policies_without_percentages_read_nothing() -> None:
    replica = _Replica(_Store(), parse_policies(CAP))
    replica.store.is_down = True
    assert not replica.controller.run()
    status = replica.controller.check()
    assert (status.ready, status.detail) == (True, {})


def test_a_fall_acts_after_its_time_and_a_rise_at_once() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8, b=8)
    replica.run()
    replica.state.nodes.apply(Deleted(_decode("b", 8, 2), 2))
    replica.run(1)
    assert replica.read_limit() == 16
    replica.run(19)
    assert replica.read_limit() == 16
    replica.run(1)
    assert replica.read_limit() == 8
    replica.state.nodes.apply(Changed(_decode("c", 4, 3), 3))
    replica.run(1)
    assert replica.read_limit() == 12


def test_a_node_that_is_not_ready_for_long_counts_no_longer_though_nothing_changes() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8, b=8)
    replica.run()
    replica.state.nodes.apply(Changed(_decode("b", 8, 2, "False"), 2))
    for seconds, expected in ((1, 16), (30, 16), (19, 16), (1, 8)):  # 30 s until it does not count, then 20 s
        replica.run(seconds)
        assert replica.read_limit() == expected


def test_policies_that_are_new_are_measured_at_once() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8)
    replica.run()
    replica.policies = parse_policies(SHARE.replace("gpus", "others"))
    assert replica.controller.get_cap_sources().capacities["others"][GPU].amount == 8


def test_the_same_sources_are_returned_until_something_changes() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8)
    replica.run()
    before = replica.controller.get_cap_sources()
    replica.run(30)
    assert replica.controller.get_cap_sources() is before
    replica.state.nodes.apply(Changed(_decode("c", 4, 3), 3))
    replica.run(1)
    assert replica.controller.get_cap_sources() is not before


def test_a_replica_that_starts_takes_the_record_of_the_leader() -> None:
    leader = _Replica(_Store())
    leader.controller.is_leader = lambda: True
    leader.list_nodes(a=8, b=8)
    leader.run()
    replica = _Replica(leader.store, at=15)
    replica.list_nodes(a=8)
    replica.run()
    assert replica.read_limit() == 16
    replica.run(20)
    assert replica.read_limit() == 8


def test_a_record_that_cannot_be_read_is_awaited_for_some_seconds() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8)
    replica.store.is_down = True
    with pytest.raises(TallygateError):
        replica.run()
    assert (replica.read_limit(), replica.controller.check().ready) == (None, False)
    replica.run(10)
    assert (replica.read_limit(), replica.controller.check().ready) == (8, True)


def test_the_leader_writes_the_record_at_a_change_and_once_a_minute() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8)
    replica.run()
    assert replica.store.writes == 0
    replica.controller.is_leader = lambda: True
    writes = []
    for second in range(130):
        if second == 20:
            replica.state.nodes.apply(Changed(_decode("c", 4, 3), 3))
        replica.run(1)
        writes.append(replica.store.writes)
    assert [second for second in range(130) if writes[second] > (writes[second - 1] if second else 0)] == [0, 20, 80]


def test_nodes_that_flap_write_the_record_every_ten_seconds() -> None:
    replica = _Replica(_Store())
    replica.controller.is_leader = lambda: True
    replica.list_nodes(a=8, b=8)
    for second in range(60):
        node = _decode("b", 1 + second % 8, second + 2)
        replica.state.nodes.apply(Changed(node, second + 2))
        replica.run(1)
    assert replica.store.writes == 6


def test_a_record_that_cannot_be_written_is_tried_again() -> None:
    replica = _Replica(_Store())
    replica.list_nodes(a=8)
    replica.run()
    replica.controller.is_leader, replica.store.is_down = (lambda: True), True
    with pytest.raises(TallygateError):
        replica.run(1)
    assert replica.read_limit() == 8
    replica.store.is_down = False
    replica.run(1)
    assert replica.store.writes == 0
    replica.run(9)
    assert replica.store.writes == 1
