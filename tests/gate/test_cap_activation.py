"""Caps that become active, again or with another resource: existing pods are counted first."""

import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.decisions import UndecidedError
from tallygate.gate.gate import Gate
from tallygate.review.view import ClusterView
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.gate.replica_fixture import create_active_replica
from tests.state.informers.pods import page
from tests.state.transitions import Put


def test_a_resource_that_a_cap_starts_to_count_includes_existing_pods() -> None:
    replica = create_active_replica()
    replica.store_pod("u1", 3)
    replica.observe("u1")
    (cap,) = replica.caps.list_caps()
    key = LedgerKey(cap.key, "team-a")
    replica.ledgers.transact(key, Put(lambda _: Ledger(cap.hard)), 0.0)
    assert replica.request_pod("u2", 2) == 403
    assert replica.request_pod("u3", 1) == 200
    assert replica.read_ledger().resources == {"nvidia.com/gpu"}


def test_a_cap_that_was_removed_and_restored_counts_new_pods_before_it_reserves() -> None:
    """Its ledger is unchanged since; it is not reconciled yet, and the watch is behind."""
    replica = create_active_replica()
    assert replica.request_pod("u1", 1) == 200
    replica.store_pod("u1", 1)
    replica.observe("u1")
    replica.reconcile()
    policies_with_cap = replica.policies
    replica.policies = parse_policies("")
    assert replica.request_pod("u2", 3) == 200
    replica.store_pod("u2", 3)
    replica.synced_at = replica.now
    replica.now += 1
    replica.policies = policies_with_cap
    assert replica.request_pod("u3", 1) == 429
    assert replica.progress_requests == 1
    replica.observe("u2")
    replica.synced_at = replica.now
    assert replica.request_pod("u3", 1) == 403
    assert replica.read_ledger().pods_revision < replica.revision, "the ledger was not written meanwhile"


def test_a_replica_that_starts_recounts_a_ledger_that_is_older_than_its_view() -> None:
    """Recount, since a new process cannot know whether the cap was active before."""
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    replica.store_pod("u1", 4)
    replica.observe("u1")
    before = replace(replica.read_ledger(), used=Amounts(), pods_revision=1)
    replica.ledgers.transact(LedgerKey(cap.key, "team-a"), Put(lambda _: before), 0.0)
    assert replica.request_pod("u2", 1) == 403


def test_a_request_during_the_removal_of_a_cap_requires_a_count_since_its_activation() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    replica.usage_lister.set_active_caps([])
    replica.usage_lister.set_active_caps([cap.key])
    required = replica.usage_lister.get_required_revisions(cap).pods
    assert required == replica.revision
    replica.usage_lister.set_active_caps([])
    assert replica.usage_lister.get_required_revisions(cap).pods == required
    replica.usage_lister.set_active_caps([])
    assert replica.usage_lister.get_required_revisions(cap).pods > 2**60


def test_a_cap_that_stays_active_during_a_policy_change_needs_no_newer_count() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    replica.usage_lister.set_active_caps([cap.key])
    required = replica.usage_lister.get_required_revisions(cap).pods
    replica.now += 1
    replica.store_pod("u1")
    replica.observe("u1")
    replica.usage_lister.set_active_caps([cap.key, "another"])
    assert replica.usage_lister.get_required_revisions(cap).pods == required < replica.revision


def test_a_cluster_that_was_restored_from_a_backup_requires_only_its_own_revision() -> None:
    replica = create_active_replica()
    (cap,) = replica.caps.list_caps()
    replica.usage_lister.set_active_caps([cap.key])
    assert replica.usage_lister.get_required_revisions(cap).pods == replica.revision
    replica.pods.apply(page(5))
    assert replica.usage_lister.get_required_revisions(cap).pods == 5


def test_a_review_before_the_first_list_of_pods_is_left_to_another_replica() -> None:
    replica = create_active_replica()
    unlisted = UsageLister(PodStore(), replica.namespaces, lambda: replica.now, lambda: None)
    replica.gate = Gate(
        policies=lambda: replica.policies,
        view=ClusterView(namespaces=replica.namespaces, usage_lister=unlisted),
        ledgers=replica.ledgers,
        monotonic=lambda: replica.now,
        nonce=lambda: "n",
        unix_time=lambda: replica.now,
    )
    with pytest.raises(UndecidedError, match="pods are not listed yet") as caught:
        replica.request_pod("u2")
    assert caught.value.is_transient
