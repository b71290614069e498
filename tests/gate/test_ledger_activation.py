"""New ledgers, and their activation: after pods in flight are counted, or at once."""

import pytest
from msgspec.structs import replace

from tallygate.cluster.usage_lister import UsageLister
from tallygate.state.informers.named_stores import NamespaceStore
from tallygate.state.ports import LedgerKey
from tests.gate.gate_fixture import pod, raise_missing, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.state.transitions import Put


def test_after_a_start_nothing_is_reserved_until_pods_in_flight_are_counted() -> None:
    replica = ReplicaFixture()
    replica.store_pod("old", 3)
    assert replica.request_pod("u1") == 429
    replica.reconcile()
    assert replica.request_pod("u1") == 429
    replica.observe("old")
    replica.reconcile(BOUND - 1)
    assert replica.request_pod("u1") == 429
    replica.reconcile(1)
    replica.reconcile()
    assert replica.request_pod("u1", 2) == 403
    assert replica.request_pod("u1", 1) == 200
    assert replica.count_gpus() == (3, 1)


def test_a_retry_names_the_cap_and_the_reason() -> None:
    answer = ReplicaFixture().admit(pod("u1", 1))
    assert response(answer)["status"]["message"] == (
        "cap gpus cannot decide yet: its ledger is missing or not counted yet, and what runs is counted first; "
        "enforced from about 00:00:50 UTC (TG218, cap gpus); no decision: retry in 1 s"
    )


@pytest.mark.parametrize("was_down", [False, True], ids=["it is active", "it cannot be read"])
def test_no_retry_has_the_reason_that_the_record_was_not_read(was_down: bool) -> None:  # noqa: FBT001  # a column
    """Read it before the answer: the runbook has no such reason."""
    replica = ReplicaFixture()
    replica.record.is_down = was_down
    answer = replica.admit(pod("u1", 1))
    assert replica.record.reads == 1
    assert response(answer)["status"]["code"] == 429
    assert "its ledger is missing or not counted yet" in response(answer)["status"]["message"]


def test_a_view_that_is_too_old_to_activate_a_ledger_requests_progress_now_and_then() -> None:
    replica = ReplicaFixture()
    replica.reconcile()
    replica.synced_at = replica.now
    replica.reconcile(BOUND)
    assert replica.progress_requests == 1
    replica.reconcile(1)
    assert replica.progress_requests == 1
    replica.reconcile(5)
    assert replica.progress_requests == 2
    assert replica.request_pod("u1") == 429
    replica.synced_at = replica.now
    replica.reconcile(1)
    assert replica.request_pod("u1") == 200


def test_a_new_namespace_need_not_wait() -> None:
    replica = ReplicaFixture()
    replica.label_namespace("team-new")
    assert replica.request_pod("u1", 4, "team-new") == 200
    assert replica.request_pod("u2", 1, "team-new") == 403
    assert replica.request_pod("u1") == 429


def test_an_unknown_namespace_gets_no_ledger() -> None:
    replica = ReplicaFixture()
    assert replica.request_pod("u1", 1, "team-new") == 429
    replica.label_namespace("team-new")
    assert replica.request_pod("u1", 1, "team-new") == 200


def test_a_new_namespace_gets_its_ledger_before_the_first_request() -> None:
    replica = ReplicaFixture()
    replica.label_namespace("team-new")
    replica.reconcile()
    assert not replica.read_ledger("team-new").initializer
    assert replica.read_ledger("team-a").initializer


def test_a_ledger_that_was_deleted_in_a_new_namespace_is_not_its_first() -> None:
    """Delete the ledger as a user: its reservations are unknown then."""
    replica = ReplicaFixture()
    replica.label_namespace("team-new")
    (cap,) = replica.caps.list_caps()
    key = LedgerKey(cap.key, "team-new")
    assert replica.usage_lister.is_new_ledger(cap, key)
    assert not replica.usage_lister.is_new_ledger(cap, LedgerKey(cap.key, "team-a"))
    replica.reconcile()
    assert not replica.usage_lister.is_new_ledger(cap, key)
    replica.delete_ledger(key)
    assert replica.request_pod("u1", 1, "team-new") == 429
    assert replica.read_ledger("team-new").initializer


def test_a_ledger_that_is_created_a_minute_after_its_namespace_is_not_its_first() -> None:
    """Create the ledger after a minute without requests and without other namespace events."""
    replica = ReplicaFixture()
    replica.label_namespace("team-new")
    replica.now += 61
    assert replica.request_pod("u1", 1, "team-new") == 429
    assert replica.read_ledger("team-new").initializer


def test_a_ledger_is_activated_though_nothing_else_of_it_changes() -> None:
    replica = create_active_replica()
    replica.ledgers.transact(
        replica.get_ledger_key(), Put(lambda found: replace(found or raise_missing(), initializer="m")), 0.0
    )
    replica.activate_ledgers()
    assert not replica.read_ledger().initializer


def test_no_namespace_is_deleted_before_namespaces_are_listed() -> None:
    replica = ReplicaFixture()
    usage_lister = UsageLister(replica.pods, NamespaceStore(), lambda: replica.now, lambda: replica.now)
    assert not usage_lister.is_namespace_deleted(replica.get_ledger_key())
    assert not replica.usage_lister.is_namespace_deleted(replica.get_ledger_key())
    replica.delete_namespace("team-a")
    assert replica.usage_lister.is_namespace_deleted(replica.get_ledger_key())


def test_a_ledger_without_reservations_is_activated_by_any_replica() -> None:
    replica = ReplicaFixture()
    assert replica.request_pod("u1") == 429
    replica.leadership.leading = False
    replica.activate_ledgers()
    assert replica.request_pod("u1") == 200


def test_a_cap_that_not_all_replicas_have_loaded_reserves_nothing() -> None:
    replica = ReplicaFixture()
    replica.leadership.loaded_since = None
    for _ in range(5):
        replica.reconcile(BOUND)
    assert replica.request_pod("u1") == 429
    replica.leadership.loaded_since = replica.now
    replica.reconcile(BOUND - 1)
    assert replica.request_pod("u1") == 429
    replica.reconcile(2)
    assert replica.request_pod("u1") == 200


def test_a_cap_that_the_last_replica_loads_late_needs_a_list_begun_after_that() -> None:
    """Request progress once more: nothing else moves the view of a quiet cluster."""
    replica = ReplicaFixture()
    replica.reconcile()
    replica.leadership.loaded_since = replica.now + BOUND
    replica.reconcile(BOUND)
    replica.synced_at = replica.now
    requested = replica.progress_requests
    replica.reconcile(BOUND - 10)
    assert replica.progress_requests == requested
    replica.reconcile(20)
    assert replica.progress_requests == requested + 1
    replica.synced_at = replica.now
    replica.reconcile()
    assert replica.request_pod("u1", 1) == 200
