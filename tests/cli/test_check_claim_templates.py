"""Claims that templates make, in `tallygate check`: templates of manifests and snapshots, and what is not known."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.cap_checks import CAP, check, claim, device_class, namespaces, pod, workload

CLUSTER = [*namespaces(a="yes"), device_class()]


def template(count: int, *, namespace: str | None = "a", version: str = "v1") -> dict[str, Any]:
    """Return a template of claims for devices."""
    metadata = {"name": "gpus"} | ({"namespace": namespace} if namespace else {})
    head = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaimTemplate", "metadata": metadata}
    return {**head, "spec": {"spec": claim("", count)["spec"]}}


def claiming_pod(name: str = "p", namespace: str | None = "a") -> dict[str, Any]:
    """Return a pod with a claim from the template."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    resources = {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    spec = {
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
        "containers": [{"name": "c", "resources": resources}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def claiming_workload(kind: str, **spec: Any) -> dict[str, Any]:
    """Return a workload of such pods."""
    body = workload(kind, 0, {"app": "w"}, **spec)
    body["spec"]["template"]["spec"] = claiming_pod()["spec"]
    return body


def sharing_job(pods: int) -> dict[str, Any]:
    """Return a Job whose pods share the claim of their PodGroup."""
    scheduling = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]}
    job = claiming_workload("Job", parallelism=pods, completions=pods, scheduling=scheduling)
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return job


def with_gpus(body: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the pod with requests for GPUs besides its claims."""
    resources = pod("", count)["spec"]["containers"][0]["resources"]
    return {**body, "spec": {**body["spec"], "containers": [{"name": "c", "resources": resources}]}}


UNKNOWN = [("note", "TG408")]


@pytest.mark.parametrize(
    ("manifests", "stored", "findings"),
    [
        pytest.param([claiming_pod(), template(8)], [], [], id="a template after its pod is known"),
        pytest.param([claiming_pod()], [template(9)], [("error", "TG209")], id="a stored template is known"),
        pytest.param([claiming_pod(), template(8)], [template(9)], [], id="a manifest replaces a stored template"),
        pytest.param(
            [claiming_pod()], [template(8, namespace="b")], UNKNOWN, id="another namespace has other templates"
        ),
        pytest.param(
            [claiming_pod(namespace=None), template(9, namespace=None)],
            [*namespaces(default="yes")],
            [("error", "TG209")],
            id="a template without a namespace is in the default one",
        ),
        pytest.param(
            [claiming_pod(), template(9, version="v1beta1")],
            [],
            [*UNKNOWN, ("warning", "TG410")],
            id="a template of an older version is not known",
        ),
        pytest.param(
            [claiming_pod(), {**template(9), "spec": []}],
            [],
            [*UNKNOWN, ("error", "TG404")],
            id="a template that no API server could decode is not known",
        ),
        pytest.param(
            [claiming_workload("DaemonSet")],
            [template(9)],
            [("error", "TG204")],
            id="no pod of a workload can ever run",
        ),
        pytest.param(
            [with_gpus(claiming_pod(), 4), template(4), pod("q", 1)],
            [],
            [("error", "TG201")],
            id="the claims of a pod are charged besides its own requests",
        ),
        pytest.param(
            [claiming_workload("StatefulSet", replicas=2), claiming_pod()],
            [template(3)],
            [("warning", "TG210")],
            id="the claims of a workload are charged before a later pod",
        ),
        pytest.param([sharing_job(6)], [template(8)], [], id="a claim that the pods of a job share counts once"),
        pytest.param(
            [sharing_job(6)], [template(9)], [("error", "TG204")], id="a claim that the pods of a job share never fits"
        ),
        pytest.param(
            [sharing_job(6), claiming_pod()],
            [template(5)],
            [("warning", "TG210")],
            id="a claim that the pods of a job share is charged before a later pod",
        ),
        pytest.param([sharing_job(6)], [], UNKNOWN, id="a job may share a claim of an unknown template"),
        pytest.param(
            [claiming_workload("StatefulSet", replicas=3)], [], UNKNOWN, id="a workload may name an unknown template"
        ),
        pytest.param([claiming_pod()], [claiming_pod()], [], id="a stored pod has its claims already"),
        pytest.param(
            [{**workload("PodTemplate", 0, {}), "template": {"spec": claiming_pod()["spec"]}}],
            [],
            [],
            id="a pod template makes no pods and no claims",
        ),
    ],
)
def test_claims_of_templates_are_judged_with_their_pod(
    tmp_path: Path, manifests: list[dict[str, Any]], stored: list[dict[str, Any]], findings: list[tuple[str, str]]
) -> None:
    found = [each[:2] for each in check(tmp_path, manifests, [*CLUSTER, *stored])]
    assert sorted(found) == sorted(findings)


def test_a_cap_that_ignores_workloads_warns_of_no_waiting_claims(tmp_path: Path) -> None:
    """Charge the pod alone then."""
    manifests = [claiming_pod("p"), claiming_pod("q"), claim("c", 4), claim("d", 4)]
    found = check(tmp_path, manifests, [*CLUSTER, template(5)], cap=CAP + "  workloads: ignore\n")
    assert [each[1] for each in found] == ["TG201", "TG201"]
    assert "reserved 5, hard 8" in found[0][2]


def test_a_soft_limit_counts_a_pod_and_its_claims_once(tmp_path: Path) -> None:
    found = check(tmp_path, [claiming_pod()], [*CLUSTER, template(5)], cap=CAP + "  soft: {nvidia.com/gpu: 4}\n")
    assert [each[:2] for each in found] == [("warning", "TG202")]
    assert "charged 5 nvidia.com/gpu, soft 4" in found[0][2]


@pytest.mark.parametrize(("count", "exit_code"), [(None, 0), (8, 0), (5, 1)])
def test_strict_fails_for_waiting_claims_and_not_for_unknown_ones(
    tmp_path: Path, count: int | None, exit_code: int
) -> None:
    """Treat unknown claims as everything that is not known: a note."""
    known = [] if count is None else [template(count)]
    check(tmp_path, [claiming_pod("p"), *([claiming_pod("q")] if count == 5 else [])], [*CLUSTER, *known])
    arguments = ["check", "--strict", "--policies", str(tmp_path / "cap.yaml"), str(tmp_path / "all.json")]
    assert CliRunner().invoke(root, [*arguments, "--snapshot", str(tmp_path / "snapshot")]).exit_code == exit_code
