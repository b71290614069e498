"""The thread that renews leases: it begins to keep ledgers, says so, and lets go in the end."""

import time

from tests.gate.leases import Leases
from tests.server.process import eventually
from webhook.gate.leader_election import LEADER_LEASE, LeaderElector
from webhook.server.controllers.ledger_controller import LeaseController
from webhook.server.telemetry.json_log import create_logger


def thread(leases: Leases) -> LeaseController:
    """The thread of one replica."""
    return LeaseController(LeaderElector(leases, "one", list, time.monotonic), create_logger("error"))


def test_it_keeps_ledgers_as_long_as_it_runs_and_lets_go_of_its_leases() -> None:
    leases = Leases()
    leading = thread(leases)
    leading.worker.start()
    assert eventually(lambda: leading.worker.check().detail == {"leader": True})
    assert leases.stored[LEADER_LEASE].holder == "one"
    leading.worker.stop()
    assert {name: lease.holder for name, lease in leases.stored.items()} == {LEADER_LEASE: ""}


def test_without_leases_it_is_ready_and_says_what_is_wrong() -> None:
    leases = Leases()
    leases.is_down = True
    leading = thread(leases)
    leading.worker.start()
    assert eventually(lambda: "failure" in leading.worker.check().detail)
    assert leading.worker.check().ready
    assert leading.worker.check().detail["failure"] == "connection refused"
    leading.worker.stop()


def test_one_that_was_never_started_can_be_stopped() -> None:
    thread(Leases()).worker.stop()
