"""Deleted namespaces and their ledgers, which are deleted once they are empty."""

from typing import Any

import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.state.ports import StoreUnavailableError
from tests.gate.gate_fixture import SHARED, raise_missing
from tests.gate.replica_fixture import BOUND, create_active_replica
from tests.state.transitions import Put


def test_the_ledger_of_a_deleted_namespace_is_deleted_when_it_is_empty() -> None:
    replica = create_active_replica()
    replica.store_pod("old", 3)
    replica.observe("old")
    replica.reconcile()
    replica.delete_pod("old")
    assert replica.count_gpus() == (3, 0)
    replica.delete_namespace("team-a")
    replica.reconcile_pending()
    assert replica.find_ledger() is None
    assert replica.reconciler.list_pending() == ()
    replica.reconcile_pending()
    assert replica.find_ledger() is None


def test_the_ledger_of_a_deleted_namespace_stays_while_it_has_reservations() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 2) == 200
    replica.delete_namespace("team-a")
    replica.reconcile_pending()
    assert replica.count_gpus() == (0, 2)
    for _ in range(3):
        replica.now += BOUND
        replica.reconcile_pending()
    assert replica.find_ledger() is None


@pytest.mark.parametrize(
    "more",
    [{"used": Amounts({"nvidia.com/gpu": 3}), "pods_revision": 1000}, {"initializer": "m"}],
    ids=["another replica has counted pods in it", "it is initializing"],
)
def test_the_ledger_of_a_deleted_namespace_stays_while(more: dict[str, Any]) -> None:
    replica = create_active_replica()
    replica.reconcile()
    replica.delete_namespace("team-a")
    replica.ledgers.transact(
        replica.get_ledger_key(), Put(lambda found: replace(found or raise_missing(), **more)), 0.0
    )
    replica.reconcile_pending()
    assert replica.find_ledger() is not None


def test_other_ledgers_are_counted_while_a_deleted_namespace_may_have_returned() -> None:
    replica = create_active_replica()
    replica.label_namespace("team-b")
    replica.reconcile()
    replica.delete_namespace("team-a")
    replica.store_pod("u1", 2)
    replica.observe("u1")
    replica.store_pod("u2", 3, "team-b")
    replica.observe("u2")
    replica.reconcile()
    assert replica.count_gpus("team-b") == (3, 0)


def test_a_follower_leaves_the_ledger_of_a_deleted_namespace_to_the_leader() -> None:
    replica = create_active_replica()
    replica.reconcile()
    replica.leadership.leading = False
    replica.delete_namespace("team-a")
    replica.reconcile_pending()
    assert replica.find_ledger() is not None
    assert replica.reconciler.list_pending() == ()
    replica.now += 61.0
    assert len(replica.reconciler.list_pending()) == 1
    replica.leadership.leading = True
    replica.reconcile_pending()
    assert replica.find_ledger() is None


def test_a_forbidden_deletion_of_a_ledger_is_retried_after_a_minute() -> None:
    replica = create_active_replica()
    replica.reconcile()
    replica.delete_namespace("team-a")
    replica.forbid_deletion(is_forbidden=True)
    with pytest.raises(StoreUnavailableError):
        replica.reconcile_pending()
    assert dict(replica.reconciler.list_ledgers(["team-a"])) == {}
    assert replica.reconciler.list_pending() == ()
    replica.now += 61.0
    replica.forbid_deletion(is_forbidden=False)
    replica.reconcile_pending()
    assert replica.find_ledger() is None


def test_a_reservation_does_not_expire_while_its_pod_is_in_a_namespace_unknown_to_the_replica() -> None:
    """Recreate the namespace unobserved: no count includes its pods, however new the count is."""
    replica = create_active_replica(SHARED)
    replica.label_namespace("team-b")
    replica.reconcile()
    assert replica.request_pod("u1", 2) == 200
    replica.delete_namespace("team-a")
    replica.store_pod("u1", 2)
    replica.observe("u1")
    for _ in range(5):
        replica.reconcile(BOUND)
    assert replica.count_gpus() == (0, 2)
    assert replica.request_pod("u2", 3, "team-b") == 403
    replica.label_namespace("team-a")
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)


def test_a_reservation_expires_if_its_namespace_is_deleted_and_its_pod_was_never_stored() -> None:
    replica = create_active_replica(SHARED)
    replica.label_namespace("team-b")
    replica.reconcile()
    assert replica.request_pod("u1", 2) == 200
    replica.delete_namespace("team-a")
    for _ in range(3):
        replica.reconcile(BOUND)
    assert replica.count_gpus() == (0, 0)
    assert replica.request_pod("u2", 4, "team-b") == 200


def test_a_namespace_that_returns_starts_with_an_empty_ledger() -> None:
    replica = create_active_replica()
    replica.reconcile()
    replica.delete_namespace("team-a")
    replica.reconcile_pending()
    replica.label_namespace("team-a")
    assert replica.request_pod("u1", 4) == 200
    assert replica.count_gpus() == (0, 4)


def test_pods_in_a_deleted_namespace_belong_to_a_new_one_of_the_same_name() -> None:
    """Observe pods at a later revision than namespaces: a count without these pods would be wrong."""
    replica = create_active_replica(SHARED)
    replica.label_namespace("team-b")
    replica.reconcile()
    assert replica.request_pod("u1", 2) == 200
    replica.delete_namespace("team-a")
    replica.store_pod("u1", 2)
    replica.observe("u1")
    replica.reconcile(BOUND)
    replica.reconcile(BOUND)
    assert sum(replica.count_gpus()) == 2
    assert replica.request_pod("u2", 3, "team-b") == 403
    replica.label_namespace("team-a")
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
