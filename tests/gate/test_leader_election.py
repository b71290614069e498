"""Leader election: one of several replicas leads, and all publish their caps; each has its own clock."""

from collections.abc import Collection

import pytest

from tallygate.gate.cap_activation import PREPARED_MARK, READY_SECONDS, RECORD_LEASE
from tallygate.gate.leader_election import (
    LEADER_LEASE,
    LEASE_DURATION_SECONDS,
    REPLICA_LEASE_PREFIX,
    RETRY_PERIOD_SECONDS,
    LeaderElector,
    hash_cap_key,
)
from tallygate.state.ports import Lease, StoreUnavailableError
from tests.gate.memory_leases import MemoryLeaseStore

BOUND = 40.0


class Replica:
    """One replica with its own clock, which starts at any time."""

    def __init__(self, leases: MemoryLeaseStore, name: str, start: float, *caps: str) -> None:
        self.now = start
        self.caps = list(caps)
        self.unasked: set[str] = set()
        self.refreshes = 0
        self.at_refresh: set[str] = set()
        self.unprepared: set[str] = set()
        self.prepared_caps: set[str] = set()
        self.calls: list[set[str]] = []
        self.error: StoreUnavailableError | None = None
        ports = self._list_caps, lambda: self.now, BOUND, self._refresh, self._prepare
        self.elector = LeaderElector(leases, name, *ports)
        self.lease_name = REPLICA_LEASE_PREFIX + hash_cap_key(name)

    def _list_caps(self) -> dict[str, bool]:
        return {cap: cap not in self.unasked for cap in self.caps}

    def _refresh(self) -> None:
        self.refreshes += 1
        self.unasked |= self.at_refresh

    def _prepare(self, caps: Collection[str]) -> Collection[str]:
        self.prepared_caps = set(caps)
        self.calls.append(self.prepared_caps)
        if caps and self.error is not None:
            raise self.error
        return self.prepared_caps - self.unprepared

    def advance(self, seconds: float) -> None:
        """Let seconds pass for this replica alone, without a run."""
        self.now += seconds

    def run_once(self) -> bool:
        """Run once, and return whether the replica leads then."""
        self.elector.run_once()
        return self.elector.is_leader()


def create_pair(*caps: str) -> tuple[MemoryLeaseStore, Replica, Replica]:
    """Return two replicas whose clocks are years apart."""
    leases = MemoryLeaseStore()
    return leases, Replica(leases, "one", 7.0, *caps), Replica(leases, "two", 1e8, *caps)


def run_for(seconds: float, *replicas: Replica) -> None:
    """Let seconds pass while the given replicas run."""
    for _ in range(round(seconds / RETRY_PERIOD_SECONDS)):
        for each in replicas:
            each.advance(RETRY_PERIOD_SECONDS)
            each.run_once()


def test_the_first_replica_leads_and_continues_to_lead() -> None:
    leases, one, two = create_pair()
    assert (one.run_once(), two.run_once()) == (True, False)
    run_for(300, one, two)
    assert (one.elector.is_leader(), two.elector.is_leader()) == (True, False)
    assert (leases.stored[LEADER_LEASE].holder, leases.stored[LEADER_LEASE].transitions) == ("one", 0)


def test_another_replica_leads_when_the_lease_of_the_first_has_expired() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    run_for(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS, two)
    assert not two.elector.is_leader()
    run_for(RETRY_PERIOD_SECONDS * 2, two)
    assert two.elector.is_leader()
    assert (leases.stored[LEADER_LEASE].holder, leases.stored[LEADER_LEASE].transitions) == ("two", 1)


def test_a_frozen_leader_stops_leading_before_another_replica_leads() -> None:
    _, one, two = create_pair()
    run_for(30, one, two)
    one.advance(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS)
    assert not one.elector.is_leader()
    run_for(LEASE_DURATION_SECONDS + 2 * RETRY_PERIOD_SECONDS, two)
    assert two.elector.is_leader()
    assert not one.run_once()


def test_a_leader_that_releases_its_lease_is_followed_at_the_next_retry() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    one.elector.release()
    assert not one.elector.is_leader()
    run_for(RETRY_PERIOD_SECONDS, two)
    assert two.elector.is_leader()
    assert [each.holder for name, each in leases.stored.items() if name.startswith(REPLICA_LEASE_PREFIX)] == ["two"]


