"""Device classes that are missing, come, go, and lead to another extended resource, under a cap of four."""

from typing import Any

import pytest

from tallygate.accounting.claim_charge import NO_MAPPINGS, UNSERVED_CLASSES
from tallygate.accounting.names import DEVICE_CLASS_PREFIX
from tests.accounting.claims import CLASS, Object, claim_object, exactly, result
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, GPU, response
from tests.gate.replica_fixture import BOUND
from tests.state.informers.claims import create_claim, scheduler_claim
from tests.state.informers.pods import pod as stored_pod

BY_CLASS = CAP.replace("nvidia.com/gpu: 4", f"{CLASS}.deviceclass.resource.k8s.io/devices: 4")
OTHER = "example.com/other"


def claim_of(class_name: str, count: int = 1, uid: str = "c9", revision: int = 0, **request: Any) -> Object:
    """Return a claim for devices of a class."""
    identity: Any = {"name": f"claim-{uid}", "uid": uid, "resourceVersion": str(revision)}
    return claim_object(exactly(count, class_name, **request), **identity)


def give_devices(claim: Object) -> Object:
    """Return a claim with the devices that it requests."""
    count = claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
    return {**claim, "status": {"allocation": {"devices": {"results": [result() for _ in range(count)]}}}}


def pod_of(resource: str, amount: str = "1") -> Object:
    """Return a pod that requests a resource."""
    amounts = {resource: amount}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    return {**stored_pod("u9", 0, "0", "team-a"), "spec": {"containers": [container]}}


def review_pod(replica: ClaimReplica, pod: Object, **request: Any) -> Object:
    """Return the response to the creation of a pod."""
    return response(replica.admit(pod, name="pod-u9", **request))


def get_code(reviewed: Object) -> int:
    """Return 200, or the status code of the rejection."""
    return 200 if reviewed["allowed"] else int(reviewed["status"]["code"])


def store_allocated(replica: ClaimReplica, uid: str, count: int) -> Object:
    """Store a claim with its devices, and count it."""
    stored = give_devices(create_claim(uid, replica.next_revision(), count))
    replica.observe_claim(stored)
    replica.reconcile()
    return stored


def test_a_claim_is_counted_while_its_class_is_away() -> None:
    replica = create_claim_replica()
    store_allocated(replica, "c1", 4)
    for classes in ({}, {CLASS: ""}, {CLASS: OTHER}, {}, {CLASS: GPU}):
        replica.change_classes(classes)
        assert replica.request_pod("u1") == 403, classes
        replica.reconcile()
        assert replica.count_gpus() == (4, 0), classes
        assert replica.request_pod("u1") == 403, classes


def test_a_new_claim_counts_by_a_former_mapping_too_as_long_as_the_ledger_has_it() -> None:
    replica = create_claim_replica()
    stored = store_allocated(replica, "c1", 2)
    replica.change_classes({CLASS: OTHER})
    assert [replica.request_claim(claim_of(CLASS, 2, uid)) for uid in ("c2", "c3")] == [200, 403]
    assert replica.count_gpus() == (2, 2)
    store_allocated(replica, "c2", 2)
    stored["metadata"]["resourceVersion"] = str(replica.next_revision())
    replica.delete_claim(stored)
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    assert replica.read_ledger().mappings >= {(CLASS, GPU)}


def test_a_mapping_ends_with_the_last_consumer_that_counts_by_it() -> None:
    replica = create_claim_replica()
    stored = store_allocated(replica, "c1", 4)
    replica.change_classes({CLASS: OTHER})
    replica.reconcile()
    assert replica.read_ledger().mappings >= {(CLASS, GPU)}
    stored["metadata"]["resourceVersion"] = str(replica.next_revision())
    replica.delete_claim(stored)
    replica.reconcile()
    assert (replica.read_ledger().mappings, replica.count_gpus()) == (NO_MAPPINGS, (0, 0))
    assert not any(CLASS in each for each in replica.read_ledger().resources)


def test_a_mapping_stays_as_long_as_a_claim_in_flight_may_count_by_it() -> None:
    replica = create_claim_replica()
    assert replica.request_claim(create_claim("c1", 0, 4)) == 200
    replica.change_classes({})
    replica.reconcile()
    replica.observe_claim(create_claim("c1", replica.next_revision(), 4))
    replica.reconcile()
    assert replica.count_gpus() == (4, 0)
    assert replica.request_pod("u1") == 403


