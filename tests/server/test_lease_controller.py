"""The thread that renews leases: it becomes the leader, reports so, and releases its leases at the end."""

import time

import pytest

from tallygate.gate.leader_election import LEADER_LEASE, LeaderElector
from tallygate.server.controllers import ledger_controller
from tallygate.server.controllers.ledger_controller import LeaseController
from tallygate.server.telemetry.json_log import create_logger
from tests.gate.memory_leases import MemoryLeaseStore
from tests.server.app_harness import Log
from tests.server.process import eventually


def create_controller(leases: MemoryLeaseStore) -> LeaseController:
    """Return the lease controller of one replica."""
    return LeaseController(LeaderElector(leases, "one", dict, time.monotonic), create_logger("error"))


def test_it_is_the_leader_while_it_runs_and_releases_its_leases() -> None:
    leases = MemoryLeaseStore()
    controller = create_controller(leases)
    controller.worker.start()
    assert eventually(lambda: controller.worker.check().detail == {"leader": True})
    assert leases.stored[LEADER_LEASE].holder == "one"
    controller.worker.stop()
    assert {name: lease.holder for name, lease in leases.stored.items()} == {LEADER_LEASE: ""}


def test_the_first_run_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_controller, "RETRY_PERIOD_SECONDS", 3600.0)
    leases = MemoryLeaseStore()
    controller = create_controller(leases)
    controller.worker.start()
    assert eventually(lambda: LEADER_LEASE in leases.stored)
    controller.worker.stop()


def test_the_begin_and_the_end_of_leading_are_logged_once_each() -> None:
    leases, log, now = MemoryLeaseStore(), Log("info"), 1000.0
    controller = LeaseController(LeaderElector(leases, "one", dict, lambda: now), log.logger)
    for is_down in (False, False, True, False, False):
        leases.is_down = is_down
        controller.worker.run_once()
        now += 11.0  # more than the deadline of a renewal, and less than the duration of a lease
    events = [line["event"] for line in log.lines if line["event"].startswith("leading")]
    assert events == ["leading-started", "leading-stopped", "leading-started"]


def test_without_leases_it_is_ready_and_reports_the_failure() -> None:
    leases = MemoryLeaseStore()
    leases.is_down = True
    controller = create_controller(leases)
    controller.worker.start()
    assert eventually(lambda: "failure" in controller.worker.check().detail)
    assert controller.worker.check().ready
    assert controller.worker.check().detail["failure"] == "connection refused"
    controller.worker.stop()


def test_a_controller_that_never_started_can_be_stopped() -> None:
    create_controller(MemoryLeaseStore()).worker.stop()
