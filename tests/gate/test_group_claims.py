"""Claims that the pods of a scheduling group may share, under a cap that counts devices: none is counted for each pod.

A Job of Kubernetes 1.37 has a PodGroup of its own unless another controller owns it (getManagementMode in
pkg/controller/job/job_scheduling_manager.go), and the claims that both name are made once. The feature gates for it are
off by default, and the API server shows no more than one of them: so the claims are not known before they are made.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.accounting.claims import exactly
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, response
from tests.gate.test_whole_workloads import WHOLE, review
from tests.state.informers.claim_templates import put_templates, template
from tests.state.informers.claims import create_claim

_DENY = CAP + "  workloads: deny\n"  # hard: 4 GPUs
_UNKNOWN = "the claims that templates make were not compared with caps: the pods of a group may share their claims"
_CLAIMS = [{"name": "devices", "resourceClaimTemplateName": "two"}]
_SHARED: Mapping[str, Any] = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 4}}, "resourceClaims": _CLAIMS}}
_ALONE: Mapping[str, Any] = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
_GROUP: Mapping[str, Any] = {"schedulingGroup": {"podGroupName": "gang"}}


def _create(kind: str, api_version: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": "train", "uid": "uid-train", "resourceVersion": "5"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": deepcopy(dict(spec))}


def _pods(**spec: Any) -> dict[str, Any]:
    """Return a template with a claim of two devices."""
    containers = [{"name": "c", "resources": {"claims": [{"name": "devices"}]}}]
    return {"spec": {"containers": containers, "resourceClaims": _CLAIMS, **spec}}


def _job_spec(scheduling: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return {"parallelism": 4, "completions": 4, "template": _pods(**spec), **scheduling}


def _create_job(scheduling: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    return _create("Job", "batch/v1", _job_spec(scheduling, **spec))


def _create_cron_job(scheduling: Mapping[str, Any]) -> dict[str, Any]:
    return _create("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {"spec": _job_spec(scheduling)}})


def _create_job_set(scheduling: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    replicated = {"name": "w", "replicas": 1, "template": {"spec": _job_spec(scheduling, **spec)}}
    return _create("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [replicated]})


def _create_deployment(**spec: Any) -> dict[str, Any]:
    return _create("Deployment", "apps/v1", {"replicas": 4, "template": _pods(**spec)})


_SHARING = {
    "a job whose group has the claim of its pods": _create_job(_SHARED),
    "a job whose pods name a group": _create_job({}, **_GROUP),
    "a cron job of such jobs": _create_cron_job(_SHARED),
    "a job set whose pods name a group": _create_job_set({}, **_GROUP),
    "a deployment whose pods name a group": _create_deployment(**_GROUP),
}
_SEPARATE = {
    "a job": _create_job({}),
    "a job whose group has no claims": _create_job(_ALONE),
    "a cron job": _create_cron_job({}),
    "a job set, whose jobs get no group of their own": _create_job_set(_SHARED),
    "a deployment": _create_deployment(),
}
_STARTS_TOGETHER = frozenset({"Job", "JobSet"})


def _create_replica(text: str) -> ClaimReplica:
    replica = create_claim_replica(text)
    put_templates(replica.templates, template("two", exactly(2)))
    return replica


def _list_warnings(replica: ClaimReplica, workload: dict[str, Any]) -> list[str]:
    kind = {"group": workload["apiVersion"].rpartition("/")[0], "kind": workload["kind"]}
    found = response(replica.admit(workload, kind=kind, name="train"))
    assert found["allowed"], found
    return [each for each in found.get("warnings", ()) if "claims" in each]


@pytest.mark.parametrize("text", [_DENY, WHOLE])
@pytest.mark.parametrize("workload", _SHARING.values(), ids=_SHARING)
def test_claims_that_pods_may_share_are_unknown(workload: dict[str, Any], text: str) -> None:
    replica = _create_replica(text)
    (warning,) = _list_warnings(replica, workload)
    assert warning.endswith(_UNKNOWN)
    assert replica.count_gpus() == (0, 0)


@pytest.mark.parametrize("workload", _SEPARATE.values(), ids=_SEPARATE)
def test_claims_that_each_pod_has_alone_are_counted_for_each(workload: dict[str, Any]) -> None:
    code, message = review(_create_replica(_DENY), workload)
    assert (code, "8 nvidia.com/gpu" in message) == (403, True), message


@pytest.mark.parametrize(
    "workload", [pytest.param(each, id=title) for title, each in _SEPARATE.items() if each["kind"] in _STARTS_TOGETHER]
)
def test_a_workload_as_a_whole_needs_the_claims_that_each_pod_has_alone(workload: dict[str, Any]) -> None:
    code, message = review(_create_replica(WHOLE), workload)
    assert (code, "request 8 nvidia.com/gpu" in message) == (403, True), message


def test_a_job_as_a_whole_reserves_what_its_pods_request_beside_the_claims_that_they_share() -> None:
    replica, job = _create_replica(WHOLE), _create_job(_SHARED)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] |= {"limits": {"nvidia.com/gpu": "1"}}
    (warning,) = _list_warnings(replica, job)
    assert warning.endswith(_UNKNOWN)
    assert replica.count_gpus() == (0, 4)


@pytest.mark.parametrize("text", [_DENY, WHOLE])
def test_the_claim_of_a_group_is_charged_once_when_it_is_made(text: str) -> None:
    replica = _create_replica(text)
    assert review(replica, _create_job(_SHARED)) == (200, "")
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "g", "controller": True}
    assert replica.request_claim(create_claim("c1", 300, 2, ownerReferences=[owner])) == 200
    assert replica.count_gpus() == (0, 2)
    assert replica.request_claim(create_claim("c2", 301, 3, ownerReferences=[owner])) == 403


@pytest.mark.parametrize("group", [_GROUP, {}])
def test_the_pods_of_a_group_are_admitted_beside_its_claim(group: Mapping[str, Any]) -> None:
    replica = _create_replica(_DENY)
    pod = _create("Pod", "v1", _pods(**group)["spec"])
    found = response(replica.admit(pod, name="train"))
    assert found["allowed"]
    assert [each.endswith(_UNKNOWN) for each in found.get("warnings", ())] == [True] * bool(group)