def test_a_replica_that_dies_is_lost_when_its_lease_has_expired() -> None:
    _, one, two = create_pair()
    run_for(30, one, two)
    run_for(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS, one)
    assert one.elector.count_lost_replicas() == 0
    run_for(RETRY_PERIOD_SECONDS * 2, one)
    assert one.elector.count_lost_replicas() == 1
    run_for(300, one)
    assert (one.elector.count_lost_replicas(), two.elector.count_lost_replicas()) == (1, 0)


def test_a_replica_that_stops_is_lost_at_the_next_run() -> None:
    _, one, two = create_pair()
    run_for(30, one, two)
    two.elector.release()
    one.run_once()
    assert one.elector.count_lost_replicas() == 1


def test_a_replica_that_stops_does_not_change_the_leader() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    two.elector.release()
    assert leases.stored[LEADER_LEASE].holder == "one"


def test_a_leader_that_sees_another_leader_stops_leading() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    leases.stored[LEADER_LEASE] = Lease(LEADER_LEASE, "two", LEASE_DURATION_SECONDS, "another version")
    assert one.elector.is_leader()
    assert not one.run_once()


def test_one_of_two_candidates_gets_an_expired_lease() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    three = Replica(leases, "three", 0.0)
    run_for(30, two, three)
    assert sorted((two.elector.is_leader(), three.elector.is_leader())) == [False, True]


def test_every_replica_leads_while_leases_are_unavailable() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(30, one, two)
    leases.is_down = True
    for each in (one, two):
        with pytest.raises(StoreUnavailableError):
            each.run_once()
    assert (one.elector.is_leader(), two.elector.is_leader()) == (True, False)
    two.advance(LEASE_DURATION_SECONDS)
    assert two.elector.is_leader()
    assert two.elector.get_loaded_everywhere_since("gpus-1") is not None
    leases.is_down = False
    assert one.run_once()
    assert not two.run_once()


def test_a_cap_that_is_not_asked_about_is_loaded_nowhere() -> None:
    """List it in the lease once it is asked about."""
    _, one, two = create_pair("gpus-1", "licences-2")
    one.unasked = {"licences-2"}
    run_for(60, one, two)
    for replica in (one, two):
        assert replica.elector.get_loaded_everywhere_since("gpus-1") is not None
        assert replica.elector.get_loaded_everywhere_since("licences-2") is None
        assert not replica.elector.is_recorded("licences-2")
    one.unasked = set()
    run_for(BOUND + READY_SECONDS + 9, one, two)
    assert one.elector.is_recorded("licences-2")


def test_the_leader_reads_the_registration_before_it_records_a_cap() -> None:
    """Record no cap that another leader has dropped from the registration meanwhile."""
    _, one, two = create_pair("gpus-1")
    one.at_refresh = {"gpus-1"}
    run_for(90, one, two)
    assert one.refreshes == 1
    assert not one.elector.is_recorded("gpus-1")
    one.at_refresh, one.unasked = set(), set()
    run_for(90, one, two)
    assert one.refreshes == 2
    assert one.elector.is_recorded("gpus-1")


def test_a_recorded_cap_of_another_replica_is_foreign() -> None:
    _, one, two = create_pair("gpus-1")
    run_for(60, one, two)
    assert not one.elector.has_foreign_record()
    one.caps = []
    run_for(6, one, two)
    assert one.elector.has_foreign_record()
    two.caps = []
    run_for(60, one, two)
    assert not one.elector.has_foreign_record()


def test_the_record_keeps_a_cap_while_its_conditions_change() -> None:
    """Keep it although no lease lists it: the leader has it."""
    _, one, two = create_pair("gpus-1")
    run_for(60, one, two)
    assert one.elector.is_recorded("gpus-1")
    one.unasked = two.unasked = {"gpus-1"}
    run_for(60, one, two)
    assert one.elector.is_recorded("gpus-1")
    assert two.elector.is_recorded("gpus-1")


