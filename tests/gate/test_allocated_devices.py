"""Claims under names that count devices by their attributes and capacities: charged when devices are allocated.

Watches show claims and slices, each as a test delivers its events.
"""

from typing import Any

import pytest

from tallygate.state.ledger.ledger import Operation
from tests.accounting.claims import Object, claim_object, exactly, result
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, response
from tests.state.informers.claims import scheduler_claim
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice, slice_line, slice_page

H100 = 'device.attributes["gpu.example.com"].model == "h100"'
BY_MODEL = CAP.replace("{nvidia.com/gpu: 4}", f"{{h100: 2}}\n  devices: {{h100: {{selector: '{H100}'}}}}")
BY_MEMORY = CAP.replace("{nvidia.com/gpu: 4}", "{gpu-memory: 160Gi}\n  devices: {gpu-memory: {sum: memory}}")
GIB = 1 << 30


def create_replica(text: str, *devices: Object) -> ClaimReplica:
    """Return a replica with active ledgers that has seen these devices."""
    replica = create_claim_replica(text)
    replica.devices.apply(slice_page(replica.revision, create_slice(replica.revision, *devices)))
    return replica


def publish(replica: ClaimReplica, *devices: Object, generation: int = 1) -> None:
    """Deliver the watch event of a slice with these devices in place of the former ones."""
    changed = create_slice(replica.next_revision(), *devices, generation=generation)
    replica.devices.apply(slice_line("MODIFIED", changed))


def create_claim(uid: str, revision: int, *devices: str, **more: Any) -> Object:
    """Return a claim that has these devices, or none yet."""
    identity = {"name": f"claim-{uid}", "uid": uid, "resourceVersion": str(revision)} | more.pop("metadata", {})
    results = [result(driver=DRIVER, pool=POOL, device=each, **more) for each in devices]
    return claim_object(exactly(1), results=results or None, **identity)


def allocate(replica: ClaimReplica, uid: str, *devices: str, **more: Any) -> int:
    """Store a claim, let both watches see it, and review the allocation of devices to it; return the status code."""
    revision = replica.next_revision()
    replica.observe_claim(create_claim(uid, revision))
    return replica.allocate(create_claim(uid, revision), create_claim(uid, revision, *devices, **more))


def store(replica: ClaimReplica, uid: str, *devices: str, **more: Any) -> None:
    """Deliver the watch event of a claim with these devices."""
    replica.observe_claim(create_claim(uid, replica.next_revision(), *devices, **more))


def count(replica: ClaimReplica, name: str) -> tuple[int, int]:
    """Return the used and the reserved amount of a name."""
    ledger = replica.read_ledger()
    return ledger.used.get(name, 0), ledger.reserved.get(name, 0)


def h100s(number: int) -> list[Object]:
    """Return devices of the model that counts, from h-0 on."""
    return [create_device(f"h-{index}") for index in range(number)]


def test_a_claim_counts_nothing_before_its_allocation() -> None:
    replica = create_replica(BY_MODEL, *h100s(3))
    for number in range(4):
        assert replica.request_claim(create_claim(f"c{number}", 0)) == 200
        store(replica, f"c{number}")
    replica.reconcile()
    assert count(replica, "h100") == (0, 0)


def test_an_allocation_reserves_and_is_used_once_it_is_seen() -> None:
    replica = create_replica(BY_MODEL, *h100s(3))
    assert allocate(replica, "c1", "h-0") == 200
    assert count(replica, "h100") == (0, 1)
    (reservation,) = replica.read_ledger().reservations.values()
    assert reservation.operation is Operation.UPDATE
    store(replica, "c1", "h-0")
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_a_count_has_the_devices_of_its_revision_if_a_claim_gets_one_meanwhile() -> None:
    replica = create_replica(BY_MODEL, *h100s(1))
    store(replica, "c1")
    replica.reconcile()
    store(replica, "c2")
    replica.claims_during_count = [create_claim("c1", replica.next_revision(), "h-0")]
    replica.reconcile()
    assert (count(replica, "h100"), replica.read_ledger().claims_revision) == ((1, 0), replica.revision)