@pytest.mark.parametrize("classes", [{}, {"other": OTHER}])
def test_nothing_is_decided_on_a_claim_of_an_unseen_class(classes: dict[str, str]) -> None:
    replica = create_claim_replica()
    replica.change_classes(classes)
    status = response(replica.review_claim(claim_of("future")))["status"]
    assert status["code"] == 429
    assert "cap gpus: DeviceClass future does not exist" in status["message"]
    assert GPU in status["message"]
    assert replica.count_gpus() == (0, 0)


def test_a_claim_of_a_class_that_is_added_later_is_charged() -> None:
    replica = create_claim_replica()
    assert replica.request_claim(claim_of("future", 4)) == 429
    replica.change_classes({CLASS: GPU, "future": GPU})
    assert replica.request_claim(claim_of("future", 4)) == 200
    assert replica.count_gpus() == (0, 4)
    assert replica.request_pod("u1") == 403


def test_nothing_is_decided_on_an_allocation_by_an_unseen_class() -> None:
    replica = create_claim_replica()
    stored = create_claim("c1", replica.next_revision(), 4)
    replica.observe_claim(stored)
    replica.reconcile()
    replica.change_classes({})
    assert replica.allocate(stored, give_devices(stored)) == 429
    replica.change_classes({CLASS: GPU})
    assert replica.allocate(stored, give_devices(stored)) == 200


def test_a_pod_that_names_an_unseen_class_is_not_decided() -> None:
    replica = create_claim_replica()
    reviewed = review_pod(replica, pod_of(f"{DEVICE_CLASS_PREFIX}future"))
    assert get_code(reviewed) == 429
    assert "DeviceClass future" in reviewed["status"]["message"]
    assert get_code(review_pod(replica, pod_of(f"{DEVICE_CLASS_PREFIX}future", "0"))) == 200


@pytest.mark.parametrize("resource", ["cpu", GPU, OTHER, "hugepages-2Mi"])
def test_a_pod_that_names_no_class_is_decided_without_any(resource: str) -> None:
    replica = create_claim_replica()
    replica.change_classes({})
    assert get_code(review_pod(replica, pod_of(resource))) == 200


def test_a_change_of_a_pod_that_names_an_unseen_class_is_allowed() -> None:
    replica = create_claim_replica()
    replica.change_classes({})
    pod = pod_of(f"{DEVICE_CLASS_PREFIX}{CLASS}")
    assert get_code(review_pod(replica, pod, oldObject=pod, operation="UPDATE")) == 200


@pytest.mark.parametrize(
    ("resource", "code"), [("cpu", 200), (GPU, 429), (f"{DEVICE_CLASS_PREFIX}{CLASS}", 200), ("hugepages-2Mi", 200)]
)
def test_a_cap_of_a_missing_class_decides_on_no_pod_with_an_extended_resource(resource: str, code: int) -> None:
    replica = create_claim_replica(BY_CLASS)
    replica.change_classes({})
    reviewed = review_pod(replica, pod_of(resource))
    assert get_code(reviewed) == code
    assert code == 200 or f"DeviceClass {CLASS}" in reviewed["status"]["message"]


def test_a_cap_of_a_missing_class_charges_its_claims() -> None:
    replica = create_claim_replica(BY_CLASS)
    replica.change_classes({})
    assert replica.request_claim(create_claim("c1", 0, 3)) == 200
    assert replica.request_claim(create_claim("c2", 0, 2)) == 403
    assert replica.request_claim(claim_of("future", 5)) == 200


def test_a_cap_of_a_class_counts_pods_by_a_former_resource_of_it() -> None:
    replica = create_claim_replica(BY_CLASS)
    replica.store_pod("u1", 4)
    replica.observe("u1")
    replica.reconcile()
    replica.change_classes({CLASS: OTHER})
    replica.reconcile()
    assert get_code(review_pod(replica, pod_of(OTHER))) == 403
    replica.delete_pod("u1")
    replica.reconcile()
    assert get_code(review_pod(replica, pod_of(OTHER))) == 200
    assert get_code(review_pod(replica, pod_of(GPU))) == 200


def test_an_api_server_without_classes_stops_nothing() -> None:
    replica = create_claim_replica(BY_CLASS)
    replica.change_classes(UNSERVED_CLASSES)
    assert get_code(review_pod(replica, pod_of(GPU))) == 200