def test_a_cap_is_loaded_everywhere_when_the_last_live_replica_has_it() -> None:
    _, one, two = create_pair("gpus-1")
    run_for(30, one, two)
    one.caps.append("licences-2")
    run_for(30, one, two)
    assert one.elector.get_loaded_everywhere_since("licences-2") is None
    two.caps.append("licences-2")
    before = one.now
    run_for(2 * RETRY_PERIOD_SECONDS, two, one)
    since = one.elector.get_loaded_everywhere_since("licences-2")
    assert since is not None
    assert before <= since <= one.now
    run_for(60, one, two)
    assert one.elector.get_loaded_everywhere_since("licences-2") == since
    assert one.elector.get_loaded_everywhere_since("unknown-3") is None


def test_a_replica_that_starts_without_a_cap_resets_the_loaded_time() -> None:
    leases, one, _ = create_pair("gpus-1")
    run_for(30, one)
    assert one.elector.get_loaded_everywhere_since("gpus-1") == 7.0 + RETRY_PERIOD_SECONDS
    late = Replica(leases, "late", 0.0)
    run_for(RETRY_PERIOD_SECONDS, late, one)
    assert one.elector.get_loaded_everywhere_since("gpus-1") is None
    late.caps.append("gpus-1")
    run_for(RETRY_PERIOD_SECONDS, late, one)
    assert one.elector.get_loaded_everywhere_since("gpus-1") == one.now


def test_a_dead_replica_that_never_had_a_cap_delays_it_only_until_its_lease_expires() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(30, one, two)
    one.caps.append("licences-2")
    run_for(LEASE_DURATION_SECONDS + 2 * RETRY_PERIOD_SECONDS, one)
    assert one.elector.get_loaded_everywhere_since("licences-2") is not None
    assert leases.stored.keys() - {LEADER_LEASE, RECORD_LEASE} == {each.lease_name for each in (one, two)}
    run_for(700, one)
    assert leases.stored.keys() - {LEADER_LEASE, RECORD_LEASE} == {one.lease_name}


def test_a_lease_with_a_huge_duration_expires_nevertheless() -> None:
    leases, one, two = create_pair()
    leases.stored[LEADER_LEASE] = Lease(LEADER_LEASE, "unknown", 1e9, "0")
    assert not one.run_once()
    run_for(66, one, two)
    assert one.elector.is_leader()


def read_record(leases: MemoryLeaseStore) -> set[str]:
    """Return the keys of the caps that the leader has recorded as active."""
    stored = leases.stored.get(RECORD_LEASE)
    return {cap for cap in (stored.caps or () if stored else ()) if not cap.startswith(PREPARED_MARK)}


def test_a_cap_is_recorded_once_every_replica_has_had_it_for_the_bound() -> None:
    leases, one, two = create_pair()
    run_for(30, one, two)
    one.caps.append("gpus-1")
    run_for(2 * BOUND, one, two)
    assert read_record(leases) == set()
    two.caps.append("gpus-1")
    run_for(BOUND, one, two)
    assert not one.elector.is_recorded("gpus-1")
    run_for(READY_SECONDS + 2 * RETRY_PERIOD_SECONDS, one, two)
    assert read_record(leases) == {"gpus-1"}
    assert one.elector.is_recorded("gpus-1")
    assert two.elector.is_recorded("gpus-1")


def test_only_the_leader_writes_the_record() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(2 * BOUND, one, two)
    del leases.stored[RECORD_LEASE]
    two.advance(RETRY_PERIOD_SECONDS)
    two.run_once()
    assert read_record(leases) == set()
    run_for(RETRY_PERIOD_SECONDS, one)
    assert read_record(leases) == {"gpus-1"}, "the leader remembers what a user deleted"


def test_a_recorded_cap_stays_as_long_as_any_replica_has_it() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(2 * BOUND, one, two)
    one.caps.clear()
    run_for(2 * BOUND, one, two)
    assert read_record(leases) == {"gpus-1"}
    two.caps.clear()
    run_for(2 * RETRY_PERIOD_SECONDS, two, one)
    assert read_record(leases) == set()


def test_the_record_of_a_cap_outlives_every_replica() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(2 * BOUND, one, two)
    later = Replica(leases, "three", 5e6, "gpus-1")
    run_for(2 * LEASE_DURATION_SECONDS, later)
    assert later.elector.is_leader()
    assert later.elector.is_recorded("gpus-1")