def test_an_allocation_beyond_the_cap_is_rejected_with_the_arithmetic() -> None:
    replica = create_replica(BY_MODEL, *h100s(3))
    store(replica, "c1", "h-0", "h-1")
    replica.reconcile()
    store(replica, "c2")
    stored = create_claim("c2", replica.revision)
    decision = replica.review_claim(create_claim("c2", replica.revision, "h-2"), oldObject=stored, subResource="status")
    message = response(decision)["status"]["message"]
    assert (
        "exceeded: allocated 1 h100, charged to others 2, hard 2, free 0; top consumers: ResourceClaim claim-c1 (2). "
        "Wait until the devices of"
    ) in message


def test_a_device_that_the_selector_does_not_match_counts_nothing() -> None:
    replica = create_replica(BY_MODEL, *h100s(2), create_device("a-0", "a100"))
    store(replica, "c1", "h-0", "h-1")
    replica.reconcile()
    assert allocate(replica, "c2", "a-0") == 200
    assert count(replica, "h100") == (2, 0)


def test_admin_access_counts_nothing() -> None:
    replica = create_replica(BY_MODEL, *h100s(3))
    store(replica, "c1", "h-0", "h-1")
    assert allocate(replica, "c2", "h-2", adminAccess=True) == 200
    replica.reconcile()
    assert count(replica, "h100") == (2, 0)


def test_a_freed_device_leaves_room_for_the_next() -> None:
    replica = create_replica(BY_MODEL, *h100s(3))
    store(replica, "c1", "h-0", "h-1")
    replica.reconcile()
    assert allocate(replica, "c2", "h-2") == 403
    store(replica, "c1")
    assert allocate(replica, "c2", "h-2") == 200


def test_the_memory_of_whole_devices_counts() -> None:
    replica = create_replica(BY_MEMORY, *h100s(2), create_device("small", memory="1536Mi"))
    assert allocate(replica, "c1", "h-0", "small") == 200
    store(replica, "c1", "h-0", "small")
    replica.reconcile()
    assert count(replica, "gpu-memory") == (81.5 * GIB, 0)
    assert allocate(replica, "c2", "h-1") == 403


def test_the_consumed_part_of_a_shared_device_counts() -> None:
    replica = create_replica(BY_MEMORY, create_device("shared", allowMultipleAllocations=True))
    assert allocate(replica, "c1", "shared", consumedCapacity={"memory": "8Gi"}) == 200
    assert count(replica, "gpu-memory") == (0, 8 * GIB)


def test_the_counters_of_a_partition_count() -> None:
    counters = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "20Gi"}}}]
    replica = create_replica(BY_MEMORY, {"name": "half", "consumesCounters": counters})
    assert allocate(replica, "c1", "half") == 200
    assert count(replica, "gpu-memory") == (0, 20 * GIB)


def test_the_rejection_of_a_sum_has_units() -> None:
    replica = create_replica(BY_MEMORY, *h100s(3))
    store(replica, "c1", "h-0", "h-1")
    stored = create_claim("c2", replica.revision)
    decision = replica.review_claim(create_claim("c2", replica.revision, "h-2"), oldObject=stored, subResource="status")
    assert (
        "allocated 80Gi gpu-memory, charged to others 160Gi, hard 160Gi, free 0"
        in response(decision)["status"]["message"]
    )


def test_an_unknown_device_is_tried_again_once_its_slice_is_seen() -> None:
    replica = create_replica(BY_MODEL)
    assert allocate(replica, "c1", "h-0") == 429
    assert replica.progress_requests
    publish(replica, *h100s(1))
    assert allocate(replica, "c1", "h-0") == 200


def test_an_expression_that_fails_on_a_device_is_undecided_with_the_reason() -> None:
    replica = create_replica(BY_MODEL, {"name": "bare"})
    replica.observe_claim(create_claim("c1", replica.next_revision()))
    stored = create_claim("c1", replica.revision)
    decision = replica.review_claim(
        create_claim("c1", replica.revision, "bare"), oldObject=stored, subResource="status"
    )
    status = response(decision)["status"]
    assert status["code"] == 429
    assert f"cap gpus: device {DRIVER}/{POOL}/bare is undecided: no such key: model" in status["message"]


