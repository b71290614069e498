"""Creates of one name: those that end in 409, since the name exists, keep no room from others (rule 13)."""

from typing import Any

import pytest

from tests.gate.gate_fixture import CAP, GateFixture, response
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.state.informers.pods import pod as stored_pod


def review(replica: GateFixture, uid: str, name: str, gpus: int = 1, namespace: str = "team-a") -> dict[str, Any]:
    """Review the creation of a pod, and return the response."""
    requested = stored_pod(uid, 0, str(gpus), namespace)
    requested["metadata"]["name"] = name
    return response(replica.admit(requested, name=name, namespace=namespace))


def admit(replica: GateFixture, uid: str, name: str, gpus: int = 1, namespace: str = "team-a") -> int:
    """Review the creation of a pod; return 200 or the status of the rejection."""
    found = review(replica, uid, name, gpus, namespace)
    return 200 if found["allowed"] else int(found["status"]["code"])


def count_pod(gpus: int) -> ReplicaFixture:
    """Return a replica under a cap of 4 that counts pod-u1."""
    replica = create_active_replica(CAP)
    replica.store_pod("u1", gpus=gpus)
    replica.observe("u1")
    replica.reconcile()
    return replica


@pytest.mark.parametrize(("name", "exists", "most"), [("pod-u1", True, 4), ("web-0", False, 1)])
def test_a_rejected_create_names_the_counted_pod_of_its_name(name: str, exists: bool, most: int) -> None:  # noqa: FBT001
    """Count 3 for pod-u1, of 4: a create of that name needs what it requests beyond these 3."""
    found = review(count_pod(3), "u2", name, 5)
    assert found["status"]["code"] == 403
    message = found["status"]["message"]
    assert ("A pod of this name exists and is counted until it is deleted" in message) is exists
    assert f"Request {most} or less" in message


def test_creates_of_a_name_that_exists_reserve_once_and_others_get_the_rest() -> None:
    """Take 1 of 4 for one name, however often it is created."""
    replica = create_active_replica(CAP)
    assert [admit(replica, f"u{number}", "web-0") for number in range(20)] == [200] * 20
    assert [admit(replica, f"other-{number}", f"other-{number}") for number in range(4)] == [200, 200, 200, 403]
    assert replica.read_ledger().compute_charged() == {"nvidia.com/gpu": 4}


def test_creates_beside_the_counted_pod_of_their_name_keep_no_room_from_others() -> None:
    """Count 2 of 4 for the pod: two creates of its name fail with 409, and another pod of 2 is admitted at once."""
    replica = count_pod(2)
    assert [admit(replica, f"v{number}", "pod-u1", 2) for number in range(2)] == [200, 200]
    assert admit(replica, "other", "other", 2) == 200
    assert replica.read_ledger().compute_charged() == {"nvidia.com/gpu": 4}


def test_a_create_of_a_name_that_was_not_counted_yet_keeps_no_room_from_others() -> None:
    """Let the pod be stored after the second create of its name was admitted."""
    replica = create_active_replica(CAP)
    assert [admit(replica, uid, "pod-u1", 2) for uid in ("u1", "v1", "v2")] == [200, 200, 200]
    replica.store_pod("u1", gpus=2)
    replica.observe("u1")
    replica.reconcile()
    assert replica.count_gpus() == (2, 0)
    assert admit(replica, "other", "other", 2) == 200


def test_a_create_of_a_counted_name_passes_under_a_full_cap_and_is_answered_by_the_api_server() -> None:
    replica = count_pod(4)
    assert admit(replica, "v1", "pod-u1", 4) == 200
    assert admit(replica, "other", "other", 1) == 403


def test_the_next_pod_of_a_name_has_the_room_of_the_one_before_and_others_do_not() -> None:
    """Delete the pod while creates of its name may still be stored: they need the largest of their amounts."""
    replica = count_pod(2)
    assert [admit(replica, "v1", "pod-u1", 1), admit(replica, "v2", "pod-u1", 3)] == [200, 200]
    replica.delete_pod("u1")
    assert admit(replica, "other", "other", 2) == 403
    assert admit(replica, "small", "small", 1) == 200
    replica.reconcile()
    assert replica.count_gpus() == (0, 4)


def test_a_pod_of_another_namespace_covers_no_creates() -> None:
    replica = count_pod(3)
    replica.label_namespace("team-b")
    assert admit(replica, "v1", "pod-u1", 4, namespace="team-b") == 200
    replica.reconcile()
    assert replica.count_gpus("team-b") == (0, 4)
