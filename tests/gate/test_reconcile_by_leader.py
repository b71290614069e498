"""The leader reconciles the ledgers; the other replicas watch, and record the ages of reservations."""

import pytest

from tests.gate.gate_fixture import CAP, raise_missing
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica, reserve_and_store
from tests.state.transitions import Put, Read


def test_a_follower_leaves_ledgers_unchanged() -> None:
    replica = create_active_replica()
    reserve_and_store(replica, "u1")
    replica.observe("u1")
    replica.leadership.leading = False
    for _ in range(5):
        replica.reconcile(BOUND / 5)
    assert replica.count_gpus() == (0, 1)
    replica.leadership.leading = True
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)


def test_a_new_leader_knows_the_ages_of_reservations() -> None:
    replica = create_active_replica()
    replica.leadership.leading = False
    assert replica.request_pod("lost") == 200
    replica.reconcile()
    replica.reconcile(BOUND + 1)
    replica.leadership.leading = True
    replica.reconcile()
    assert replica.count_gpus() == (0, 1)
    replica.reconcile(1)
    assert replica.count_gpus() == (0, 0)


def test_a_reservation_that_the_leader_has_not_seen_expires_by_a_follower() -> None:
    """Leave the leader without a change that would make it reconcile the ledger."""
    replica = create_active_replica()
    replica.leadership.leading = False
    assert replica.request_pod("lost") == 200
    replica.reconcile()
    replica.reconcile(BOUND + 5)
    assert replica.count_gpus() == (0, 1)
    replica.reconcile(1)
    replica.reconcile(1)
    assert replica.count_gpus() == (0, 0)


@pytest.mark.parametrize(("count", "used"), [(1499, 0), (1500, 1)], ids=["less than half", "half"])
def test_a_follower_recounts_a_ledger_that_is_half_full_of_reservations(count: int, used: int) -> None:
    replica = create_active_replica(CAP.replace("4", "5000"))
    reserve_and_store(replica, "u1")
    replica.observe("u1")
    replica.leadership.leading = False
    reservation = replica.read_ledger().reservations["u1"]
    others = [(f"other-{number}", reservation) for number in range(count - 1)]
    put = Put(lambda found: (found or raise_missing()).with_reservations([("u1", reservation), *others]))
    replica.ledgers.transact(replica.get_ledger_key(), put, 0.0)
    replica.reconcile()
    assert replica.count_gpus()[0] == used


def test_a_follower_creates_no_ledger() -> None:
    replica = ReplicaFixture()
    replica.leadership.leading = False
    replica.reconcile()
    assert replica.ledgers.transact(replica.get_ledger_key(), Read(), 10.0) is None
