"""Reservations become used, or expire: the gate and its reconciler in a cluster that is observed late."""

import pytest

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.limit_schedule import CurrentLimits
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, SHARED
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.state.informers.pods import pod as stored_pod


def test_a_reservation_becomes_used_when_its_pod_is_observed() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 3) == 200
    replica.store_pod("u1", 3)
    replica.reconcile()
    assert replica.count_gpus() == (0, 3)
    replica.observe("u1")
    replica.reconcile()
    assert replica.count_gpus() == (3, 0)
    assert not replica.read_ledger().reservations


def test_a_deleted_pod_frees_its_amount_before_the_next_reconcile() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 4) == 200
    replica.store_pod("u1", 4)
    replica.observe("u1")
    assert replica.request_pod("u2", 1) == 403
    replica.delete_pod("u1")
    assert replica.request_pod("u2", 4) == 200
    assert replica.count_gpus() == (0, 4)


def test_a_reservation_whose_pod_was_never_stored_expires_after_the_bound() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 4) == 200
    replica.reconcile()
    replica.reconcile(BOUND - 1)
    assert replica.request_pod("u2") == 403
    replica.reconcile(1)
    replica.reconcile()
    assert replica.request_pod("u2", 4) == 200


def test_a_write_that_was_sent_before_the_bound_expires_no_reservation() -> None:
    """Commit that write before a creation that waits inside etcd, however late its response is."""
    replica = create_active_replica()
    assert replica.request_pod("u1", 3) == 200
    replica.reconcile()
    replica.store_pod("u2", 1)
    replica.observe("u2")
    replica.now += BOUND - 2
    replica.reconcile_slowly(4)
    assert replica.count_gpus() == (1, 3)
    replica.reconcile()
    assert replica.count_gpus() == (1, 3)
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)


def test_reconcile_returns_the_number_of_expired_reservations() -> None:
    replica = create_active_replica(CAP.replace("4", "100"))
    (cap,) = replica.caps.list_caps()
    key = LedgerKey(cap.key, "team-a")
    for uid in ("u1", "u2"):
        assert replica.request_pod(uid) == 200
    replica.reconcile()
    assert replica.request_pod("u3") == 200
    replica.reconcile(BOUND)
    assert replica.reconciler.reconcile(key, cap).expired == 2
    assert list(replica.read_ledger().reservations) == ["u3"]


def test_a_pod_that_is_stored_late_and_unobserved_stays_reserved() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 4) == 200
    replica.reconcile()
    replica.store_pod("u1", 4)
    for _ in range(5):
        replica.reconcile(BOUND)
    assert replica.count_gpus() == (0, 4)
    assert replica.request_pod("u2") == 403
    replica.relist()
    replica.reconcile()
    assert replica.count_gpus() == (4, 0)


@pytest.mark.parametrize("text", [CAP, SHARED], ids=["in a namespace", "in a shared ledger"])
def test_the_reservation_of_a_change_that_was_never_stored_expires_though_its_pod_exists(text: str) -> None:
    replica = create_active_replica(text)
    replica.store_pod("u1", 1)
    replica.observe("u1")
    replica.reconcile()
    assert replica.request_pod("u1", 4, oldObject=stored_pod("u1", 0, "1", "team-a")) == 200
    assert replica.count_gpus() == (1, 3)
    replica.reconcile()
    replica.reconcile(BOUND - 1)
    assert replica.request_pod("u2") == 403
    replica.reconcile(1)
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)
    assert replica.request_pod("u2", 3) == 200


def test_a_missed_deletion_frees_its_amount_after_a_list() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 4) == 200
    replica.store_pod("u1", 4)
    replica.observe("u1")
    replica.reconcile()
    del replica.stored_pods["u1"]
    replica.relist()
    replica.reconcile()
    assert replica.count_gpus() == (0, 0)


def test_reconcile_without_changes_writes_nothing() -> None:
    replica = create_active_replica()
    before = replica.read_ledger()
    replica.relist()
    replica.reconcile(1)
    assert replica.read_ledger() is before


def test_a_rejection_by_a_view_that_was_silent_for_long_requests_progress() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 4) == 200
    replica.synced_at = replica.now
    replica.now += 19
    assert replica.request_pod("u2") == 403
    assert replica.progress_requests == 0
    replica.now += 2
    assert (replica.request_pod("u3"), replica.progress_requests) == (403, 1)
    assert (replica.request_pod("u4"), replica.progress_requests) == (403, 1)


def test_a_lowered_cap_admits_nothing_more_and_removes_nothing() -> None:
    replica = create_active_replica()
    assert replica.request_pod("u1", 3) == 200
    replica.store_pod("u1", 3)
    replica.observe("u1")
    (cap,) = replica.caps.list_caps()
    key = LedgerKey(cap.key, "team-a")
    lowered = type(cap)(cap.definition, cap.key, CurrentLimits(Amounts({"nvidia.com/gpu": 2})), cap.soft)
    replica.reconciler.reconcile(key, lowered)
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 2}
    assert replica.count_gpus() == (3, 0)
    assert replica.request_pod("u2") == 403


def test_a_new_limit_is_written_though_nothing_else_has_changed() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    lowered = type(cap)(cap.definition, cap.key, CurrentLimits(Amounts({"nvidia.com/gpu": 2})), cap.soft)
    replica.reconciler.reconcile(LedgerKey(cap.key, "team-a"), lowered)
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 2}


def test_a_resource_that_a_cap_starts_to_count_is_written_though_no_pod_uses_it() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    (more,) = CapIndex(parse_policies(CAP + "  soft: {pods: 3}\n"), None).list_caps()
    replica.reconciler.reconcile(LedgerKey(cap.key, "team-a"), more)
    assert replica.read_ledger().resources == {"nvidia.com/gpu", "pods"}


def test_a_ledger_is_still_counted_after_its_cap_drops_a_resource() -> None:
    """Drop a resource with a soft limit only: the hard limits stay."""
    replica = create_active_replica(CAP + "  soft: {pods: 3}\n")
    assert replica.read_ledger().resources == {"nvidia.com/gpu", "pods"}
    (cap,) = replica.caps.list_caps()
    (fewer,) = CapIndex(parse_policies(CAP), None).list_caps()
    replica.store_pod("u1", 3)
    replica.observe("u1")
    replica.reconciler.reconcile(LedgerKey(cap.key, "team-a"), fewer)
    assert replica.read_ledger().resources == {"nvidia.com/gpu"}
    assert replica.read_ledger().used == {"nvidia.com/gpu": 3}


def test_a_snapshot_is_as_old_as_the_start_of_its_count() -> None:
    """Observe a pod between the count of the pods and the read of its age."""
    replica = ReplicaFixture()
    for _ in range(2):
        replica.reconcile(BOUND)
    replica.store_pod("late", 4)

    def current_at() -> float:
        replica.observe("late")
        return replica.now

    replica.usage_lister.synced_at = current_at
    replica.reconcile()
    assert replica.count_gpus() == (4, 0)
    assert replica.request_pod("u1") == 403


def test_only_ledgers_with_reservations_are_pending() -> None:
    replica = create_active_replica()
    assert replica.reconciler.list_pending() == ()
    assert replica.request_pod("u1", 1) == 200
    replica.reconcile()
    assert len(replica.reconciler.list_pending()) == 1
    replica.store_pod("u1", 1)
    replica.observe("u1")
    replica.reconcile()
    assert replica.reconciler.list_pending() == ()
