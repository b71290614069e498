"""Workloads under a cap with `admit: whole`: their review, their pods, and the end of what no pod takes over."""

import json
from typing import Any

import pytest

from tallygate.state.ledger.expire import GANG_BOUND_SECONDS
from tests.gate.gate_fixture import CAP, GPU, GateFixture, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.state.informers.pods import pod as stored_pod

WHOLE = CAP + "  admit: whole\n"  # hard: 4 GPUs
_RECONCILIATIONS = 3  # the bound, a write after it, a live read after that


def create_job(name: str = "train", pods: int = 4, owner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Job whose pods have one GPU each."""
    resources = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "5"}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": pods, "template": template, **spec},
    }


def create_owner(name: str = "train", kind: str = "Job", version: str = "batch/v1", uid: str = "") -> dict[str, Any]:
    """Return the reference of a controller."""
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}


def review(replica: ReplicaFixture, job: dict[str, Any], **request: Any) -> tuple[int, str]:
    """Review a Job; return 200 or the status code of the rejection, and its message. A stored Job is readable."""
    kind = {"group": job["apiVersion"].rpartition("/")[0], "kind": job["kind"]}
    found = response(replica.admit(job, kind=kind, name=job["metadata"]["name"], **request))
    if not found["allowed"]:
        return found["status"]["code"], found["status"]["message"]
    if not request.get("dryRun"):
        replica.stored.store(f"{job['kind'].lower()}s", job)
    return 200, ""


def request_pod(replica: ReplicaFixture, uid: str, *owners: dict[str, Any], gpus: int = 1) -> tuple[int, str]:
    """Review the creation of a pod with these owners."""
    requested = stored_pod(uid, 0, str(gpus), "team-a")
    requested["metadata"]["ownerReferences"] = list(owners)
    found = response(replica.admit(requested, name=f"pod-{uid}"))
    return (200, "") if found["allowed"] else (found["status"]["code"], found["status"]["message"])


def test_a_job_is_denied_as_a_whole_with_the_arithmetic() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job("first", 3)) == (200, "")
    code, message = review(replica, create_job("second", 2))
    assert code == 403
    assert (
        "cap gpus of this namespace admits a Job as a whole or not at all: its 2 pods request 2 nvidia.com/gpu, "
        "used 0, reserved 3, hard 4, free 1; top consumers: Job first (3, reserved). Wait until pods "
        "end, or start fewer pods"
    ) in message
    assert "(TG215, cap gpus)" in message


def test_a_job_that_never_fits_is_denied_in_other_words() -> None:
    code, message = review(create_active_replica(WHOLE), create_job(pods=5))
    assert (code, "It needs 5 at a time, which the cap never allows: start fewer pods" in message) == (403, True)


def test_the_pods_of_a_job_find_their_amounts_and_others_do_not() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    assert request_pod(replica, "other")[0] == 403
    assert [request_pod(replica, f"p{index}", create_owner())[0] for index in range(4)] == [200] * 4
    assert replica.count_gpus() == (0, 4)
    assert request_pod(replica, "fifth", create_owner())[0] == 403


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(create_owner(uid="another"), id="with the UID of another object"),
        pytest.param(create_owner("missing"), id="that does not exist"),
        pytest.param(create_owner() | {"controller": False}, id="that does not control it"),
        pytest.param(create_owner(kind="Widget", version="example.com/v1"), id="of a kind that is not read"),
    ],
)
def test_a_pod_gets_nothing_from_a_job(owner: dict[str, Any]) -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    assert request_pod(replica, "posing", owner)[0] == 403


def test_a_job_of_a_job_set_reserves_nothing_and_its_pods_take_over_from_the_set() -> None:
    replica = create_active_replica(WHOLE)
    job = create_job("set-0", 4, create_owner("set", "JobSet", "jobset.x-k8s.io/v1alpha2"))
    replicated = {"name": "workers", "replicas": 1, "template": {"spec": job["spec"]}}
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "uid": "uid-set", "resourceVersion": "4"},
        "spec": {"replicatedJobs": [replicated]},
    }
    assert review(replica, job_set) == (200, "")
    assert review(replica, job) == (200, "")
    assert set(replica.read_ledger().reservations) == {"uid-set"}
    assert [request_pod(replica, f"p{index}", create_owner("set-0"))[0] for index in range(4)] == [200] * 4


def test_a_job_of_a_cron_job_reserves_by_itself() -> None:
    replica = create_active_replica(WHOLE)
    owner = create_owner("nightly", "CronJob")
    assert review(replica, create_job("nightly-1", 3, owner)) == (200, "")
    assert review(replica, create_job("nightly-2", 3, owner))[0] == 403


def test_a_suspended_job_reserves_when_it_is_resumed() -> None:
    replica = create_active_replica(WHOLE)
    suspended = create_job("later", 3, suspend=True)
    assert review(replica, suspended) == (200, "")
    assert replica.count_gpus() == (0, 0)
    assert review(replica, create_job("now", 2)) == (200, "")
    assert review(replica, create_job("later", 3), oldObject=suspended)[0] == 403
    assert review(replica, create_job("later", 2), oldObject=suspended) == (200, "")


def test_a_job_that_starts_more_pods_reserves_for_these_alone() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job(pods=1)) == (200, "")
    assert request_pod(replica, "p0", create_owner())[0] == 200
    assert review(replica, create_job(pods=3), oldObject=create_job(pods=1)) == (200, "")
    assert replica.count_gpus() == (0, 3)
    assert review(replica, create_job(pods=2), oldObject=create_job(pods=3)) == (200, "")
    assert replica.count_gpus() == (0, 3)


def test_a_dry_run_reserves_nothing() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job(), dryRun=True) == (200, "")
    assert review(replica, create_job(pods=5), dryRun=True)[0] == 403
    assert replica.count_gpus() == (0, 0)


def test_a_controller_that_cannot_be_read_is_an_answer_that_requests_a_retry() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    replica.stored.unreadable.add("jobs")
    code, message = request_pod(replica, "p0", create_owner())
    assert (code, "Job team-a/train, the controller, cannot be read" in message) == (429, True)


def test_controllers_are_read_once_for_many_pods_and_never_without_such_a_cap() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    for index in range(4):
        assert request_pod(replica, f"p{index}", create_owner())[0] == 200
    assert replica.stored.reads == 1
    other = create_active_replica(CAP)
    assert request_pod(other, "p0", create_owner())[0] == 200
    assert other.stored.reads == 0


def test_a_gate_that_watches_no_cluster_warns_that_it_decides_the_pods_one_by_one() -> None:
    gate = GateFixture(WHOLE)
    found = response(gate.admit(create_job(pods=3), kind={"group": "batch", "kind": "Job"}))
    assert found["allowed"]
    assert "cap gpus admits a Job as a whole only where the gate watches the cluster (--cluster)" in str(found)
    assert gate.read_reserved() == {}


def test_deployments_are_forecast_as_before() -> None:
    replica = create_active_replica(WHOLE)
    deployment = create_job(pods=9) | {"apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["spec"] = {"replicas": 9, "template": deployment["spec"]["template"]}
    assert review(replica, deployment) == (200, "")
    assert replica.count_gpus() == (0, 0)


def _let_pass(replica: ReplicaFixture, seconds: float) -> None:
    replica.reconcile()
    replica.reconcile(seconds)
    for _ in range(_RECONCILIATIONS):
        replica.reconcile()


_DELETED_JOB = create_job() | {
    "metadata": {**create_job()["metadata"], "deletionTimestamp": "2026-12-01T00:00:00Z"},
}


@pytest.mark.parametrize(
    ("stored", "seconds", "expected"),
    [
        pytest.param(None, BOUND, 0, id="that was never stored ends with the bound"),
        pytest.param(create_job(suspend=True), BOUND, 0, id="that is suspended ends with the bound"),
        pytest.param(create_job() | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, BOUND, 0,
                     id="that is complete ends with the bound"),
        pytest.param(create_job() | {"status": {"conditions": [{"type": "Complete", "status": "False"}]}}, BOUND, 4,
                     id="whose condition says that it is not complete stays"),
        pytest.param(_DELETED_JOB, BOUND, 0, id="that is being deleted ends with the bound"),
        pytest.param(create_job(), BOUND, 4, id="that may start pods stays"),
        pytest.param(create_job(), BOUND + GANG_BOUND_SECONDS, 0, id="whose pods do not come ends"),
    ],
)  # fmt: skip
def test_the_reservation_of_a_job(stored: dict[str, Any] | None, seconds: float, expected: int) -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    replica.stored.objects.clear()
    if stored is not None:
        replica.stored.store("jobs", stored)
    _let_pass(replica, seconds)
    assert replica.count_gpus() == (0, expected)


def test_the_reservation_of_a_job_that_cannot_be_read_ends_as_if_it_may_start_pods() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    replica.stored.unreadable.add("jobs")
    _let_pass(replica, BOUND)
    assert replica.count_gpus() == (0, 4)
    _let_pass(replica, GANG_BOUND_SECONDS)
    assert replica.count_gpus() == (0, 0)


def test_pods_that_are_observed_leave_the_rest_reserved_for_the_others() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    for index in range(2):
        assert request_pod(replica, f"p{index}", create_owner())[0] == 200
        replica.store_pod(f"p{index}")
        replica.observe(f"p{index}")
    replica.reconcile()
    assert replica.count_gpus() == (2, 2)
    assert json.dumps(replica.read_ledger().reservations["uid-train"].workload_kind) == '"batch/v1/Job"'


def test_several_caps_reserve_for_a_workload_all_or_nothing() -> None:
    second = WHOLE.replace("name: gpus", "name: board").replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 2")
    replica = ReplicaFixture(f"{WHOLE}---\n{second}")
    replica.activate_ledgers()
    code, message = review(replica, create_job(pods=3))
    assert (code, "cap board" in message) == (403, True)
    assert [replica.read_reserved(name) for name in ("gpus", "board")] == [{}, {}]
