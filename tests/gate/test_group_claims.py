"""Claims that the pods of a scheduling group share, under a cap that counts devices: none is counted for each pod.

A Job of Kubernetes 1.37 has a PodGroup of its own unless another controller owns it (getManagementMode in
pkg/controller/job/job_scheduling_manager.go), and each claim of that is made once. Which claims the PodGroup has that
pods name themselves is not known. A Job of another controller has none in 1.37, and may have one in 1.38.
"""

import random
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tallygate.accounting.pod_defaults import create_pod_defaults
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


def _own(job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job of another controller."""
    owner = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "uid-o", "controller": True}
    return job | {"metadata": job["metadata"] | {"ownerReferences": [owner]}}


def _delegate(job: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a Job whose PodGroup comes from a template of a Workload."""
    return job | {"metadata": job["metadata"] | {"annotations": {f"scheduling.k8s.io/{name}": "w"}}}


def _contain(job: dict[str, Any]) -> dict[str, Any]:
    return _create("AppWrapper", "workload.codeflare.dev/v1beta2", {"components": [{"template": job}]})


_SHARING = {
    "a job whose pods name a group": _create_job({}, **_GROUP),
    "a job whose group is that of a template": _delegate(_create_job({}), "group-template-name"),
    "a job whose group is that of a workload": _delegate(_create_job(_SHARED), "workload-name"),
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


def _create_replica(text: str, version: KubernetesVersion | None = None) -> ClaimReplica:
    replica = create_claim_replica(text)
    if version is not None:
        replica.pod_defaults = create_pod_defaults((), {}, version=version)
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


_OWNED = {
    "a cron job of jobs whose group has the claim of their pods": _create_cron_job(_SHARED),
    "an app wrapper of such a job": _contain(_create_job(_SHARED)),
}


@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
@pytest.mark.parametrize("workload", _OWNED.values(), ids=_OWNED)
def test_a_job_of_another_controller_may_share_claims_since_1_38(
    workload: dict[str, Any], version: KubernetesVersion
) -> None:
    replica = _create_replica(_DENY, version)
    if version.minor >= 38:
        (warning,) = _list_warnings(replica, workload)
        assert warning.endswith(_UNKNOWN)
        return
    code, message = review(replica, workload)
    assert (code, "8 nvidia.com/gpu" in message) == (403, True), message


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


def _with_gpus(job: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a Job whose pods have this number of GPUs each."""
    job["spec"]["template"]["spec"]["containers"][0]["resources"] |= {"limits": {"nvidia.com/gpu": str(number)}}
    return job


_WIDE_WHOLE = WHOLE.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 6")


def test_a_job_as_a_whole_reserves_the_claims_that_its_pods_share_once() -> None:
    replica = _create_replica(_WIDE_WHOLE)
    assert _list_warnings(replica, _with_gpus(_create_job(_SHARED), 1)) == []
    assert replica.count_gpus() == (0, 6)


def test_a_job_as_a_whole_is_denied_without_room_for_the_claims_that_its_pods_share() -> None:
    replica = _create_replica(WHOLE)
    code, message = review(replica, _with_gpus(_create_job(_SHARED), 1))
    assert (code, "its 4 pods request 6 nvidia.com/gpu" in message) == (403, True), message
    assert replica.count_gpus() == (0, 0)


@pytest.mark.parametrize("name", ["devices", "unused"])
def test_a_group_makes_its_claims_whether_pods_use_them_or_not(name: str) -> None:
    claims = [{"name": name, "resourceClaimTemplateName": "two"}]
    job = _create_job({"scheduling": {"resourceClaims": [*claims, {"name": "made", "resourceClaimName": "stored"}]}})
    if name == "unused":
        del job["spec"]["template"]["spec"]["resourceClaims"]
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    replica = _create_replica(WHOLE)
    assert review(replica, job) == (200, "")
    assert replica.count_gpus() == (0, 2)


def test_a_job_that_shares_a_claim_of_a_template_that_is_not_seen_is_asked_again_under_a_whole_cap() -> None:
    claims = [{"name": "other", "resourceClaimTemplateName": "unseen"}]
    job = _create_job({"scheduling": {"resourceClaims": claims}})
    code, message = review(_create_replica(WHOLE), job)
    assert (code, "ResourceClaimTemplate unseen" in message) == (429, True), message
    (warning,) = _list_warnings(_create_replica(_DENY), job)
    assert warning.endswith("ResourceClaimTemplate unseen is unknown")


def test_a_cap_denies_a_job_that_can_never_have_its_shared_claim_beside_its_pods() -> None:
    code, message = review(_create_replica(_DENY), _with_gpus(_create_job(_SHARED), 1))
    request = "4 parallel pods with their claims request 6 nvidia.com/gpu"
    expected = f"{request}, cap gpus of this namespace has hard 4: 2 of them can run"
    assert (code, expected in message) == (403, True), message


@pytest.mark.parametrize(("number", "waiting"), [(0, "all of them wait"), (1, "some of them wait")])
def test_a_job_is_warned_of_the_wait_for_its_shared_claim(number: int, waiting: str) -> None:
    replica = _create_replica(_DENY.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 6"))
    assert replica.request_claim(create_claim("c", 300, 5)) == 200
    job = _create_job(_SHARED) if not number else _with_gpus(_create_job(_SHARED), number)
    found = response(replica.admit(job, kind={"group": "batch", "kind": "Job"}, name="train"))
    (warning,) = found["warnings"]
    assert (found["allowed"], waiting in warning) == (True, True), warning


@pytest.mark.parametrize("text", [_DENY, _WIDE_WHOLE])
def test_a_suspended_job_has_its_claims_before_it_starts(text: str) -> None:
    """Resume a Job: its PodGroup and the claims of that were made with it, so that its pods alone are more."""
    replica, job = _create_replica(text.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 6")), _create_job(_SHARED)
    suspended = deepcopy(_with_gpus(job, 1))
    suspended["spec"]["suspend"] = True
    assert review(replica, suspended) == (200, "")
    assert replica.count_gpus() == (0, 0)
    assert replica.request_claim(create_claim("shared", 300, 2)) == 200
    found = response(replica.admit(job, kind={"group": "batch", "kind": "Job"}, name="train", oldObject=suspended))
    assert (found["allowed"], found.get("warnings", [])) == (True, []), found
    assert replica.count_gpus() == (0, 6 if text == _WIDE_WHOLE else 2)


@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
def test_a_job_of_another_controller_needs_its_claims_as_a_whole_before_1_38(version: KubernetesVersion) -> None:
    """Admit a Job whose PodGroup only Kubernetes 1.38 makes: its claims are decided there when they are made."""
    replica = _create_replica(WHOLE, version)
    code, message = review(replica, _own(_create_job(_SHARED)))
    assert (code, "request 8 nvidia.com/gpu" in message) == ((200, False) if version.minor >= 38 else (403, True))
    assert replica.count_gpus() == (0, 0)
    assert review(replica, _own(_create_job({})))[0] == 403


@pytest.mark.parametrize("seed", range(200))
def test_a_job_reserves_what_its_pods_have_alone_for_each_and_shared_claims_once(seed: int) -> None:
    """Compare the reservation of a drawn Job with a sum over its pods and claims."""
    draw = random.Random(seed)  # noqa: S311  # a repeatable draw, not a secret
    devices = {f"t{index}": draw.randint(1, 3) for index in range(3)}
    listed = [{"name": f"c{index}", "resourceClaimTemplateName": draw.choice([*devices])} for index in range(4)]
    own, shared = draw.sample(listed, draw.randint(0, 4)), draw.sample(listed, draw.randint(0, 4))
    pods, gpus, names_group = draw.randint(0, 5), draw.randint(0, 2), draw.random() < 0.2
    containers = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]
    written = {"spec": {"containers": containers, "resourceClaims": own, **(_GROUP if names_group else {})}}
    scheduling = {"resourceClaims": shared} if draw.random() < 0.8 else None
    spec = {"parallelism": pods, "completions": 5, "template": written, "scheduling": scheduling}
    replica = create_claim_replica(WHOLE.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 1000"))
    put_templates(replica.templates, *(template(name, exactly(number)) for name, number in devices.items()))
    warnings = _list_warnings(replica, _create("Job", "batch/v1", spec))
    once = shared if scheduling and not names_group else []
    each = sum(devices[claim["resourceClaimTemplateName"]] for claim in own if claim not in once)
    total = pods * (gpus + each) + sum(devices[claim["resourceClaimTemplateName"]] for claim in once)
    is_unknown = names_group and bool(own)
    assert bool(warnings) is is_unknown
    assert replica.count_gpus() == (0, pods * gpus if is_unknown else total if pods else 0)


def _create_group_claim(name: str, revision: int, number: int) -> Any:
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "g", "controller": True}
    return create_claim(name, revision, number, ownerReferences=[owner])


def test_the_claim_of_a_group_is_charged_once_when_it_is_made() -> None:
    replica = _create_replica(_DENY)
    assert review(replica, _create_job(_SHARED)) == (200, "")
    assert replica.request_claim(_create_group_claim("c1", 300, 2)) == 200
    assert replica.count_gpus() == (0, 2)
    assert replica.request_claim(_create_group_claim("c2", 301, 3)) == 403


@pytest.mark.parametrize("group", [_GROUP, {}])
def test_the_pods_of_a_group_are_admitted_beside_its_claim(group: Mapping[str, Any]) -> None:
    replica = _create_replica(_DENY)
    pod = _create("Pod", "v1", _pods(**group)["spec"])
    found = response(replica.admit(pod, name="train"))
    assert found["allowed"]
    assert [each.endswith(_UNKNOWN) for each in found.get("warnings", ())] == [True] * bool(group)
