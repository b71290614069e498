"""Of several replicas one keeps the ledgers, and all say which caps they have; each goes by its own clock."""

import pytest

from tests.gate.leases import Leases
from webhook.gate.leader_election import (
    LEADER_LEASE,
    LEASE_DURATION_SECONDS,
    REPLICA_LEASE_PREFIX,
    RETRY_PERIOD_SECONDS,
    LeaderElector,
)
from webhook.state.ports import Lease, StoreUnavailableError


class Replica:
    """One, with a clock of its own that began at any time."""

    def __init__(self, leases: Leases, name: str, began: float, *caps: str) -> None:
        self.now = began
        self.caps = list(caps)
        self.leading = LeaderElector(leases, name, lambda: self.caps, lambda: self.now)

    def pass_(self, seconds: float) -> None:
        """So much time passes for it alone, and it does nothing meanwhile."""
        self.now += seconds

    def round(self) -> bool:
        """One round; whether it leads then."""
        self.leading.run_once()
        return self.leading.is_leader()


def pair(*caps: str) -> tuple[Leases, Replica, Replica]:
    """Two replicas whose clocks are years apart."""
    leases = Leases()
    return leases, Replica(leases, "one", 7.0, *caps), Replica(leases, "two", 1e8, *caps)


def rounds(seconds: float, *replicas: Replica) -> None:
    """Time passes, and these make their rounds."""
    for _ in range(round(seconds / RETRY_PERIOD_SECONDS)):
        for each in replicas:
            each.pass_(RETRY_PERIOD_SECONDS)
            each.round()


def test_the_first_one_leads_and_goes_on_leading() -> None:
    leases, one, two = pair()
    assert (one.round(), two.round()) == (True, False)
    rounds(300, one, two)
    assert (one.leading.is_leader(), two.leading.is_leader()) == (True, False)
    assert (leases.stored[LEADER_LEASE].holder, leases.stored[LEADER_LEASE].transitions) == ("one", 0)


def test_another_leads_when_the_first_has_not_renewed_for_as_long_as_its_lease_is_good() -> None:
    leases, one, two = pair()
    rounds(30, one, two)
    rounds(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS, two)
    assert not two.leading.is_leader()
    rounds(RETRY_PERIOD_SECONDS * 2, two)
    assert two.leading.is_leader()
    assert (leases.stored[LEADER_LEASE].holder, leases.stored[LEADER_LEASE].transitions) == ("two", 1)


def test_who_was_frozen_leads_no_more_before_another_may_and_learns_of_it() -> None:
    _, one, two = pair()
    rounds(30, one, two)
    one.pass_(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS)
    assert not one.leading.is_leader()
    rounds(LEASE_DURATION_SECONDS + 2 * RETRY_PERIOD_SECONDS, two)
    assert two.leading.is_leader()
    assert not one.round()


def test_a_leader_that_leaves_lets_the_next_one_begin_at_its_next_round() -> None:
    leases, one, two = pair()
    rounds(30, one, two)
    one.leading.release()
    assert not one.leading.is_leader()
    rounds(RETRY_PERIOD_SECONDS, two)
    assert two.leading.is_leader()
    assert [each.holder for name, each in leases.stored.items() if name.startswith(REPLICA_LEASE_PREFIX)] == ["two"]


def test_a_replica_that_dies_is_missed_when_its_lease_has_lapsed() -> None:
    _, one, two = pair()
    rounds(30, one, two)
    rounds(LEASE_DURATION_SECONDS - RETRY_PERIOD_SECONDS, one)
    assert one.leading.count_lost_replicas() == 0
    rounds(RETRY_PERIOD_SECONDS * 2, one)
    assert one.leading.count_lost_replicas() == 1
    rounds(300, one)
    assert (one.leading.count_lost_replicas(), two.leading.count_lost_replicas()) == (1, 0)


