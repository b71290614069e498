"""The thread that renews leases: it becomes the leader, reports so, and releases its leases at the end."""

import time

from tallygate.webhook.gate.leader_election import LEADER_LEASE, LeaderElector
from tallygate.webhook.server.controllers.ledger_controller import LeaseController
from tallygate.webhook.server.telemetry.json_log import create_logger
from tests.gate.memory_leases import MemoryLeaseStore
from tests.server.process import eventually


def create_controller(leases: MemoryLeaseStore) -> LeaseController:
    """Return the lease controller of one replica."""
    return LeaseController(LeaderElector(leases, "one", list, time.monotonic), create_logger("error"))


def test_it_is_the_leader_while_it_runs_and_releases_its_leases() -> None:
    leases = MemoryLeaseStore()
    controller = create_controller(leases)
    controller.worker.start()
    assert eventually(lambda: controller.worker.check().detail == {"leader": True})
    assert leases.stored[LEADER_LEASE].holder == "one"
    controller.worker.stop()
    assert {name: lease.holder for name, lease in leases.stored.items()} == {LEADER_LEASE: ""}


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