def test_an_undecided_device_that_has_no_known_amount_counts() -> None:
    replica = create_replica(BY_MODEL, {"name": "bare"})
    store(replica, "c1", "bare")
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_a_device_that_becomes_undecided_keeps_its_amount() -> None:
    replica = create_replica(BY_MODEL, create_device("a-0", "a100"), *h100s(1))
    store(replica, "c1", "a-0", "h-0")
    replica.reconcile()
    publish(replica, {"name": "a-0"}, {"name": "h-0"})
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_a_device_whose_attributes_change_counts_by_these_after_a_recount() -> None:
    replica = create_replica(BY_MODEL, create_device("a-0", "a100"))
    store(replica, "c1", "a-0")
    replica.reconcile()
    assert count(replica, "h100") == (0, 0)
    publish(replica, create_device("a-0", "h100"))
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_a_device_that_is_no_longer_published_keeps_its_amount_and_is_in_the_ledger() -> None:
    replica = create_replica(BY_MEMORY, *h100s(2))
    store(replica, "c1", "h-0")
    replica.reconcile()
    assert not replica.read_ledger().unpublished
    publish(replica, create_device("h-1"), generation=2)
    replica.reconcile()
    assert count(replica, "gpu-memory") == (80 * GIB, 0)
    assert replica.read_ledger().unpublished == {"c1": {"gpu-memory": 80 * GIB}}
    store(replica, "c1")
    replica.reconcile()
    assert count(replica, "gpu-memory") == (0, 0)
    assert not replica.read_ledger().unpublished


def test_no_device_is_allocated_that_is_no_longer_published() -> None:
    replica = create_replica(BY_MODEL, *h100s(1))
    publish(replica)
    assert allocate(replica, "c1", "h-0") == 429


@pytest.mark.parametrize(("text", "name", "amount"), [(BY_MODEL, "h100", 1), (BY_MEMORY, "gpu-memory", 80 * GIB)])
def test_a_replica_that_starts_later_keeps_the_amount_of_the_ledger(text: str, name: str, amount: int) -> None:
    replica = create_replica(text, *h100s(1))
    store(replica, "c1", "h-0")
    publish(replica)
    replica.reconcile()
    later = create_replica(text)
    later.revision = replica.revision
    later.put_ledger(replica.read_ledger())
    store(later, "c1", "h-0")
    publish(later, create_device("h-1"))
    later.reconcile()
    assert count(later, name) == (amount, 0)


def test_a_replica_with_another_definition_uses_no_amount_that_the_ledger_keeps() -> None:
    replica = create_replica(BY_MEMORY, *h100s(1))
    store(replica, "c1", "h-0")
    publish(replica)
    replica.reconcile()
    later = create_replica(BY_MEMORY.replace("{sum: memory}", "{sum: cores}"))
    later.revision = replica.revision
    later.put_ledger(replica.read_ledger())
    store(later, "c1", "h-0")
    publish(later, create_device("h-1"))
    later.reconcile()
    assert (count(later, "gpu-memory"), "gpu-memory" in later.read_ledger().resources) == ((0, 0), False)


def test_a_sum_with_an_unknown_device_has_no_partial_amount() -> None:
    replica = create_replica(BY_MEMORY, *h100s(1))
    store(replica, "c1", "h-0")
    store(replica, "c2", "unknown")
    publish(replica, *h100s(1), generation=2)
    replica.reconcile()
    assert (count(replica, "gpu-memory"), "gpu-memory" in replica.read_ledger().resources) == ((0, 0), False)


def test_an_unknown_device_counts_as_one() -> None:
    replica = create_replica(BY_MODEL)
    store(replica, "c1", "unknown")
    publish(replica, *h100s(1))
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_nothing_is_charged_under_a_sum_with_an_unknown_device_until_the_claim_is_deleted() -> None:
    replica = create_replica(BY_MEMORY)
    store(replica, "c1", "unknown")
    publish(replica, *h100s(1))
    replica.reconcile()
    assert count(replica, "gpu-memory") == (0, 0)
    assert "gpu-memory" not in replica.read_ledger().resources
    assert allocate(replica, "c2", "h-0") == 429
    replica.delete_claim(create_claim("c1", replica.next_revision(), "unknown"))
    assert allocate(replica, "c2", "h-0") == 200


@pytest.mark.parametrize(("text", "name", "amount"), [(BY_MODEL, "h100", 0), (BY_MEMORY, "gpu-memory", 80 * GIB)])
def test_a_recount_waits_for_slices_as_new_as_the_claim(text: str, name: str, amount: int) -> None:
    replica = create_replica(text)
    store(replica, "c1", "a-0")
    replica.reconcile()
    assert replica.progress_requests
    assert replica.read_ledger().claims_revision < replica.revision
    publish(replica, create_device("a-0", "a100"))
    replica.reconcile()
    assert count(replica, name) == (amount, 0)