def test_a_changed_cap_keeps_its_earlier_record_until_it_has_its_own() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(2 * BOUND, one, two)
    one.caps[:] = two.caps[:] = ["gpus-2"]
    run_for(BOUND / 2, one, two)
    assert read_record(leases) == {"gpus-1"}
    run_for(BOUND + READY_SECONDS, one, two)
    assert read_record(leases) == {"gpus-2"}


def test_every_cap_counts_as_recorded_where_leases_are_unavailable() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(RETRY_PERIOD_SECONDS, one, two)
    assert not one.elector.is_recorded("gpus-1")
    leases.is_down = True
    one.advance(LEASE_DURATION_SECONDS)
    assert one.elector.is_recorded("gpus-1")


def test_a_cap_is_recorded_only_when_none_of_its_ledgers_is_active() -> None:
    leases, one, _ = create_pair("gpus-1", "licences-2")
    one.unprepared = {"gpus-1"}
    run_for(2 * BOUND, one)
    assert read_record(leases) == {"licences-2"}
    one.unprepared.clear()
    run_for(RETRY_PERIOD_SECONDS, one)
    assert read_record(leases) == {"gpus-1", "licences-2"}


def test_a_changed_definition_of_a_recorded_cap_is_recorded_after_the_bound_alone() -> None:
    leases, one, _ = create_pair("gpus-1")
    run_for(2 * BOUND, one)
    one.caps[:] = ["gpus-2"]
    run_for(BOUND + 2 * RETRY_PERIOD_SECONDS, one)
    assert read_record(leases) == {"gpus-2"}


def test_a_replica_that_leads_again_forgets_which_ledgers_it_had_read() -> None:
    """Let another replica lead in between: it may have recorded the cap, and lost it."""
    _, one, two = create_pair("gpus-1")
    one.unprepared = two.unprepared = {"gpus-1"}
    run_for(RETRY_PERIOD_SECONDS, one, two)
    assert one.prepared_caps == {"gpus-1"}
    one.elector.release()
    run_for(RETRY_PERIOD_SECONDS, two)
    two.elector.release()
    one.advance(RETRY_PERIOD_SECONDS)
    one.calls.clear()
    one.run_once()
    assert one.calls == [set(), {"gpus-1"}]


def test_a_leader_does_not_prepare_again_what_another_one_has_prepared() -> None:
    """Let the second replica lead before the record: a ledger of a new namespace may be active then."""
    leases, one, two = create_pair("gpus-1")
    run_for(RETRY_PERIOD_SECONDS, one, two)
    assert leases.stored[RECORD_LEASE].caps == frozenset({"~gpus-1"})
    one.elector.release()
    run_for(2 * BOUND, two)
    assert {"gpus-1"} not in two.calls
    assert read_record(leases) == {"gpus-1"}


def test_a_leader_remembers_the_marks_of_a_record_that_a_user_deletes() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(RETRY_PERIOD_SECONDS, one, two)
    leases.stored.clear()
    run_for(RETRY_PERIOD_SECONDS, two)
    assert two.elector.is_leader()
    assert {"gpus-1"} not in two.calls
    assert leases.stored[RECORD_LEASE].caps == frozenset({"~gpus-1"})


def test_the_mark_of_a_cap_that_no_replica_has_is_removed() -> None:
    leases, one, two = create_pair("gpus-1")
    run_for(RETRY_PERIOD_SECONDS, one, two)
    one.caps.clear()
    run_for(RETRY_PERIOD_SECONDS, one)
    assert leases.stored[RECORD_LEASE].caps == frozenset({"~gpus-1"}), "the other replica has it"
    two.caps.clear()
    run_for(2 * RETRY_PERIOD_SECONDS, two, one)
    assert not leases.stored[RECORD_LEASE].caps


def test_an_error_before_a_cap_is_recorded_leaves_the_leases_renewed() -> None:
    _, one, _ = create_pair("gpus-1")
    one.error = StoreUnavailableError("no answer")
    for _ in range(30):
        one.advance(RETRY_PERIOD_SECONDS)
        with pytest.raises(StoreUnavailableError, match="no answer"):
            one.run_once()
    assert one.elector.is_leader()
    assert not one.elector.is_recorded("gpus-1")
    one.error = None
    run_for(RETRY_PERIOD_SECONDS, one)
    assert one.elector.is_recorded("gpus-1")
