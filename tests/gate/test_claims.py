"""Claims for devices under a cap of two: their creation, their allocation, and the claims that the scheduler makes.

Two watches show pods and claims, each as a test delivers its events.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tallygate.accounting.charge import ConsumerKind
from tallygate.kube.resource_codec import Bookmark, Replaced
from tallygate.state.ledger.ledger import Operation
from tests.accounting.claims import CLASS, Object, claim_object, exactly, first_available, result
from tests.gate.claim_replica import ClaimReplica, create_claim_replica, create_replica_with_pod
from tests.gate.gate_fixture import CAP, GPU, response
from tests.state.informers.claims import create_claim, scheduler_claim
from tests.state.informers.pods import pod as stored_pod

TWO = CAP.replace("gpu: 4", "gpu: 2")
EITHER = first_available((CLASS, 1), (CLASS, 2))


def either(uid: str, revision: int, devices: int = 0) -> Object:
    """Return a claim for one device or two, which has this number of devices."""
    identity: Any = {"name": f"claim-{uid}", "uid": uid, "resourceVersion": str(revision)}
    results = [result(f"gpu/choice-{devices - 1}") for _ in range(devices)]
    return claim_object(EITHER, results=results if devices else None, **identity)


def test_a_claim_reserves_and_is_used_once_it_is_seen() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_claim(create_claim("c1", 0, 2)) == 200
    assert replica.count_gpus() == (0, 2)
    (reservation,) = replica.read_ledger().reservations.values()
    assert (reservation.kind, reservation.operation) == (ConsumerKind.CLAIM, Operation.CREATE)
    assert replica.request_claim(create_claim("c2", 0, 1)) == 403
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    assert replica.request_pod("u1") == 403


def test_a_deleted_claim_frees_its_devices() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.reconcile()
    assert replica.request_pod("u1") == 403
    replica.delete_claim(create_claim("c1", replica.next_revision(), 2))
    assert replica.request_pod("u1") == 200


def test_the_reservation_of_a_claim_that_is_never_stored_expires() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_claim(create_claim("c1", 0, 2)) == 200
    for _ in range(3):
        replica.reconcile(41.0)
    assert replica.count_gpus() == (0, 0)


def test_a_reservation_of_a_stored_claim_expires_only_once_its_revision_is_counted() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_claim(create_claim("c1", 0, 2)) == 200
    replica.live_claims["c1"] = replica.next_revision()
    for _ in range(3):
        replica.store_pod("u1")
        replica.observe("u1")  # pods are newer than the claim, claims are not
        replica.delete_pod("u1")
        replica.reconcile(41.0)
    assert replica.count_gpus() == (0, 2)
    replica.observe_claim(create_claim("c1", replica.live_claims["c1"], 2))
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)


def test_no_older_claims_replace_the_count_of_a_ledger() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.reconcile()
    behind = create_claim_replica(TWO)
    behind.put_ledger(replica.read_ledger())
    behind.store_pod("u1")
    behind.observe("u1")
    behind.reconcile()
    assert behind.count_gpus() == (2, 0)
    assert behind.progress_requests


def test_an_idle_replica_counts_the_same_claims_as_one_with_newer_bookmarks() -> None:
    replica = create_claim_replica(TWO)
    before = replica.read_ledger().claims_revision
    replica.claims.apply(Bookmark(replica.next_revision()))
    replica.store_pod("u1")
    replica.observe("u1")
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)
    assert replica.read_ledger().claims_revision == before


def test_an_allocation_settles_the_larger_amount_by_a_recount() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201))
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    assert replica.allocate(either("c1", 201), either("c1", 201, 1)) == 200
    assert replica.count_gpus() == (2, 0)
    replica.observe_claim(either("c1", 202, 1))
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)


def test_an_allocation_is_rejected_if_others_have_what_an_ended_one_left_free() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201, 1))
    replica.observe_claim(create_claim("c2", 202))
    replica.observe_claim(either("c1", 203))
    replica.reconcile()
    assert replica.count_gpus() == (3, 0)
    assert replica.allocate(either("c1", 203), either("c1", 203, 2)) == 403
    assert replica.allocate(either("c1", 203), either("c1", 203, 1)) == 200


def test_the_end_of_an_allocation_is_never_rejected() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201, 1))
    replica.observe_claim(create_claim("c2", 202))
    replica.reconcile()
    assert replica.allocate(either("c1", 201, 1), either("c1", 201)) == 200


def test_an_allocation_waits_for_the_count_of_the_claim_as_it_is_stored() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201, 1))
    replica.reconcile()
    assert replica.allocate(either("c1", 203), either("c1", 203, 2)) == 429
    assert replica.progress_requests
    replica.observe_claim(either("c1", 203))
    assert replica.allocate(either("c1", 203), either("c1", 203, 2)) == 200


def test_the_count_that_decided_an_allocation_is_stored() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201, 1))
    replica.reconcile()
    replica.observe_claim(either("c1", 203))
    assert replica.allocate(either("c1", 203), either("c1", 203, 2)) == 200
    assert replica.count_gpus() == (2, 0)


def test_a_count_has_the_claims_of_its_revision_if_one_changes_meanwhile() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(either("c1", 201, 1))
    replica.claims_during_count = [either("c1", 203)]
    replica.reconcile()
    ledger = replica.read_ledger()
    assert (ledger.used[GPU], ledger.claims_revision) in {(1, 201), (2, 203)}


def test_a_claim_of_a_fixed_number_is_allocated_whatever_the_cap_counts() -> None:
    replica = create_claim_replica(TWO)
    for number in range(4):
        replica.observe_claim(create_claim(f"c{number}", replica.next_revision()))
    replica.reconcile()
    allocated = claim_object(exactly(1), results=[result()], uid="c1", name="claim-c1", resourceVersion="201")
    assert replica.allocate(create_claim("c1", 201), allocated) == 200


SCHEDULER = {"username": "system:kube-scheduler"}


def test_the_schedulers_claim_is_charged_with_the_part_of_its_pod() -> None:
    replica = create_replica_with_pod(TWO, 2)
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200
    assert replica.count_gpus() == (2, 0)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    replica.name_claim("u1", "claim-c1")
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    assert replica.read_ledger().reservations == {}
    assert replica.request_pod("u2") == 403


def test_the_schedulers_claim_waits_for_the_count_of_its_pod_where_there_is_no_room_for_both() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_pod("u1", 2) == 200
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 429
    replica.store_pod("u1", 2)
    replica.observe("u1")
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200


def test_the_schedulers_claim_waits_for_another_creation_of_the_name_of_its_pod() -> None:
    """Both pods share their amounts. The second one may be stored after the first, beside the claim of the first."""
    replica = create_claim_replica(TWO)
    assert replica.request_pod("u1", 2) == 200
    second = stored_pod("u2", 0, "2")
    second["metadata"]["name"] = "pod-u1"
    assert response(replica.admit(second, name="pod-u1"))["allowed"]
    replica.store_pod("u1", 2)
    replica.observe("u1")
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 429


def test_the_part_of_a_pod_covers_one_claim_of_the_scheduler() -> None:
    replica = create_replica_with_pod(TWO, 2)
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200
    assert replica.request_claim(scheduler_claim("c2", 0, "u1", 2), userInfo=SCHEDULER) == 429


def test_a_recount_lets_the_part_of_a_pod_cover_one_claim_of_the_scheduler() -> None:
    replica = create_replica_with_pod(CAP, 2)
    for claim in ("c1", "c2"):
        assert replica.request_claim(scheduler_claim(claim, 0, "u1", 2), userInfo=SCHEDULER) == 200
    replica.reconcile()
    assert replica.count_gpus() == (2, 2)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    replica.name_claim("u1", "claim-c1")
    replica.reconcile()
    assert replica.count_gpus() == (2, 2)


@pytest.mark.parametrize("claim_name", ["claim-c1", ""], ids=["named by its pod", "not yet named"])
def test_the_part_of_a_pod_covers_no_claim_beside_one_that_is_counted_and(claim_name: str) -> None:
    replica = create_replica_with_pod(TWO, 2)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    if claim_name:
        replica.name_claim("u1", claim_name)
    assert replica.request_claim(scheduler_claim("c2", 0, "u1", 2), userInfo=SCHEDULER) == 429


def test_a_claim_of_the_scheduler_that_is_larger_than_its_pod_needs_room_for_the_rest() -> None:
    replica = create_replica_with_pod(TWO, 1)
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200
    assert replica.count_gpus() == (1, 1)


def test_a_request_waits_while_the_schedulers_claim_may_be_counted_twice() -> None:
    replica = create_replica_with_pod(CAP, 2)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    assert replica.request_pod("u2", 2) == 429
    replica.name_claim("u1", "claim-c1")
    assert replica.request_pod("u2", 2) == 200


def test_a_claim_that_only_looks_like_the_schedulers_is_rejected_for_good_after_a_while() -> None:
    replica = create_replica_with_pod(CAP, 2)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2, is_reserved=False))
    assert replica.request_pod("u2", 2) == 429
    replica.now += 31.0
    assert replica.request_pod("u2", 2) == 403


_FORGED = {
    "its pod names another claim": ("claim-c2", True),
    "its devices are not reserved for the pod": ("claim-c1", False),
}


@pytest.mark.parametrize("what", _FORGED)
def test_a_claim_counts_beside_the_pod_if(what: str) -> None:
    claim_name, is_reserved = _FORGED[what]
    replica = create_claim_replica(CAP)
    replica.store_pod("u1", 2)
    replica.name_claim("u1", claim_name)
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2, is_reserved=is_reserved))
    replica.reconcile()
    assert replica.count_gpus() == (4, 0)


def test_a_user_who_marks_his_claim_as_the_schedulers_is_charged() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2)) == 200
    assert replica.count_gpus() == (0, 2)


def end_pod(replica: ClaimReplica) -> None:
    """Let the pod succeed."""
    replica.change_pod("u1", status={"phase": "Succeeded"})


def delete_pod(replica: ClaimReplica) -> None:
    """Delete the pod."""
    replica.delete_pod("u1")


@pytest.mark.parametrize("end", [end_pod, delete_pod], ids=["has ended", "is deleted"])
def test_the_schedulers_claim_counts_by_itself_once_its_pod(end: Callable[[ClaimReplica], None]) -> None:
    """Let the claim be stored after the end of its pod, or before it and not seen yet."""
    replica = create_replica_with_pod(TWO, 2)
    assert replica.request_claim(scheduler_claim("c1", 0, "u1", 2), userInfo=SCHEDULER) == 200
    end(replica)
    replica.reconcile()
    assert replica.count_gpus() == (0, 2)
    assert replica.request_pod("u2") == 403
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    replica.delete_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    replica.reconcile()
    assert replica.count_gpus() == (0, 0)


def test_a_change_of_an_allocated_claim_that_keeps_its_devices_needs_no_decision() -> None:
    replica = create_claim_replica(TWO)
    for number in range(3):
        replica.observe_claim(create_claim(f"c{number}", replica.next_revision()))
    replica.reconcile()
    stored = either("e1", 300, 1)
    assert replica.allocate(stored, {**stored, "status": {**stored["status"], "reservedFor": []}}) == 200


def test_a_class_that_gets_the_resource_later_is_counted_before_anything_is_charged() -> None:
    replica = create_claim_replica(TWO, resources_by_class={})
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.reconcile()
    assert replica.count_gpus() == (0, 0)
    replica.change_classes({CLASS: GPU})
    assert replica.request_claim(create_claim("c2", 0)) == 403
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)


def test_the_reservation_of_a_claim_ends_although_no_class_has_the_resource_any_more() -> None:
    replica = create_claim_replica(TWO)
    assert replica.request_claim(create_claim("c1", 0, 2)) == 200
    replica.change_classes({CLASS: ""})
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.store_pod("u1")
    replica.observe("u1")
    replica.reconcile()
    assert replica.count_gpus() == (3, 0)


def test_a_changed_class_needs_a_state_of_the_cluster_after_the_change() -> None:
    replica = create_claim_replica(TWO, resources_by_class={})
    assert replica.request_pod("u1") == 200
    replica.synced_at = replica.now - 1.0
    replica.change_classes({CLASS: GPU})
    assert replica.request_claim(create_claim("c2", 0)) == 429
    replica.synced_at = None
    assert replica.request_claim(create_claim("c2", 0)) == 200


def test_the_rejection_of_a_claim_has_the_arithmetic() -> None:
    replica = create_claim_replica(TWO)
    replica.observe_claim(create_claim("c1", replica.next_revision(), 2))
    replica.reconcile()
    message = response(replica.review_claim(create_claim("c2", 0)))["status"]["message"]
    assert (
        "cap gpus of this namespace exceeded: requested 1 nvidia.com/gpu, used 2, reserved 0, hard 2, free 0" in message
    )


@pytest.mark.parametrize("selection", ["priorityClasses: [high]", "nodeSelector: {pool: a}"])
def test_a_cap_that_a_claim_cannot_match_counts_no_claims(selection: str) -> None:
    replica = create_claim_replica(TWO.replace("hard:", f"pods: {{{selection}}}\n  hard:"))
    assert replica.request_claim(create_claim("c1", 0, 5)) == 200


def test_a_cap_by_labels_counts_the_claims_that_have_them() -> None:
    replica = create_claim_replica(TWO.replace("hard:", "pods: {objectSelector: {matchLabels: {tier: gpu}}}\n  hard:"))
    assert replica.request_claim(create_claim("c1", 0, 5)) == 200
    assert replica.request_claim(create_claim("c2", 0, 5, labels={"tier": "gpu"})) == 403
    assert replica.request_claim(create_claim("c3", 0, 2, labels={"tier": "gpu"})) == 200


def test_the_schedulers_claim_counts_nothing_beside_a_pod_that_the_cap_does_not_select() -> None:
    """Let the filter match the claim, which has no labels, but not its pod."""
    no_batch = "pods: {objectSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}}\n  hard:"
    replica = create_claim_replica(TWO.replace("hard:", no_batch))
    replica.store_pod("u1", 2)["metadata"]["labels"] = {"tier": "batch"}
    replica.observe("u1")
    replica.observe_claim(scheduler_claim("c1", replica.next_revision(), "u1", 2))
    replica.reconcile()
    assert replica.count_gpus() == (2, 0), "nothing shows that the claim is for the pod"
    replica.name_claim("u1", "claim-c1")
    replica.reconcile()
    assert replica.count_gpus() == (0, 0)


def test_an_api_server_without_claims_is_counted_without_them() -> None:
    replica = ClaimReplica(TWO)
    replica.claims.apply(Replaced([], 0))
    replica.activate_ledgers()
    replica.store_pod("u1")
    replica.relist()
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)
