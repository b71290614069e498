"""The time of a recount: not while others write, yet soon, and with a reservation if reservations are many."""

from tests.gate.gate_fixture import CAP
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica, reserve_and_store


def create_busy_replica() -> ReplicaFixture:
    """Return a replica whose ledger has a reservation to recount, and another since the last reconcile."""
    replica = create_active_replica(CAP.replace("4", "100"))
    reserve_and_store(replica, "u1")
    replica.reconcile()
    replica.observe("u1")
    reserve_and_store(replica, "u2")
    return replica


def test_the_reconciler_does_not_recount_a_ledger_that_others_write() -> None:
    replica = create_busy_replica()
    replica.reconcile()
    assert replica.count_gpus() == (0, 2)


def test_a_ledger_is_recounted_once_it_is_unchanged_since_the_last_reconcile() -> None:
    replica = create_busy_replica()
    replica.reconcile()
    replica.reconcile(0.2)
    assert replica.count_gpus() == (1, 1)


def test_a_ledger_that_others_continue_to_write_is_recounted_after_some_seconds() -> None:
    replica = create_busy_replica()
    for number in range(4):
        replica.reconcile(1)
        assert replica.count_gpus()[0] == 0
        assert replica.request_pod(f"more-{number}") == 200
    replica.reconcile(1)
    assert replica.count_gpus()[0] == 1


def test_a_reservation_expires_in_a_ledger_that_others_continue_to_write() -> None:
    """Write after the bound with one reconcile, and read the pod with the next one."""
    replica = create_active_replica(CAP.replace("4", "100"))
    assert replica.request_pod("lost") == 200
    replica.reconcile()
    reserve_and_store(replica, "u1")
    replica.observe("u1")
    replica.reconcile(BOUND - 1)
    replica.reconcile(0.2)
    assert replica.count_gpus() == (1, 1)
    assert replica.request_pod("u2") == 200
    replica.reconcile(1)
    assert replica.request_pod("u3") == 200
    replica.reconcile()
    assert list(replica.read_ledger().reservations) == ["u2", "u3"]


def test_a_deletion_is_counted_at_once() -> None:
    replica = create_active_replica()
    reserve_and_store(replica, "u1")
    replica.observe("u1")
    reserve_and_store(replica, "u2")
    replica.reconcile()
    replica.delete_pod("u1")
    replica.reconcile()
    assert replica.count_gpus() == (0, 1)


def test_a_reserving_write_includes_a_recount_when_reservations_are_many() -> None:
    replica = create_active_replica(CAP.replace("4", "100"))
    for number in range(8):
        reserve_and_store(replica, f"u{number}")
    assert replica.request_pod("late") == 200
    assert replica.count_gpus() == (0, 9)
    for number in range(6):
        replica.observe(f"u{number}")
    assert replica.request_pod("last") == 200
    assert replica.count_gpus() == (6, 4)


def test_a_dry_run_writes_no_recount() -> None:
    replica = create_active_replica(CAP.replace("4", "100"))
    for number in range(9):
        reserve_and_store(replica, f"u{number}")
        replica.observe(f"u{number}")
    before = replica.read_ledger()
    assert replica.request_pod("dry", dryRun=True) == 200
    assert replica.read_ledger() == before
