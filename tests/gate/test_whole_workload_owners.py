"""Workloads under a cap with `admit: whole` that others control: one of them reserves, and no amount counts twice."""

from typing import Any

import pytest

from tests.gate.claim_replica import create_claim_replica
from tests.gate.gate_fixture import GPU, SHARED, pod, response
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.gate.test_scale_requests import scale
from tests.gate.test_whole_workloads import WHOLE, create_job, create_owner, request_pod, review
from tests.state.informers.claims import scheduler_claim
from tests.state.informers.pods import pod as stored_pod

JOB_SET = "jobset.x-k8s.io/v1alpha2"
TRAINER = "trainer.kubeflow.org/v1alpha1"
GROUPS = "leaderworkerset.x-k8s.io/v1"


def create_object(kind: str, api_version: str, owner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return an object of a kind, of which the name is that of its kind."""
    name = kind.lower()
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _create_job_set(owner: dict[str, Any] | None = None) -> dict[str, Any]:
    replicated = {"name": "workers", "replicas": 2, "template": {"spec": create_job("x", 2)["spec"]}}
    return create_object("JobSet", JOB_SET, owner, replicatedJobs=[replicated])


@pytest.mark.parametrize(
    "trainer",
    [
        pytest.param({"numNodes": 4, "resourcesPerNode": {"limits": {GPU: "1"}}}, id="states its nodes"),
        pytest.param({"numNodes": 4}, id="leaves the resources of its nodes to its runtime"),
        pytest.param({"resourcesPerNode": {"limits": {GPU: "1"}}}, id="leaves the number of its nodes to its runtime"),
    ],
)
def test_the_job_set_of_a_train_job_reserves_for_its_pods(trainer: dict[str, Any]) -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, create_object("TrainJob", TRAINER, trainer=trainer)) == (200, "")
    assert review(replica, _create_job_set(create_owner("trainjob", "TrainJob", TRAINER))) == (200, "")
    job = create_job("workers-0", 2, create_owner("jobset", "JobSet", JOB_SET))
    assert review(replica, job) == (200, "")
    assert (set(replica.read_ledger().reservations), replica.count_gpus()) == ({"uid-jobset"}, (0, 4))
    assert request_pod(replica, "p0", create_owner("workers-0"))[0] == 200
    assert replica.count_gpus() == (0, 4)


_DRIVER = {
    "name": "driver",
    "replicas": 1,
    "template": {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}},
}


def test_a_job_set_reserves_for_its_jobs_although_one_of_them_requests_nothing() -> None:
    replica, job_set = create_active_replica(WHOLE), _create_job_set()
    job_set["spec"]["replicatedJobs"] = [_DRIVER, *job_set["spec"]["replicatedJobs"]]
    assert review(replica, job_set) == (200, "")
    assert review(replica, create_job("workers-0", 2, create_owner("jobset", "JobSet", JOB_SET))) == (200, "")
    assert (set(replica.read_ledger().reservations), replica.count_gpus()) == ({"uid-jobset"}, (0, 4))


_INVALID_POD = {"containers": [{"name": "c", "resources": {"limits": {GPU: "many"}}}]}
_INVALID = {"name": "invalid", "replicas": 1, "template": {"spec": {"template": {"spec": _INVALID_POD}}}}


def test_a_job_set_reserves_for_its_jobs_although_one_of_them_has_an_invalid_quantity() -> None:
    """Reserve nothing for the pods that the API server rejects; their Job is rejected too."""
    replica, job_set = create_active_replica(WHOLE), _create_job_set()
    job_set["spec"]["replicatedJobs"] = [_INVALID, *job_set["spec"]["replicatedJobs"]]
    assert review(replica, job_set) == (200, "")
    assert review(replica, create_job("workers-0", 2, create_owner("jobset", "JobSet", JOB_SET))) == (200, "")
    assert (set(replica.read_ledger().reservations), replica.count_gpus()) == ({"uid-jobset"}, (0, 4))


def test_a_job_set_whose_pods_have_claims_alone_reserves_for_its_jobs() -> None:
    replica, job_set = create_active_replica(WHOLE), _create_job_set()
    pods = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] = pods
    review(replica, job_set)
    replica.stored.store("jobsets", job_set)
    assert review(replica, create_job("workers-0", 2, create_owner("jobset", "JobSet", JOB_SET))) == (200, "")
    assert "uid-workers-0" not in replica.read_ledger().reservations


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        pytest.param("team-a", "another", id="beside the name of another object"),
        pytest.param("team-b", "train", id="in another namespace"),
    ],
)
def test_a_pod_that_names_the_uid_of_a_job_takes_over_nothing_also_after_a_pod_of_that_job(
    namespace: str, name: str
) -> None:
    replica = ReplicaFixture(SHARED + "  admit: whole\n", ("team-a", "team-b"))
    replica.activate_ledgers()
    assert review(replica, create_job()) == (200, "")
    assert request_pod(replica, "p0", create_owner())[0] == 200
    posing = stored_pod("posing", 0, "1", namespace)
    posing["metadata"]["ownerReferences"] = [create_owner(name, uid="uid-train")]
    found = response(replica.admit(posing, name="pod-posing", namespace=namespace))
    assert (found["allowed"], found["status"]["code"]) == (False, 403)


def test_the_owner_of_a_job_must_be_readable_if_the_job_requests_something() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, _create_job_set()) == (200, "")
    replica.stored.unreadable.add("jobsets")
    owner = create_owner("jobset", "JobSet", JOB_SET)
    code, message = review(replica, create_job("workers-0", 2, owner))
    assert (code, "JobSet team-a/jobset, the controller, cannot be read" in message) == (429, True)
    assert review(replica, create_job("idle", 0, owner)) == (200, "")


def test_an_app_wrapper_reserves_for_the_job_in_it() -> None:
    replica = create_active_replica(WHOLE)
    wrapped = create_job("wrapped", 3)
    wrapper = create_object("AppWrapper", "workload.codeflare.dev/v1beta2", components=[{"template": wrapped}])
    assert review(replica, wrapper) == (200, "")
    owner = create_owner("appwrapper", "AppWrapper", "workload.codeflare.dev/v1beta2")
    assert review(replica, create_job("wrapped", 3, owner)) == (200, "")
    assert (set(replica.read_ledger().reservations), replica.count_gpus()) == ({"uid-appwrapper"}, (0, 3))


def test_a_workload_of_kueue_reserves_nothing_beside_the_job_that_it_is_for() -> None:
    replica = create_active_replica(WHOLE)
    job = create_job("queued", 3, suspend=True)
    assert review(replica, job) == (200, "")
    pods = {"name": "main", "count": 3, "template": job["spec"]["template"]}
    workload = create_object("Workload", "kueue.x-k8s.io/v1beta2", create_owner("queued"), podSets=[pods])
    assert review(replica, workload) == (200, "")
    assert replica.count_gpus() == (0, 0)
    assert review(replica, create_job("queued", 3), oldObject=job) == (200, "")
    assert replica.count_gpus() == (0, 3)


def _create_groups(replicas: int) -> dict[str, Any]:
    return create_object(
        "LeaderWorkerSet", GROUPS, replicas=replicas, leaderWorkerTemplate={"size": 2, "workerTemplate": pod("", 1)}
    )


def _store_chain(replica: ReplicaFixture) -> dict[str, Any]:
    """Store the objects between a LeaderWorkerSet and the workers of its first group; return their controller."""
    leaders = create_object("StatefulSet", "apps/v1", create_owner("leaderworkerset", "LeaderWorkerSet", GROUPS))
    leader = stored_pod("leader", 5, "1", "team-a")
    leader["metadata"]["ownerReferences"] = [create_owner("statefulset", "StatefulSet", "apps/v1")]
    leader["metadata"]["name"] = "leader"
    workers = create_object("StatefulSet", "apps/v1", create_owner("leader", "Pod", "v1", "leader"))
    workers["metadata"] |= {"name": "workers", "uid": "uid-workers"}
    for plural, stored in (("statefulsets", leaders), ("pods", leader), ("statefulsets", workers)):
        replica.stored.store(plural, stored)
    return create_owner("workers", "StatefulSet", "apps/v1")


def test_leaders_and_workers_take_over_from_their_leader_worker_set() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, _create_groups(2)) == (200, "")
    workers = _store_chain(replica)
    assert request_pod(replica, "leader-0", create_owner("statefulset", "StatefulSet", "apps/v1"))[0] == 200
    assert request_pod(replica, "worker-0", workers)[0] == 200
    assert replica.count_gpus() == (0, 4)
    assert replica.read_ledger().reservations["uid-leaderworkerset"].compute_reserved() == {GPU: 2}


def _scale(replica: ReplicaFixture, since: int, to: int) -> tuple[int, str]:
    old, new = (
        scale(number) | {"metadata": {"name": "leaderworkerset", "uid": "uid-leaderworkerset", "resourceVersion": "7"}}
        for number in (since, to)
    )
    request: dict[str, Any] = {
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "leaderworkerset.x-k8s.io", "version": "v1", "resource": "leaderworkersets"},
        "subResource": "scale",
        "name": "leaderworkerset",
        "oldObject": old,
    }
    found = response(replica.admit(new, **request))
    return (200, "") if found["allowed"] else (found["status"]["code"], found["status"]["message"])


def test_a_scale_of_a_leader_worker_set_reserves_for_the_groups_that_it_adds() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, _create_groups(1)) == (200, "")
    assert replica.count_gpus() == (0, 2)
    code, message = _scale(replica, 1, 3)
    assert (code, "admits a LeaderWorkerSet as a whole or not at all: its 6 pods" in message) == (403, True)
    assert _scale(replica, 1, 2) == (200, "")
    assert replica.count_gpus() == (0, 4)


def test_the_claim_that_the_scheduler_makes_for_a_pod_takes_over_nothing_beside_its_pod() -> None:
    replica = create_claim_replica(WHOLE)
    assert review(replica, create_job()) == (200, "")
    assert request_pod(replica, "p0", create_owner())[0] == 200
    stored = replica.store_pod("p0")
    stored["metadata"]["ownerReferences"] = [create_owner()]
    replica.stored.store("pods", stored)
    made, scheduler = scheduler_claim("c0", 0, "p0"), {"username": "system:kube-scheduler"}
    assert replica.request_claim(made, userInfo=scheduler) == 429, "the watch does not show its pod yet"
    replica.observe("p0")
    assert replica.request_claim(made, userInfo=scheduler) == 200
    assert replica.read_ledger().reservations["uid-train"].compute_reserved() == {GPU: 3}
    assert [request_pod(replica, f"p{index}", create_owner())[0] for index in range(1, 4)] == [200] * 3


def test_a_scale_of_a_leader_worker_set_that_cannot_be_read_is_not_allowed() -> None:
    replica = create_active_replica(WHOLE)
    assert review(replica, _create_groups(1)) == (200, "")
    replica.stored.unreadable.add("leaderworkersets")
    code, message = _scale(replica, 1, 2)
    assert (code, "LeaderWorkerSet team-a/leaderworkerset, which starts more pods, cannot be read" in message) == (
        429,
        True,
    )
    assert _scale(create_active_replica(WHOLE.replace("  admit: whole\n", "")), 1, 2) == (200, "")
