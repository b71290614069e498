"""A new cap counts first and enforces then; one whose ledger is lost stays closed (rule 7)."""

from datetime import UTC, datetime

import pytest

from tallygate.gate.cap_activation import (
    RECORD_LEASE,
    create_lease_reader,
    create_process_reader,
)
from tallygate.state.ports import Lease
from tests.gate.gate_fixture import CAP, GPU, TWO, response
from tests.gate.memory_leases import MemoryLeaseStore
from tests.gate.replica_fixture import BOUND, ReplicaFixture

MIDNIGHT = datetime(2026, 11, 27, tzinfo=UTC)


def create_new_replica(text: str = CAP) -> ReplicaFixture:
    """Return a replica whose caps were never active, with three stored pods of one GPU each."""
    replica = ReplicaFixture(text)
    replica.record.is_active = False
    replica.leadership.recorded = False
    for uid in ("old-1", "old-2", "old-3"):
        replica.store_pod(uid)
        replica.observe(uid)
    return replica


def record(replica: ReplicaFixture) -> None:
    """Write the record, as the leader does."""
    replica.record.is_active = replica.leadership.recorded = True


def forget(replica: ReplicaFixture, cap: str) -> None:
    """Delete the ledger of a cap, and let the replica forget that it saw it: the cap is new."""
    key = replica.get_ledger_key(cap)
    replica.delete_ledger(key)
    replica.usage_lister._existing_ledgers.pop(key)  # noqa: SLF001  # as a replica that loads the cap now


def test_a_new_cap_admits_with_a_warning_until_it_is_counted_and_enforces_then() -> None:
    replica = create_new_replica()
    replica.utc = MIDNIGHT
    answer = response(replica.create(4))
    assert answer["allowed"]
    assert answer["warnings"] == [
        'Pod "p": cap gpus is new and counts existing pods first: enforced from about 00:00:50 UTC (TG217, cap gpus)'
    ]
    assert replica.request_pod("u2", 4) == 200
    replica.store_pod("u2", 4)
    replica.observe("u2")
    record(replica)
    for _ in range(3):
        replica.reconcile(BOUND)
    assert not replica.read_ledger().initializer
    assert replica.request_pod("u3") == 403


def test_pods_that_a_new_cap_admitted_are_charged_when_it_becomes_active() -> None:
    """Admit one that may be stored only after the count: its reservation is in the ledger."""
    replica = create_new_replica()
    replica.reconcile()
    record(replica)
    replica.reconcile(BOUND)
    assert replica.record.reads == 1
    replica.record.is_active = False
    assert replica.request_pod("u1", 4) == 200, "its attempt read the record before the leader wrote it"
    replica.record.is_active = True
    replica.reconcile(1)
    ledger = replica.read_ledger()
    assert not ledger.initializer
    assert (ledger.used, ledger.reserved) == ({GPU: 3}, {GPU: 4})
    assert replica.request_pod("u2") == 403


def test_a_new_cap_is_not_active_before_it_is_recorded() -> None:
    replica = create_new_replica()
    for _ in range(5):
        replica.reconcile(BOUND)
    assert replica.read_ledger().counts_first
    assert replica.count_gpus() == (3, 0), "it counts meanwhile"
    assert replica.request_pod("u1", 9) == 200


def test_a_ledger_that_is_lost_stays_closed() -> None:
    replica = create_new_replica()
    record(replica)
    replica.activate_ledgers()
    assert replica.request_pod("u1") == 200
    replica.delete_ledger(replica.get_ledger_key())
    status = response(replica.create(1))["status"]
    assert status["code"] == 429
    assert (
        "cap gpus cannot decide yet: its ledger is missing or not counted yet, and what runs is counted first"
        in (status["message"])
    )
    assert "enforced from about" in status["message"]
    assert "(TG218, cap gpus)" in status["message"]
    assert not replica.read_ledger().counts_first


def test_a_ledger_of_a_new_cap_admits_nothing_once_the_cap_is_recorded() -> None:
    """Let a replica that was frozen create it: the cap was active, and its ledger was lost since."""
    replica = create_new_replica()
    assert replica.request_pod("u1") == 200
    record(replica)
    assert replica.request_pod("u2") == 429


def test_a_ledger_is_lost_if_the_record_cannot_be_read() -> None:
    replica = create_new_replica()
    replica.record.is_down = True
    assert replica.request_pod("u1") == 429
    replica.reconcile()
    assert not replica.read_ledger().counts_first
    assert replica.read_ledger().initializer


def test_a_dry_run_under_a_new_cap_writes_nothing() -> None:
    replica = create_new_replica()
    assert replica.request_pod("u1", 9, dryRun=True) == 200
    key = replica.get_ledger_key()
    with pytest.raises(KeyError):
        replica.delete_ledger(key)


def test_an_active_ledger_reads_no_record() -> None:
    replica = create_new_replica()
    record(replica)
    replica.activate_ledgers()
    before = replica.record.reads
    assert replica.request_pod("u1") == 200
    replica.reconcile()
    assert replica.record.reads == before


def test_a_new_cap_beside_an_active_one_decides_nothing() -> None:
    replica = ReplicaFixture(TWO)
    replica.activate_ledgers()
    replica.record.is_active = replica.leadership.recorded = False
    forget(replica, "b-second")
    assert replica.request_pod("u1", 5) == 403
    assert replica.request_pod("u2", 4) == 200
    assert replica.read_reserved("b-second") == {GPU: 4}


def test_a_rejection_by_an_active_cap_releases_what_a_new_cap_reserved() -> None:
    replica = ReplicaFixture(TWO)
    replica.activate_ledgers()
    replica.record.is_active = replica.leadership.recorded = False
    forget(replica, "a-first")
    assert replica.request_pod("u1", 5) == 403
    assert replica.read_reserved("a-first") == {}


def test_a_new_namespace_under_a_new_cap_is_decided_at_once() -> None:
    replica = create_new_replica()
    replica.label_namespace("team-new")
    assert replica.request_pod("u1", 5, namespace="team-new") == 403


def test_a_lost_ledger_of_a_new_namespace_stays_closed_before_the_cap_is_recorded() -> None:
    """Lose a ledger that was active at once: nothing above its limit may be admitted."""
    replica = create_new_replica()
    replica.label_namespace("team-new")
    assert replica.request_pod("u1", 3, namespace="team-new") == 200
    replica.delete_ledger(replica.get_ledger_key(namespace="team-new"))
    assert replica.request_pod("u2", 3, namespace="team-new") == 429


def test_the_record_tells_caps_by_key_and_by_the_name_of_an_earlier_definition() -> None:
    leases = MemoryLeaseStore()
    was_active = create_lease_reader(leases)
    assert not was_active("gpus-0123456789")
    leases.write(Lease(RECORD_LEASE, "r", 15.0, caps=frozenset({"gpus-0123456789"})))
    assert was_active("gpus-0123456789")
    assert was_active("gpus-aaaaaaaaaa"), "the cap has changed"
    assert not was_active("gpus-2-0123456789")


def test_ledgers_in_memory_are_lost_for_the_caps_of_the_start_only() -> None:
    was_active = create_process_reader({"gpus"})
    assert was_active("gpus-0123456789")
    assert not was_active("cpus-0123456789")
    assert not was_active("cpus-0123456789")
    assert was_active("cpus-aaaaaaaaaa"), "the cap has changed"
