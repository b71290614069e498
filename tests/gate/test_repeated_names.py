"""Creates of one name: those that end in 409, since the name exists, keep no room from others (rule 13)."""

import pytest

from tests.gate.gate_fixture import CAP, GateFixture, response
from tests.gate.replica_fixture import create_active_replica
from tests.state.informers.pods import pod as stored_pod


def admit(replica: GateFixture, uid: str, name: str, namespace: str = "team-a") -> int:
    """Review the creation of a pod with one GPU; return 200 or the status of the rejection."""
    requested = stored_pod(uid, 0, "1", namespace)
    requested["metadata"]["name"] = name
    found = response(replica.admit(requested, name=name))
    return 200 if found["allowed"] else found["status"]["code"]


@pytest.mark.parametrize(("name", "exists"), [("pod-u1", True), ("web-0", False)])
def test_a_rejected_create_names_the_counted_pod_of_its_name(name: str, exists: bool) -> None:  # noqa: FBT001
    """Fill the cap with pod-u1: a create of that name needs room of its own, and would fail with it."""
    replica = create_active_replica(CAP)
    replica.store_pod("u1", gpus=4)
    replica.observe("u1")
    replica.reconcile()
    requested = stored_pod("u2", 0, "1", "team-a")
    requested["metadata"]["name"] = name
    found = response(replica.admit(requested, name=name))
    assert found["status"]["code"] == 403
    assert ("A pod of this name exists and is counted until it is deleted" in found["status"]["message"]) is exists


def test_creates_of_a_name_that_exists_reserve_once_and_others_get_the_rest() -> None:
    """Take 1 of 4 for one name, however often it is created."""
    replica = create_active_replica(CAP)
    assert [admit(replica, f"u{number}", "web-0") for number in range(20)] == [200] * 20
    assert [admit(replica, f"other-{number}", f"other-{number}") for number in range(4)] == [200, 200, 200, 403]
    assert replica.read_ledger().compute_charged() == {"nvidia.com/gpu": 4}
