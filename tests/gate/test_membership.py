"""Namespaces that enter and leave caps by their labels, and replicas with different namespaces."""

import pytest
from msgspec.structs import replace

from tallygate.cluster.membership import Membership
from tallygate.kube.resource_codec import Bookmark
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.gate.gate_fixture import BY_LABEL, SHARED
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.state.transitions import Put


def test_a_shared_cap_counts_the_pods_of_all_its_namespaces() -> None:
    replica = ReplicaFixture(SHARED, namespaces=("team-a", "team-b", "other"))
    for uid, namespace in (("u1", "team-a"), ("u2", "team-b"), ("u3", "other")):
        replica.store_pod(uid, 1, namespace)
        replica.observe(uid)
    replica.activate_ledgers()
    assert replica.count_gpus() == (2, 0)
    assert replica.request_pod("u4", 2, "team-b") == 200
    assert replica.request_pod("u5", 1, "team-a") == 403


def test_a_namespace_that_enters_a_shared_cap_brings_its_pods() -> None:
    replica = ReplicaFixture(BY_LABEL.replace("hard:", "shared: true\n  hard:"))
    replica.label_namespace("team-a", gpu="yes")
    replica.label_namespace("team-b")
    replica.store_pod("u1", 3, "team-b")
    replica.observe("u1")
    replica.activate_ledgers()
    assert replica.count_gpus() == (0, 0)
    replica.label_namespace("team-b", gpu="yes")
    assert replica.request_pod("u2", 2) == 403
    replica.reconcile()
    assert replica.count_gpus() == (3, 0)
    replica.label_namespace("team-b")
    assert replica.request_pod("u2", 2) == 200


def test_a_namespace_that_leaves_a_cap_and_returns_brings_its_new_pods() -> None:
    replica = ReplicaFixture(BY_LABEL)
    replica.label_namespace("team-a", gpu="yes")
    replica.activate_ledgers()
    assert replica.request_pod("u0", dryRun=True) == 200, "after this request the cap is not new in the replica"
    replica.label_namespace("team-a")
    replica.store_pod("u1", 4)
    replica.observe("u1")
    replica.label_namespace("team-a", gpu="yes")
    assert replica.request_pod("u2", 1) == 403
    assert replica.count_gpus() == (0, 0)
    replica.delete_pod("u1")
    assert replica.request_pod("u2", 4) == 200
    replica.label_namespace("team-a", gpu="yes", other="label")
    assert replica.request_pod("u3", 1) == 403


def test_a_recount_of_newer_namespaces_and_older_pods_is_replaced_once_newer_pods_are_seen() -> None:
    """Observe the return of the namespace before a pod that was stored while it was outside."""
    replica = ReplicaFixture(BY_LABEL)
    replica.label_namespace("team-a", gpu="yes")
    replica.activate_ledgers()
    assert replica.request_pod("u0", dryRun=True) == 200
    replica.label_namespace("team-a")
    replica.store_pod("u1", 4)
    replica.label_namespace("team-a", gpu="yes")
    assert replica.request_pod("u2") == 200, "no replica has seen the pod"
    replica.observe("u1")
    assert replica.request_pod("u3") == 403
    assert replica.count_gpus() == (0, 1), "a rejected request writes nothing"


def test_a_shared_cap_counts_the_new_pods_of_a_namespace_that_left_and_returned() -> None:
    replica = ReplicaFixture(BY_LABEL.replace("hard:", "shared: true\n  hard:"), namespaces=("team-a", "team-b"))
    for name in ("team-a", "team-b"):
        replica.label_namespace(name, gpu="yes")
    replica.activate_ledgers()
    assert replica.request_pod("u0", dryRun=True) == 200
    replica.label_namespace("team-b")
    replica.store_pod("u1", 3, "team-b")
    replica.observe("u1")
    replica.label_namespace("team-b", gpu="yes")
    assert replica.request_pod("u2", 2) == 403
    assert replica.request_pod("u3", 1) == 200
    assert replica.count_gpus() == (3, 1)


