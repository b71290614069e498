"""ResourceQuotas of a snapshot in `tallygate check`: what rejects a pod, and which pods of a workload are accepted."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot

QUOTA_KEY = f"requests.{GPU}"
OVER_QUOTA = "TG208"
CLASS = "gpu.example.com"
WAITS = (
    f"3 replicas request 3 {QUOTA_KEY}, quota gpus of this namespace has hard 4, free 2: 1 waits until other pods end"
)


def quota(used: int, hard: int = 4, **spec: Any) -> Object:
    """Return a quota whose used amount is computed."""
    limits = {QUOTA_KEY: f"{hard}"}
    metadata = {"name": "gpus", "namespace": "team-a", "uid": "quota", "resourceVersion": "7"}
    status = {"hard": limits, "used": {QUOTA_KEY: f"{used}"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": limits, **spec}} | {
        "status": status
    }


def new_pod(name: str, gpus: int) -> Object:
    """Return a pod that is applied."""
    container = {"name": "a", "resources": {"limits": {GPU: f"{gpus}"}}}
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def deployment(replicas: int, gpus: int = 1) -> Object:
    """Return a Deployment that is applied."""
    template = {"metadata": {"labels": {"app": "w"}}, "spec": new_pod("", gpus)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "namespace": "team-a"}} | {
        "spec": spec
    }


def check(
    folder: Path, manifests: list[Object], stored: list[Object], codes: Collection[str] = (OVER_QUOTA,)
) -> list[tuple[str, str, str]]:
    """Return the object, level and message of each finding by a quota."""
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    snapshot = write_snapshot(folder, [namespace("team-a"), *stored])
    result = CliRunner().invoke(
        root, ["check", str(folder / "objects.json"), "--snapshot", str(snapshot), "-o", "json"]
    )
    assert result.exit_code in {0, 1}, result.stderr
    findings = json.loads(result.stdout)["findings"]
    return [(each["object"]["name"], each["level"], each["message"]) for each in findings if each["code"] in codes]


def describe_excess(requested: int, used: int, hard: int = 4) -> str:
    """Return the message of the API server."""
    amounts = (f"{QUOTA_KEY}={amount}" for amount in (requested, used, hard))
    return "exceeded quota: gpus, requested: {}, used: {}, limited: {}".format(*amounts)


@pytest.mark.parametrize(
    ("manifests", "stored", "expected"),
    [
        pytest.param([new_pod("p", 2)], [quota(2)], [], id="a pod that fits has no finding"),
        pytest.param(
            [new_pod("p", 3)],
            [quota(2)],
            [("p", "error", describe_excess(3, 2))],
            id="a pod above the quota is rejected",
        ),
        pytest.param(
            [new_pod("p", 3), new_pod("q", 2)],
            [quota(0)],
            [("q", "error", describe_excess(2, 3))],
            id="an earlier pod counts for a later one",
        ),
        pytest.param(
            [new_pod("p", 9), new_pod("q", 2)],
            [quota(0)],
            [("p", "error", describe_excess(9, 0))],
            id="a rejected pod does not count for a later one",
        ),
        pytest.param(
            [new_pod("stored", 3)],
            [quota(4), pod("stored", {GPU: "3"})],
            [],
            id="a pod that is stored is counted already",
        ),
        pytest.param(
            [deployment(3), new_pod("q", 1)],
            [quota(2)],
            [
                (
                    "w",
                    "warning",
                    WAITS,
                ),
                ("q", "error", describe_excess(1, 4)),
            ],
            id="the pods of a workload that are accepted count for a later pod",
        ),
        pytest.param(
            [deployment(2), new_pod("q", 1)],
            [quota(3), pod("w-1", {GPU: "1"}, meta={"labels": {"app": "w"}})],
            [("q", "error", describe_excess(1, 4))],
            id="the stored pods of a workload count once",
        ),
        pytest.param([new_pod("p", 9)], [quota(0, scopes=["BestEffort"])], [], id="a scope that selects other pods"),
        pytest.param([new_pod("p", 9)], [quota(0) | {"status": {}}], [], id="a quota that is not computed yet"),
    ],
)
def test_pods_are_compared_with_quotas(
    tmp_path: Path, manifests: list[Object], stored: list[Object], expected: list[tuple[str, str, str]]
) -> None:
    assert check(tmp_path, manifests, stored) == expected


_DEVICES = f"{CLASS}.deviceclass.resource.k8s.io/devices"


def _device_quota(used: int) -> Object:
    """Return a quota on the devices of a class."""
    body = quota(used)
    body["spec"]["hard"] = body["status"]["hard"] = {_DEVICES: "4"}
    body["status"]["used"] = {_DEVICES: f"{used}"}
    return body


def _template(count: int) -> Object:
    """Return a template of claims for devices."""
    request = {"name": "gpus", "exactly": {"deviceClassName": CLASS, "count": count}}
    metadata = {"name": "gpus", "namespace": "team-a", "uid": "t", "resourceVersion": "5"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata} | {
        "spec": {"spec": {"devices": {"requests": [request]}}}
    }


def _add_claims(body: Object) -> Object:
    """Return a pod or workload whose pods name the template."""
    spec = body["spec"]["template"]["spec"] if "template" in body["spec"] else body["spec"]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    return body


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            new_pod("p", 1),
            f"the claims of this pod request 2 {_DEVICES}, quota gpus of this namespace has hard 4, free 1: the pod "
            "stays pending until pods end or claims are deleted",
            id="a pod is stored, and waits for its claims",
        ),
        pytest.param(
            deployment(1),
            f"1 replica with its claims requests 2 {_DEVICES}, quota gpus of this namespace has hard 4, free 1: 1 "
            "waits until other pods end or claims are deleted",
            id="the claims of the pods of a workload count without a cap",
        ),
    ],
)
def test_quotas_reject_claims_once_the_pod_is_stored(tmp_path: Path, manifest: Object, expected: str) -> None:
    found = check(tmp_path, [_add_claims(manifest)], [_device_quota(3), _template(2)], codes={OVER_QUOTA, "TG213"})
    assert [(level, message) for _, level, message in found] == [("warning", expected)]