def test_a_claim_of_the_scheduler_counts_its_devices_here_too() -> None:
    replica = create_replica(BY_MODEL, *h100s(1))
    replica.store_pod("u1", 1)
    replica.name_claim("u1", "claim-c1")
    made = scheduler_claim("c1", replica.next_revision(), "u1")
    made["status"]["allocation"]["devices"]["results"] = [result(driver=DRIVER, pool=POOL, device="h-0")]
    replica.observe_claim(made)
    replica.reconcile()
    assert count(replica, "h100") == (1, 0)


def test_a_claim_of_the_scheduler_counts_under_a_cap_by_labels_and_another_by_its_own() -> None:
    by_label = BY_MODEL.replace("hard:", "pods: {objectSelector: {matchLabels: {tier: gpu}}}\n  hard:")
    replica = create_replica(by_label, *h100s(3))
    made = scheduler_claim("c1", replica.next_revision(), "u1")
    made["status"]["allocation"]["devices"]["results"] = [result(driver=DRIVER, pool=POOL, device="h-0")]
    replica.observe_claim(made)
    store(replica, "c2", "h-1")
    store(replica, "c3", "h-2", metadata={"labels": {"tier": "gpu"}})
    replica.reconcile()
    assert count(replica, "h100") == (2, 0)


BY_LABEL = BY_MODEL.replace("hard:", "pods: {objectSelector: {matchLabels: {tier: gpu}}}\n  hard:")
LABELLED: Object = {"labels": {"tier": "gpu"}}


def label(replica: ClaimReplica, uid: str, *devices: str) -> int:
    """Store a claim with devices, and review a change that labels it; return the status code."""
    store(replica, uid, *devices)
    stored = create_claim(uid, replica.revision, *devices)
    changed = create_claim(uid, replica.revision, *devices, metadata=LABELLED)
    body = response(replica.review_claim(changed, oldObject=stored))
    return 200 if body["allowed"] else int(body["status"]["code"])


def test_a_label_that_brings_a_claim_with_devices_under_a_cap_is_charged() -> None:
    replica = create_replica(BY_LABEL, *h100s(3))
    assert label(replica, "c1", "h-0", "h-1") == 200
    assert count(replica, "h100") == (0, 2)
    assert label(replica, "c2", "h-2") == 403


def test_a_label_on_a_claim_with_a_device_that_is_no_longer_published_is_charged_too() -> None:
    replica = create_replica(BY_LABEL, *h100s(3))
    publish(replica)
    assert label(replica, "c1", "h-0", "h-1", "h-2") == 403


def test_a_label_on_a_claim_with_an_unknown_amount_is_undecided() -> None:
    replica = create_replica(BY_MEMORY.replace("hard:", "pods: {objectSelector: {matchLabels: {tier: gpu}}}\n  hard:"))
    assert label(replica, "c1", "unknown") == 429


def test_a_change_of_the_status_that_allocates_nothing_new_is_not_charged() -> None:
    replica = create_replica(BY_MODEL)
    store(replica, "c1", "unknown")
    stored = create_claim("c1", replica.revision, "unknown")
    assert replica.allocate(stored, stored) == 200


def test_a_changed_definition_is_counted_before_anything_is_charged_under_it() -> None:
    replica = create_replica(BY_MODEL, *h100s(1), create_device("a-0", "a100"), create_device("a-1", "a100"))
    store(replica, "c1", "a-0", "a-1")
    replica.reconcile()
    assert count(replica, "h100") == (0, 0)
    replica.load_policies(BY_MODEL.replace('== "h100"', '!= "b200"'))
    assert allocate(replica, "c2", "h-0") == 429
    replica.reconcile()
    assert count(replica, "h100") == (2, 0)
    assert allocate(replica, "c2", "h-0") == 403


def test_a_pod_that_names_the_resource_counts_nothing() -> None:
    replica = create_replica(BY_MODEL)
    pod = replica.store_pod("u1")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"h100": "5"}}
    assert replica.gate.get_active_caps().list_caps()[0].device_meters
    replica.observe("u1")
    replica.reconcile()
    assert count(replica, "h100") == (0, 0)
