"""Pods of a controller that rolls, under a cap with `surge`."""

from typing import Any

import pytest

from tallygate.admission.cap_index import CapIndex
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.state.informers.pods import pod as stored_pod

SURGE = CAP + f"  surge: {{amounts: {{{GPU}: 2}}, for: 15m}}\n"  # hard: 4 GPUs
_FIFTEEN_MINUTES = 900


def create_reference(kind: str, name: str, version: str = "apps/v1", uid: str = "") -> dict[str, Any]:
    """Return the reference of a controller."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}


def store_replica_set(replica: ReplicaFixture, name: str, owner: dict[str, Any] | None) -> dict[str, Any]:
    """Store a ReplicaSet, and return the reference of it."""
    owners = [owner] if owner is not None else []
    replica.stored.store("replicasets", {"metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": owners}})
    return create_reference("ReplicaSet", name)


def store_pod(replica: ReplicaFixture, uid: str, owner: dict[str, Any], **labels: str) -> None:
    """Store a pod of one GPU that the gate did not review, and deliver the watch event."""
    replica.store_pod(uid)["metadata"] |= {"ownerReferences": [owner], "labels": labels}
    replica.observe(uid)


def request_pod(replica: ReplicaFixture, uid: str, owner: dict[str, Any] | None, **labels: str) -> tuple[int, str]:
    """Review the creation of a pod of one GPU; return 200 or the status code of the rejection, and its message."""
    requested = stored_pod(uid, 0, "1", "team-a")
    requested["metadata"] |= {"ownerReferences": [owner] if owner else [], "labels": labels}
    found = response(replica.admit(requested, name=f"pod-{uid}"))
    return (200, "") if found["allowed"] else (found["status"]["code"], found["status"]["message"])


WEB = create_reference("Deployment", "web")


def start_rollout(text: str = SURGE) -> tuple[ReplicaFixture, dict[str, Any]]:
    """Return a replica with four old pods of a Deployment, which fill the cap, and the owner reference of new ones."""
    replica = create_active_replica(text)
    old = store_replica_set(replica, "web-old", WEB)
    for index in range(4):
        store_pod(replica, f"old{index}", old)
    replica.reconcile()
    return replica, store_replica_set(replica, "web-new", WEB)


def test_pods_of_a_controller_that_rolls_exceed_the_cap_by_the_surge_and_no_more() -> None:
    replica, new = start_rollout()
    assert [request_pod(replica, f"new{index}", new)[0] for index in range(3)] == [200, 200, 403]
    assert replica.count_gpus() == (4, 2)


def test_the_attempt_of_a_pod_that_surges_is_another_than_the_rejected_one() -> None:
    """Otherwise a late release of the rejected attempt would remove the reservation of the accepted one."""
    replica, new = start_rollout()
    earlier = len(replica.nonces)
    assert request_pod(replica, "new", new) == (200, "")
    (reservation,) = replica.read_ledger().reservations.values()
    assert replica.nonces[earlier:].index(reservation.attempt) > 0


def test_old_pods_that_use_one_of_two_exceeded_resources_are_no_sign_of_a_rollout() -> None:
    both = CAP.replace(f"{{{GPU}: 4}}", f"{{{GPU}: 4, pods: 4}}")
    replica = create_active_replica(both + f"  surge: {{amounts: {{{GPU}: 2, pods: 2}}, for: 15m}}\n")
    old = store_replica_set(replica, "web-old", WEB)
    for index in range(4):
        stored = replica.store_pod(f"old{index}", gpus=0 if index else 4)
        stored["metadata"] |= {"ownerReferences": [old if index else create_reference("Job", "train", "batch/v1")]}
        replica.observe(f"old{index}")
    replica.reconcile()
    assert request_pod(replica, "new", store_replica_set(replica, "web-new", WEB))[0] == 403


def test_without_a_surge_no_controller_is_read_and_no_pod_exceeds_the_cap() -> None:
    replica, new = start_rollout(CAP)
    assert request_pod(replica, "new", new)[0] == 403
    assert replica.stored.reads == 0


def test_within_the_cap_no_controller_is_read() -> None:
    replica = create_active_replica(SURGE)
    assert request_pod(replica, "p", store_replica_set(replica, "web-new", WEB)) == (200, "")
    assert replica.stored.reads == 0
    assert replica.read_ledger().surge.since is None


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(None, id="without a controller"),
        pytest.param(create_reference("ReplicaSet", "web-old"), id="of the revision that runs"),
        pytest.param(create_reference("ReplicaSet", "bare"), id="of a ReplicaSet without a Deployment"),
        pytest.param(create_reference("ReplicaSet", "other-new"), id="of another Deployment"),
        pytest.param(
            create_reference("ReplicaSet", "web-new", uid="forged"), id="with another UID than the ReplicaSet"
        ),
        pytest.param(create_reference("ReplicaSet", "missing"), id="of a ReplicaSet that does not exist"),
        pytest.param(create_reference("StatefulSet", "db"), id="of a StatefulSet"),
        pytest.param(create_reference("Job", "train", "batch/v1"), id="of a Job"),
    ],
)
def test_an_ordinary_pod_never_exceeds_the_cap(owner: dict[str, Any] | None) -> None:
    replica, new = start_rollout()
    store_replica_set(replica, "bare", None)
    store_replica_set(replica, "other-new", create_reference("Deployment", "other"))
    for _ in range(2):  # before a surge, and while one runs
        code, message = request_pod(replica, "ordinary", owner)
        assert code == 403
        assert "surge" not in message
        assert request_pod(replica, "new", new) == (200, "")


def test_a_rejected_ordinary_pod_does_not_reject_one_that_surges() -> None:
    replica, new = start_rollout()
    assert request_pod(replica, "ordinary", None)[0] == 403
    assert request_pod(replica, "new", new) == (200, "")


def test_a_rollout_back_surges_too() -> None:
    replica, new = start_rollout()
    assert request_pod(replica, "new0", new) == (200, "")
    store_pod(replica, "new0", new)
    assert request_pod(replica, "back", create_reference("ReplicaSet", "web-old")) == (200, "")


def test_pods_that_have_ended_and_pods_of_other_namespaces_are_no_sign_of_a_rollout() -> None:
    replica, new = start_rollout()
    for index in range(4):
        replica.stored_pods[f"old{index}"]["status"]["phase"] = "Succeeded"
        replica.revision += 1
        replica.stored_pods[f"old{index}"]["metadata"]["resourceVersion"] = str(replica.revision)
        replica.observe(f"old{index}")
    replica.reconcile()
    assert [request_pod(replica, f"new{index}", new)[0] for index in range(5)] == [200] * 4 + [403]


@pytest.mark.parametrize("field", ["kind", "name"])
def test_a_pod_with_the_uid_of_an_old_controller_beside_another_kind_or_name_hides_no_rollout(field: str) -> None:
    replica = create_active_replica(SURGE)
    old = store_replica_set(replica, "web-old", WEB)
    for index in range(3):
        store_pod(replica, f"old{index}", old)
    store_pod(replica, "forged", old | {field: "StatefulSet" if field == "kind" else "web-other"})
    replica.reconcile()
    assert request_pod(replica, "new", store_replica_set(replica, "web-new", WEB)) == (200, "")


def test_old_pods_that_use_none_of_the_exceeded_resource_are_no_sign_of_a_rollout() -> None:
    replica = create_active_replica(SURGE)
    old = store_replica_set(replica, "web-old", WEB)
    replica.store_pod("old", gpus=0)["metadata"]["ownerReferences"] = [old]
    replica.observe("old")
    replica.reconcile()
    new = store_replica_set(replica, "web-new", WEB)
    assert [request_pod(replica, f"new{index}", new)[0] for index in range(5)] == [200] * 4 + [403]


def test_a_daemon_set_rolls_while_its_pods_have_two_revisions() -> None:
    replica, agent = create_active_replica(SURGE), create_reference("DaemonSet", "agent")
    replica.stored.store("daemonsets", {"metadata": {"name": "agent", "uid": "uid-agent"}})
    for index in range(4):
        store_pod(replica, f"old{index}", agent, **{"controller-revision-hash": "1"})
    replica.reconcile()
    assert request_pod(replica, "same", agent, **{"controller-revision-hash": "1"})[0] == 403
    assert request_pod(replica, "none", agent)[0] == 403
    assert request_pod(replica, "new", agent, **{"controller-revision-hash": "2"}) == (200, "")


def test_a_leader_worker_set_rolls_while_its_pods_have_two_revisions() -> None:
    replica, label = create_active_replica(SURGE), "leaderworkerset.sigs.k8s.io/template-revision-hash"
    reference = create_reference("LeaderWorkerSet", "llm", "leaderworkerset.x-k8s.io/v1")
    metadata = {"name": "llm", "uid": "uid-llm"}
    replica.stored.store("leaderworkersets", {"metadata": metadata})
    leaders = create_reference("StatefulSet", "llm-leaders")
    replica.stored.store(
        "statefulsets", {"metadata": {"name": "llm-leaders", "uid": "uid-llm-leaders", "ownerReferences": [reference]}}
    )
    for index in range(4):
        store_pod(replica, f"old{index}", leaders, **{label: "1"})
    replica.reconcile()
    assert request_pod(replica, "same", leaders, **{label: "1"})[0] == 403
    assert request_pod(replica, "new", leaders, **{label: "2"}) == (200, "")


def test_after_its_time_a_surge_accepts_no_further_pod_until_the_charge_is_back_at_the_cap() -> None:
    replica, new = start_rollout()
    assert request_pod(replica, "new0", new) == (200, "")
    store_pod(replica, "new0", new)
    replica.reconcile(_FIFTEEN_MINUTES - 1)
    assert request_pod(replica, "new1", new) == (200, "")
    store_pod(replica, "new1", new)
    replica.delete_pod("old0")
    replica.reconcile(1)
    assert replica.count_gpus() == (5, 0)
    code, message = request_pod(replica, "new2", new)
    assert code == 403
    assert "used 5, reserved 0, hard 4, surge 2 (over, it began at 1970-01-01T00:02:00Z), free 0" in message
    assert (
        "The surge has lasted 15m: no pod exceeds hard until no more than 4 is charged. Wait until old pods end, or "
        "undo the rollout"
    ) in message
    replica.delete_pod("old1")
    replica.reconcile()
    assert replica.read_ledger().surge.since is None
    assert request_pod(replica, "new2", new) == (200, "")


def test_the_rejection_of_a_pod_beyond_the_surge_has_both_limits() -> None:
    replica, new = start_rollout()
    for index in range(2):
        assert request_pod(replica, f"new{index}", new) == (200, "")
    code, message = request_pod(replica, "new2", new)
    assert code == 403
    assert "used 4, reserved 2, hard 4, surge 2 (since 1970-01-01T00:02:00Z), free 0" in message
    assert "Wait until old pods end" in message


def test_a_surge_that_no_pod_used_ends_with_its_reservation() -> None:
    replica, new = start_rollout()
    assert request_pod(replica, "new0", new) == (200, "")
    assert replica.read_ledger().surge.since == int(replica.now)
    for _ in range(3):
        replica.reconcile(BOUND)
    assert (replica.count_gpus(), replica.read_ledger().surge.since) == ((4, 0), None)


def _set_policies(replica: ReplicaFixture, text: str) -> None:
    replica.policies = parse_policies(text)
    replica.caps = CapIndex(replica.policies, None)


def test_the_end_of_a_surge_in_the_policies_stops_it() -> None:
    replica, new = start_rollout()
    assert request_pod(replica, "new0", new) == (200, "")
    _set_policies(replica, CAP)
    replica.reconcile()
    assert request_pod(replica, "new1", new)[0] == 403
    assert replica.read_ledger().surge.amounts == {}
    _set_policies(replica, SURGE)
    assert request_pod(replica, "new1", new)[0] == 403, "the leader has not written the surge yet"
    replica.reconcile()
    assert request_pod(replica, "new1", new) == (200, "")


def test_a_controller_that_cannot_be_read_is_a_reason_to_ask_again() -> None:
    replica, new = start_rollout()
    replica.stored.unreadable.add("replicasets")
    code, message = request_pod(replica, "new0", new)
    assert code == 429
    assert "ReplicaSet team-a/web-new, the controller, cannot be read" in message


def test_a_second_cap_without_surge_rejects_the_pod_and_nothing_is_reserved() -> None:
    replica, new = start_rollout(SURGE + "---" + CAP.replace("gpus}", "strict}"))
    assert request_pod(replica, "new0", new)[0] == 403
    assert all(not each.read_reserved(cap) for each, cap in ((replica, "gpus"), (replica, "strict")))
