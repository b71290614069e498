"""A cap that leaves the record and comes back: its active ledgers count first, before it is recorded again (rule 7)."""

import itertools

import pytest

from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.restored_caps import RestoredCaps
from tallygate.state.informers.named_stores import NamespaceStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ports import StoreUnavailableError
from tests.gate.gate_fixture import CAP, SHARED
from tests.gate.replica_fixture import BOUND, ReplicaFixture


class Leader:
    """A leader whose cap has left the record; namespace team-a has an active ledger with a reservation of one GPU."""

    def __init__(self, text: str = CAP, *, was_active: bool = False) -> None:
        self.replica = ReplicaFixture(text)
        self.replica.activate_ledgers()
        assert self.replica.request_pod("u1") == 200
        self.replica.record.is_active, self.replica.leadership.recorded = was_active, False
        (self.cap,) = self.replica.caps.list_caps()
        nonces = itertools.count()
        self.restored = RestoredCaps(
            caps=lambda: self.replica.caps,
            usage_lister=self.replica.usage_lister,
            ledgers=self.replica.ledgers,
            activation=CapActivation(self.replica.record.was_active, self.replica.read_unix_time, BOUND),
            nonce=lambda: f"restored-{next(nonces)}",
            monotonic=lambda: self.replica.now,
        )

    def prepare(self) -> bool:
        """Prepare the cap, and return whether it may be recorded."""
        return list(self.restored.prepare({self.cap.policy_key})) == [self.cap.policy_key]


@pytest.mark.parametrize("text", [CAP, SHARED], ids=["one ledger for each namespace", "a shared ledger"])
def test_an_active_ledger_counts_first_and_keeps_its_reservations(text: str) -> None:
    leader = Leader(text)
    assert leader.prepare()
    ledger = leader.replica.read_ledger()
    assert ledger.counts_first
    assert ledger.activation.expected_at > 0
    assert list(ledger.reservations) == ["u1"]
    assert leader.replica.request_pod("u2", 9) == 200, "nothing is enforced before the record"


def test_a_pod_that_no_watch_has_shown_before_the_record_is_counted_after_it() -> None:
    """Store a pod past the gate while the cap is away; the ledger would admit one GPU too much."""
    leader = Leader()
    leader.replica.store_pod("unasked", 3)
    leader.prepare()
    leader.replica.record.is_active = leader.replica.leadership.recorded = True
    leader.replica.reconcile()
    assert leader.replica.read_ledger().initializer, "it waits for the bound"
    assert leader.replica.request_pod("u2") == 429
    leader.replica.observe("unasked")
    leader.replica.activate_ledgers()
    assert leader.replica.count_gpus() == (3, 0)
    assert leader.replica.request_pod("u3", 2) == 403


def test_a_ledger_of_a_changed_definition_is_lost_and_not_new() -> None:
    leader = Leader(was_active=True)
    assert leader.prepare()
    ledger = leader.replica.read_ledger()
    assert ledger.initializer
    assert not ledger.counts_first
    assert leader.replica.request_pod("u2") == 429


def test_no_ledger_becomes_active_before_the_record() -> None:
    leader = Leader(was_active=True)
    leader.prepare()
    leader.replica.activate_ledgers()
    assert leader.replica.read_ledger().initializer
    leader.replica.leadership.recorded = True
    leader.replica.activate_ledgers()
    assert not leader.replica.read_ledger().initializer


def test_a_ledger_that_counts_first_is_not_written_again() -> None:
    leader = Leader()
    leader.prepare()
    ledger = leader.replica.read_ledger()
    leader.restored.prepare(())
    assert leader.prepare()
    assert leader.replica.read_ledger() == ledger


def test_the_ledger_of_a_namespace_that_is_created_meanwhile_stays_active() -> None:
    leader = Leader()
    leader.prepare()
    leader.replica.label_namespace("team-b")
    leader.replica.request_pod("u2", namespace="team-b")
    assert leader.prepare()
    assert not leader.replica.read_ledger("team-b").initializer


def test_many_ledgers_take_several_runs() -> None:
    leader = Leader()
    for number in range(30):
        leader.replica.label_namespace(f"team-{number}")
    leader.replica.take_time(0.5)
    runs = 1
    while not leader.prepare():
        runs += 1
    assert runs == 8, "31 ledgers, four in two seconds"


def test_no_cap_is_prepared_before_the_namespaces_are_listed() -> None:
    leader = Leader()
    lister = UsageLister(PodStore(), NamespaceStore(), lambda: 0.0, lambda: None)
    assert lister.list_ledger_keys(leader.cap) is None
    leader.restored._usage_lister = lister  # noqa: SLF001  # as at the start
    assert not leader.prepare()


def test_no_ledger_is_written_while_the_record_cannot_be_read() -> None:
    leader = Leader()
    leader.replica.record.is_down = True
    with pytest.raises(StoreUnavailableError):
        leader.prepare()
    assert not leader.replica.read_ledger().initializer
