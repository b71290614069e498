"""Claims of a Job's group, as the real controllers of Kubernetes 1.37 make them where its feature gates are on."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Object, api
from e2e.claims import GPU, ROOT, claim, claim_template, claiming_pod, exactly, run_claim_gate
from e2e.command_output import run_tallygate
from e2e.gates.process import GateProcess
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.local.releases import select_release
from e2e.ports import NotHereError, Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_GATES = "GenericWorkload=true,WorkloadWithJob=true,DRAWorkloadResourceClaims=true"
_SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: four}}
spec:
  namespaces: {{selector: {{matchLabels: {{gpus: four}}}}}}
  hard: {{{GPU}: 4}}
  admit: whole
"""
_CLAIM = {"name": "gpu", "resourceClaimTemplateName": "two-gpus"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a control plane with the feature gates, which are off by default."""
    if select_release(os.environ).minor < "1.37":
        raise NotHereError("it takes feature gates that Kubernetes has since 1.37")
    with LocalCluster((_SERVED,), _GATES) as cluster:
        add_nodes(cluster, node("one", {}))
        gate = GateProcess(tmp_path_factory.mktemp("groups") / "none")
        yield Site(cluster, gate, "one", "example.com/none:1")


@pytest.fixture(scope="module")
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster, on a node with eight devices."""
    with run_claim_gate(site, tmp_path_factory.mktemp("groups") / "gate", {"four.yaml": _POLICIES}, 8) as gate:
        yield gate


@pytest.fixture
def dev(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use four devices, and uses none."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, gpus="four") as made:
        until("a claim is accepted", lambda: made.create(claim("opens", exactly(2)), dry=True).is_done, _WITHIN)
        assert made.create(claim_template("two-gpus", exactly(2))).is_done
        yield made


def _create_job(image: str, name: str, pods: int, **spec: Any) -> Object:
    template = {"spec": claiming_pod(image, name, resourceClaimTemplateName="two-gpus")["spec"]}
    metadata = {"name": name}
    spec = {"parallelism": pods, "completions": pods, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _create_waiting_job(image: str, name: str, pods: int, **spec: Any) -> Object:
    """Return a Job whose pods fit on no node.

    KWOK ends a Job's pod as soon as it runs, and an ended pod loses its claim: the claims of several pods would be
    there together for half a second at best, and on a busy machine never.
    """
    job = _create_job(image, name, pods, **spec)
    job["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/node": "none"}
    return job


def _list_owners(site: Site, namespace: str) -> list[str]:
    """Return the kind of the owner of each claim."""
    claims = api(site.cluster.kubeconfig).items(f"{ROOT}/namespaces/{namespace}/resourceclaims")
    return [each["kind"] for every in claims for each in every["metadata"].get("ownerReferences", ())]


def _count_pods(site: Site, namespace: str) -> int:
    return len(api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods"))


_SHARED = {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 8}}, "resourceClaims": [_CLAIM]}}


def test_eight_pods_of_a_job_share_the_claim_of_their_group_under_a_cap_that_admits_whole(
    site: Site, dev: Tenant
) -> None:
    answer = dev.create(_create_job(site.image, "shared", 8, **_SHARED))
    assert answer.is_done, answer.rejection
    assert "claims" not in answer.messages
    until("all pods exist", lambda: _count_pods(site, dev.namespace) == 8, _WITHIN)
    until("they have their claim", lambda: bool(_list_owners(site, dev.namespace)), _WITHIN)
    assert _list_owners(site, dev.namespace) == ["PodGroup"]
    until("two devices are left", lambda: dev.create(claim("rest", exactly(2)), dry=True).is_done, _WITHIN)
    assert "used" in dev.create(claim("more", exactly(3)), dry=True).rejection


def test_a_job_is_denied_without_room_for_the_claim_of_its_group(site: Site, dev: Tenant) -> None:
    assert dev.create(claim("three", exactly(3))).is_done
    refused = dev.create(_create_job(site.image, "late", 8, **_SHARED)).rejection
    assert f"its 8 pods request 2 {GPU}" in refused
    assert dev.kubectl("delete", "resourceclaim", "three").returncode == 0
    until("there is room", lambda: dev.create(_create_job(site.image, "late", 8, **_SHARED)).is_done, _WITHIN)
    more = dev.create(claim("more", exactly(3)), dry=True).rejection
    assert "used" in more, more
    until("it has its claim", lambda: _list_owners(site, dev.namespace) == ["PodGroup"], _WITHIN)


def test_a_suspended_job_starts_beside_the_claim_that_its_group_has_already(site: Site, dev: Tenant) -> None:
    suspended = dev.create(_create_job(site.image, "later", 8, suspend=True, **_SHARED))
    assert suspended.is_done, suspended.rejection
    until("its group has a claim", lambda: _list_owners(site, dev.namespace) == ["PodGroup"], _WITHIN)
    assert dev.create(claim("rest", exactly(2))).is_done
    resumed = dev.kubectl("patch", "job", "later", "--patch", '{"spec": {"suspend": false}}')
    assert resumed.returncode == 0, resumed.stderr
    until("all pods exist", lambda: _count_pods(site, dev.namespace) == 8, _WITHIN)
    assert _list_owners(site, dev.namespace) == ["PodGroup"]


def _list_messages(site: Site, namespace: str, job: str) -> list[str]:
    """Return what the scheduler says of the pods of a Job that wait."""
    pods = api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    conditions = [
        condition
        for pod in pods
        if pod["metadata"]["labels"]["job-name"] == job
        for condition in pod["status"].get("conditions", ())
    ]
    return [each["message"] for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]


def _find_result(site: Site, namespace: str, job: str) -> str:
    """Return whether the scheduler has found nodes for the PodGroup of a Job; empty before it has tried."""
    groups = api(site.cluster.kubeconfig).items(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups")
    conditions = [
        condition
        for group in groups
        if group["metadata"]["name"].startswith(f"{job}-")
        for condition in group.get("status", {}).get("conditions", ())
    ]
    return next((each["status"] for each in conditions if each["type"] == "PodGroupInitiallyScheduled"), "")


def test_the_pods_of_a_job_start_as_predicted(site: Site, dev: Tenant, tmp_path: Path) -> None:
    """Let three pods share a claim, and five others ask for more cpu than the nodes have: all of these wait.

    The scheduler binds the pods with the claim at once, and tries those again that it cannot add to the claim then. By
    that time the first one has ended here, and the others do not reach the quorum: the result is that of the group.
    """
    gang: Object = {"schedulingPolicy": {"gang": {}}}
    together = _create_job(site.image, "together", 3, scheduling={**gang, "resourceClaims": [_CLAIM]})
    large = _create_job(site.image, "large", 5, scheduling=gang)
    template = large["spec"]["template"]["spec"]
    template.pop("resourceClaims")
    template["containers"][0]["resources"] = {"requests": {"cpu": "20"}}
    (tmp_path / "jobs.json").write_text("\n".join(map(json.dumps, (together, large))))
    options = ("-n", dev.namespace, "-o", "json", "--kubeconfig", str(site.cluster.kubeconfig))
    found = run_tallygate(site.cluster, "predict", str(tmp_path / "jobs.json"), *options, "--feature-gates", _GATES)
    first, second = json.loads(found.stdout)["items"]
    assert (first["verdict"], second["verdict"]) == ("fits now", "not now"), found.stdout
    for job in (together, large):
        assert dev.create(job).is_done
    until("one group has nodes", lambda: _find_result(site, dev.namespace, "together") == "True", _WITHIN)
    until("the other one has none", lambda: _find_result(site, dev.namespace, "large") == "False", _WITHIN)
    until("its pods wait", lambda: len(_list_messages(site, dev.namespace, "large")) == 5, _WITHIN)
    assert second["message"] in _list_messages(site, dev.namespace, "large")


def test_a_job_without_such_a_claim_is_counted_for_each_pod(site: Site, dev: Tenant) -> None:
    refused = dev.create(_create_job(site.image, "separate", 8)).rejection
    assert f"its 8 pods request 16 {GPU}" in refused
    assert dev.create(_create_waiting_job(site.image, "small", 2)).is_done
    until("each pod has its claim", lambda: _list_owners(site, dev.namespace) == ["Pod", "Pod"], _WITHIN)


def test_a_job_of_another_controller_gets_no_group_and_its_pods_have_a_claim_each(site: Site, dev: Tenant) -> None:
    job = _create_waiting_job(site.image, "x", 2, **_SHARED)
    job["spec"]["scheduling"]["schedulingPolicy"] = {"basic": {}}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job["spec"]}}
    assert dev.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}).is_done
    made = dev.kubectl("create", "job", "now", "--from=cronjob/c")
    assert made.returncode == 0, made.stderr
    until("the pods have claims", lambda: _list_owners(site, dev.namespace) == ["Pod", "Pod"], _WITHIN)