def test_an_allocation_is_decided_if_the_class_leads_to_the_name_since_the_creation() -> None:
    replica = create_claim_replica()
    replica.change_classes({CLASS: OTHER})
    replica.reconcile()
    assert replica.request_claim(create_claim("c1", 0, 4)) == 200
    stored = create_claim("c1", replica.next_revision(), 4)
    replica.observe_claim(stored)
    replica.store_pod("u1")
    replica.observe("u1")
    replica.reconcile()
    assert replica.count_gpus() == (1, 0)
    replica.change_classes({CLASS: GPU})
    assert replica.allocate(stored, give_devices(stored)) == 403
    assert replica.count_gpus() == (1, 0)
    replica.reconcile()
    assert replica.count_gpus() == (5, 0)
    assert replica.allocate(stored, give_devices(stored)) == 403
    replica.delete_pod("u1")
    assert replica.allocate(stored, give_devices(stored)) == 200


def test_a_replica_that_has_not_seen_the_change_counts_by_the_ledger() -> None:
    replica, behind = create_claim_replica(), {CLASS: OTHER}
    store_allocated(replica, "c1", 3)
    replica.change_classes(behind)
    assert replica.request_claim(create_claim("c2", 0, 2)) == 403
    assert replica.request_claim(create_claim("c3", 0, 1)) == 200
    assert replica.count_gpus() == (3, 1)
    assert get_code(review_pod(replica, pod_of(f"{DEVICE_CLASS_PREFIX}{CLASS}"))) == 403


def test_a_scheduler_claim_needs_room_if_its_pod_was_admitted_by_another_mapping() -> None:
    replica = create_claim_replica()
    replica.change_classes({CLASS: OTHER})
    replica.reconcile()
    pod = {**stored_pod("u1", replica.next_revision(), "0", "team-a"), "spec": pod_of(OTHER, "4")["spec"]}
    replica.stored_pods["u1"] = pod
    replica.observe("u1")
    replica.store_pod("u2")
    replica.observe("u2")
    replica.reconcile()
    replica.change_classes({CLASS: GPU, "second": OTHER})
    made = scheduler_claim("c1", 0, "u1", 4, is_reserved=False)
    assert replica.request_claim(made, userInfo={"username": "system:kube-scheduler"}) == 429
    assert replica.count_gpus() == (1, 0)


def test_allocations_are_decided_as_before_once_everything_that_is_counted_has_room() -> None:
    replica = create_claim_replica()
    replica.change_classes({CLASS: OTHER})
    replica.reconcile()
    stored = create_claim("c1", replica.next_revision(), 4)
    replica.observe_claim(stored)
    replica.store_pod("u1")
    replica.observe("u1")
    replica.change_classes({CLASS: GPU})
    replica.reconcile()
    assert replica.read_ledger().remapping.names == {GPU}
    for _ in range(3):
        replica.reconcile(BOUND)
    assert replica.read_ledger().remapping.names == {GPU}
    replica.delete_pod("u1")
    replica.reconcile()
    assert not replica.read_ledger().remapping.names
    replica.store_pod("u2")
    replica.observe("u2")
    replica.reconcile()
    assert replica.allocate(stored, give_devices(stored)) == 200


def test_a_class_that_returns_confirms_nothing_before_the_bound() -> None:
    replica = create_claim_replica()
    replica.change_classes({CLASS: ""})
    replica.reconcile()
    replica.change_classes({CLASS: GPU})
    replica.reconcile()
    replica.reconcile(BOUND / 2)
    assert replica.read_ledger().remapping.names == {GPU}
    for _ in range(2):
        replica.reconcile(BOUND)
    assert not replica.read_ledger().remapping.names
    assert replica.reconciler.list_pending() == ()


def test_admin_access_to_an_unseen_class_costs_nothing() -> None:
    replica = create_claim_replica()
    assert replica.request_claim(claim_of("future", adminAccess=True)) == 200


def test_stored_consumers_of_unseen_classes_are_listed() -> None:
    replica = create_claim_replica()
    replica.observe_claim(claim_of("future", uid="c1", revision=replica.next_revision()))
    pod = {
        **stored_pod("u1", replica.next_revision(), "0", "team-a"),
        "spec": pod_of(f"{DEVICE_CLASS_PREFIX}x")["spec"],
    }
    replica.stored_pods["u1"] = pod
    replica.observe("u1")
    (cap,) = replica.caps.list_caps()
    key = replica.get_ledger_key()
    assert [each.class_name for each in replica.usage_lister.list_unseen_classes(cap, key)] == ["future", "x"]
