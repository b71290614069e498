"""Creates of one name: those that end in 409, since the name exists, keep no room from others (rule 13)."""

from tests.gate.gate_fixture import CAP, GateFixture, response
from tests.gate.replica_fixture import create_active_replica
from tests.state.informers.pods import pod as stored_pod


def admit(replica: GateFixture, uid: str, name: str, namespace: str = "team-a") -> int:
    """Review the creation of a pod with one GPU; return 200 or the status of the rejection."""
    requested = stored_pod(uid, 0, "1", namespace)
    requested["metadata"]["name"] = name
    found = response(replica.admit(requested, name=name))
    return 200 if found["allowed"] else found["status"]["code"]


def test_creates_of_a_name_that_exists_reserve_once_and_others_get_the_rest() -> None:
    """Take 1 of 4 for one name, however often it is created."""
    replica = create_active_replica(CAP)
    assert [admit(replica, f"u{number}", "web-0") for number in range(20)] == [200] * 20
    assert [admit(replica, f"other-{number}", f"other-{number}") for number in range(4)] == [200, 200, 200, 403]
    assert replica.read_ledger().compute_charged() == {"nvidia.com/gpu": 4}