def test_a_replica_that_leaves_is_missed_at_the_next_round() -> None:
    _, one, two = pair()
    rounds(30, one, two)
    two.leading.release()
    one.round()
    assert one.leading.count_lost_replicas() == 1


def test_a_replica_that_leaves_takes_nothing_from_the_leader() -> None:
    leases, one, two = pair()
    rounds(30, one, two)
    two.leading.release()
    assert leases.stored[LEADER_LEASE].holder == "one"


def test_a_leader_that_sees_another_one_leads_no_more_from_then_on() -> None:
    leases, one, two = pair()
    rounds(30, one, two)
    leases.stored[LEADER_LEASE] = Lease(LEADER_LEASE, "two", LEASE_DURATION_SECONDS, "another version")
    assert one.leading.is_leader()
    assert not one.round()


def test_of_two_that_claim_a_lapsed_lease_one_gets_it() -> None:
    leases, one, two = pair()
    rounds(30, one, two)
    three = Replica(leases, "three", 0.0)
    rounds(30, two, three)
    assert sorted((two.leading.is_leader(), three.leading.is_leader())) == [False, True]


def test_where_leases_cannot_be_had_everybody_keeps() -> None:
    leases, one, two = pair("gpus-1")
    rounds(30, one, two)
    leases.is_down = True
    for each in (one, two):
        with pytest.raises(StoreUnavailableError):
            each.round()
    assert (one.leading.is_leader(), two.leading.is_leader()) == (True, False)
    two.pass_(LEASE_DURATION_SECONDS)
    assert two.leading.is_leader()
    assert two.leading.get_loaded_everywhere_since("gpus-1") is not None
    leases.is_down = False
    assert one.round()
    assert not two.round()


def test_a_cap_is_loaded_when_the_last_replica_that_lives_has_it() -> None:
    _, one, two = pair("gpus-1")
    rounds(30, one, two)
    one.caps.append("licences-2")
    rounds(30, one, two)
    assert one.leading.get_loaded_everywhere_since("licences-2") is None
    two.caps.append("licences-2")
    before = one.now
    rounds(2 * RETRY_PERIOD_SECONDS, two, one)
    since = one.leading.get_loaded_everywhere_since("licences-2")
    assert since is not None
    assert before <= since <= one.now
    rounds(60, one, two)
    assert one.leading.get_loaded_everywhere_since("licences-2") == since
    assert one.leading.get_loaded_everywhere_since("unknown-3") is None


def test_a_replica_that_comes_without_a_cap_begins_its_time_anew() -> None:
    leases, one, _ = pair("gpus-1")
    rounds(30, one)
    assert one.leading.get_loaded_everywhere_since("gpus-1") == 7.0 + RETRY_PERIOD_SECONDS
    late = Replica(leases, "late", 0.0)
    rounds(RETRY_PERIOD_SECONDS, late, one)
    assert one.leading.get_loaded_everywhere_since("gpus-1") is None
    late.caps.append("gpus-1")
    rounds(RETRY_PERIOD_SECONDS, late, one)
    assert one.leading.get_loaded_everywhere_since("gpus-1") == one.now


def test_a_dead_replica_that_never_had_a_cap_holds_it_up_only_until_its_lease_has_lapsed() -> None:
    leases, one, two = pair("gpus-1")
    rounds(30, one, two)
    one.caps.append("licences-2")
    rounds(LEASE_DURATION_SECONDS + 2 * RETRY_PERIOD_SECONDS, one)
    assert one.leading.get_loaded_everywhere_since("licences-2") is not None
    assert len(leases.stored) == 3
    rounds(700, one)
    assert sorted(each.holder for each in leases.stored.values()) == ["one", "one"]


def test_a_lease_that_somebody_made_good_for_ever_lapses_all_the_same() -> None:
    leases, one, two = pair()
    leases.stored[LEADER_LEASE] = Lease(LEADER_LEASE, "nobody", 1e9, "0")
    assert not one.round()
    rounds(66, one, two)
    assert one.leading.is_leader()