def test_a_replica_with_older_pods_than_the_count_reserves_unless_its_namespace_has_changed() -> None:
    """Reserve without a recount, also after a bookmark or a change of another namespace."""
    replica = ReplicaFixture(BY_LABEL)
    replica.label_namespace("team-a", gpu="yes")
    replica.activate_ledgers()
    (cap,) = replica.caps.list_caps()
    newer = Put(lambda found: replace(found or Ledger(cap.hard), pods_revision=replica.revision + 100))
    replica.ledgers.transact(LedgerKey(cap.key, "team-a"), newer, 0.0)
    assert replica.request_pod("u1") == 200
    replica.label_namespace("team-b", gpu="yes")
    replica.namespaces.apply(Bookmark(replica.revision + 50))
    assert replica.request_pod("u2") == 200
    replica.revision += 50
    replica.label_namespace("team-a", gpu="yes", other="label")
    assert replica.request_pod("u3") == 429
    assert replica.request_pod("u4", 0) == 200, "a request of zero needs no count"
    assert replica.count_gpus() == (0, 2)


def test_a_ledger_whose_namespace_has_left_gets_another_hash() -> None:
    replica = ReplicaFixture(BY_LABEL)
    replica.label_namespace("team-a", gpu="yes")
    replica.activate_ledgers()
    before = replica.read_ledger().namespaces_hash
    replica.label_namespace("team-a")
    replica.reconcile()
    assert replica.read_ledger().namespaces_hash != before
    assert list(replica.reconciler.list_ledgers(["team-a"])) == []


def test_replicas_that_differ_only_by_bookmarks_do_not_defer_each_other() -> None:
    """Write a namespaces revision that states only that nothing has changed since."""
    replica = create_active_replica()
    replica.namespaces.apply(Bookmark(replica.revision + 500))
    assert replica.request_pod("u1") == 200
    replica.reconcile()
    assert replica.read_ledger().namespaces_revision <= replica.revision
    (cap,) = replica.caps.list_caps()
    key = LedgerKey(cap.key, "team-a")
    replica.ledgers.transact(
        key, Put(lambda found: replace(found or Ledger(cap.hard), namespaces_revision=replica.revision + 400)), 0.0
    )
    assert replica.request_pod("u2") == 200
    replica.reconcile()
    assert replica.read_ledger().namespaces_revision == replica.revision + 400
    replica.ledgers.transact(
        key, Put(lambda found: replace(found or Ledger(cap.hard), namespaces_revision=replica.revision + 600)), 0.0
    )
    assert replica.request_pod("u3") == 200
    assert replica.progress_requests == 0


def test_a_replica_with_other_and_older_namespaces_requests_progress() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    put = Put(
        lambda found: replace(
            found or Ledger(cap.hard), namespaces_revision=replica.revision + 600, namespaces_hash="others"
        )
    )
    replica.ledgers.transact(LedgerKey(cap.key, "team-a"), put, 0.0)
    assert replica.request_pod("u1") == 429
    assert replica.progress_requests == 1


@pytest.mark.parametrize(
    ("unchanged_since", "last_change", "revision", "stored", "chosen"),
    [
        pytest.param(5, 5, 9, 7, 7, id="the revision of the ledger, if nothing has changed since"),
        pytest.param(5, 5, 9, 12, 9, id="no more than this replica has seen"),
        pytest.param(6, 5, 9, 3, 6, id="no less than the last change of any namespace"),
        pytest.param(5, 8, 9, 3, 8, id="no less than the last change of its own namespace"),
    ],
)
def test_a_count_has_the_namespaces_revision(
    unchanged_since: int, last_change: int, revision: int, stored: int, chosen: int
) -> None:
    members = Membership(
        frozenset({"team-a"}), "hash", revision=revision, unchanged_since=unchanged_since, last_change=last_change
    )
    assert members.choose_revision(stored) == chosen
