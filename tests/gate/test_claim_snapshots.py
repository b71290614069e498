"""Snapshots of claims: their amounts and their revision, while their watch goes on and other replicas list them."""

from tallygate.accounting.amounts import Amounts
from tallygate.cluster.usage_lister import UsageLister
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import CLASS, Object, claim_object, first_available, result
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import BY_LABEL, CAP, GPU
from tests.state.informers.claims import claim_line, claim_page, create_claim, scheduler_claim

TWO = CAP.replace("gpu: 4", "gpu: 2")


def _either(revision: int, devices: int) -> Object:
    """Return a claim for one device or two, which has this number of devices."""
    results = [result("gpu/choice-0") for _ in range(devices)] or None
    requests = first_available((CLASS, 1), (CLASS, 2))
    return claim_object(requests, results=results, name="claim-c1", uid="c1", resourceVersion=str(revision))


def test_the_amounts_and_the_revision_of_a_snapshot_are_those_of_one_moment() -> None:
    """Deliver the end of an allocation while a snapshot is taken: a ledger must not seem to count it."""
    replica = create_claim_replica(TWO)
    events = [claim_line("MODIFIED", _either(300, devices=0))]

    def read_clock() -> float:
        while events:
            claims.apply(events.pop())
        return 0.0

    claims = ClaimStore(read_clock)
    claims.apply(claim_page(200, _either(190, devices=1)))
    assert _take_snapshot(replica, claims) == ({GPU: 1}, 190)
    assert _take_snapshot(replica, claims) == ({GPU: 2}, 300)


def test_the_scheduler_claims_of_a_snapshot_are_those_of_the_same_moment() -> None:
    """Deliver such a claim while a snapshot is taken: it must not be subtracted from amounts that lack it."""
    replica = create_claim_replica(TWO)
    replica.store_pod("p1")
    replica.observe("p1")
    replica.name_claim("p1", "claim-c1")
    events = [claim_line("ADDED", scheduler_claim("c1", 300, "p1"))]

    def read_clock() -> float:
        while events and claims.revision:
            claims.apply(events.pop())
        return 0.0

    claims = ClaimStore(read_clock)
    claims.apply(claim_page(200))
    assert [_take_snapshot(replica, claims)[0] for _ in range(2)] == [{GPU: 1}, {GPU: 1}]


def test_a_replica_that_lists_the_same_claims_later_charges_by_the_count_of_another() -> None:
    replica, other = create_claim_replica(TWO), ClaimReplica(TWO)
    other.claims.apply(claim_page(500, create_claim("c1", 90)))
    other.activate_ledgers()
    replica.claims.apply(claim_page(150, create_claim("c1", 90)))
    replica.store_pod("ended")
    replica.observe("ended")
    replica.delete_pod("ended")  # from here on the other one is behind, and cannot recount
    replica.reconcile()
    other.put_ledger(replica.read_ledger())
    assert other.request_claim(create_claim("c2", 0)) == 200
    assert other.request_claim(create_claim("c3", 0)) == 403


def test_a_replica_recounts_the_ledger_of_one_that_lists_the_same_claims_later() -> None:
    replica, other = create_claim_replica(TWO), ClaimReplica(TWO)
    other.claims.apply(claim_page(500, create_claim("c1", 90)))
    other.activate_ledgers()
    other.reconcile()
    replica.claims.apply(claim_page(150, create_claim("c1", 90)))
    replica.put_ledger(other.read_ledger())
    replica.delete_claim(create_claim("c1", 151))
    assert replica.request_claim(create_claim("c2", 0, 2)) == 200


def test_classes_that_a_replica_lists_before_its_first_review_need_no_newer_watches() -> None:
    replica = ClaimReplica(TWO, {})
    replica.activate_ledgers()
    synced_at = replica.now
    replica.now += 1
    replica.change_classes({CLASS: GPU})
    replica.synced_at = synced_at
    assert replica.request_claim(create_claim("c1", 0)) == 200


def test_a_count_of_newer_namespaces_and_older_claims_is_replaced_once_newer_claims_are_seen() -> None:
    """Observe the return of the namespace before a claim that was stored while it was outside."""
    replica = ClaimReplica(BY_LABEL)
    replica.label_namespace("team-a", gpu="yes")
    replica.activate_ledgers()
    assert replica.request_claim(create_claim("c0", 0), dryRun=True) == 200
    replica.label_namespace("team-a")
    stored = create_claim("c1", replica.next_revision(), 4)
    replica.label_namespace("team-a", gpu="yes")
    assert replica.request_claim(create_claim("c2", 0)) == 200, "no replica has seen the claim"
    replica.observe_claim(stored)
    assert replica.request_claim(create_claim("c3", 0)) == 403


def test_a_creation_counts_the_claims_of_many_reservations_in_the_same_write() -> None:
    replica = create_claim_replica(CAP.replace("gpu: 4", "gpu: 100"))
    for number in range(10):
        assert replica.request_claim(create_claim(f"c{number}", 0)) == 200
        replica.observe_claim(create_claim(f"c{number}", replica.next_revision()))
    assert replica.request_claim(create_claim("last", 0)) == 200
    used, reserved = replica.count_gpus()
    assert (used > 0, used + reserved) == (True, 11)


def _take_snapshot(replica: ClaimReplica, claims: ClaimStore) -> tuple[Amounts, int]:
    """Return the used amounts of a snapshot of team-a, and the revision of its claims."""
    lister = UsageLister(replica.pods, replica.namespaces, lambda: 0.0, lambda: 0.0, claims=claims)
    (cap,) = replica.caps.list_caps()
    snapshot = lister.take_snapshot(cap, LedgerKey(cap.key, "team-a"), Ledger(cap.hard))
    assert snapshot is not None
    return snapshot.used, snapshot.claims_revision
