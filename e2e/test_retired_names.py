"""`tallygate migrate opaque-resources` on nodes of KWOK: a Deployment goes through the written steps."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.installing import install_temporarily
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.pods import make_deployment
from e2e.ports import Cluster, Site
from e2e.waiting import until

_OLD = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_NEW = "example.com/bananas"
_WITHIN = 240.0  # seconds, for a rollout
_REPLICAS = 2  # with one more of a rollout, and one that ends, they fill both nodes
_CAP = f"""\
# the fruit of a team
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: fruit}}
spec:
  hard:
    {_OLD}: 8  # of the whole team
"""
_STEPS = ("1-accept-both", "2-advertise-both", "3-request-both", "4-request-new", "5-withdraw-old")


@pytest.fixture
def pool(cluster: Cluster) -> Iterator[str]:
    """Create two nodes with four bananas each and a label of the case's own, and delete them after the case."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("its nodes are made of KWOK")
    pool = f"pool-{uuid4().hex[:8]}"
    made = [node(f"{pool}-{number}", {_OLD: "4"}) for number in range(2)]
    for each in made:
        each["metadata"]["labels"]["pool"] = pool
    add_nodes(cluster, *made)
    client = api(cluster.kubeconfig)
    nodes = "/api/v1/nodes"
    until(
        "the nodes have no taints",
        lambda: not any(each["spec"].get("taints") for each in client.items(nodes, labelSelector=f"pool={pool}")),
        _WITHIN,
    )
    yield pool
    for each in made:
        api(cluster.kubeconfig).delete(f"/api/v1/nodes/{each['metadata']['name']}")


def _create(site: Site, namespace: str, pool: str) -> None:
    """Create a quota, a LimitRange and a Deployment of two pods with two bananas each.

    The quota has room for pods that a rollout has ended and that it still counts.
    """
    client, path = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace}"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "fruit"}}
    client.create(f"{path}/resourcequotas", {**quota, "spec": {"hard": {f"requests.{_OLD}": "16"}}})
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "fruit"}}
    client.create(f"{path}/limitranges", {**limits, "spec": {"limits": [{"type": "Container", "max": {_OLD: "3"}}]}})
    container = {"name": "main", "image": site.image, "resources": {"limits": {_OLD: "2"}, "requests": {_OLD: "2"}}}
    spec = {"nodeSelector": {"pool": pool}, "containers": [container], "terminationGracePeriodSeconds": 0}
    deployment = make_deployment("peel", _REPLICAS, spec)
    client.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)


def _has_rolled(cluster: Cluster, namespace: str) -> Callable[[], bool]:
    """Return whether all pods of the Deployment are of its present template, and no other one is left."""

    def is_so() -> bool:
        client = api(cluster.kubeconfig)
        deployment = client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/peel")
        status = deployment.get("status", {})
        return (
            status.get("observedGeneration") == deployment["metadata"]["generation"]
            and status.get("updatedReplicas") == status.get("availableReplicas") == _REPLICAS
            and len(client.items(f"/api/v1/namespaces/{namespace}/pods")) == _REPLICAS
        )

    return is_so


def _list_failures(cluster: Cluster, namespace: str) -> list[str]:
    """Return the messages of all events of pods that found no node, or were denied."""
    events: list[Object] = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/events")
    return [each["message"] for each in events if each["reason"] in {"FailedScheduling", "FailedCreate"}]


def _run_script(cluster: Cluster, script: Path) -> None:
    done = _try_script(cluster, script)
    assert done.returncode == 0, done.stderr


def _try_script(cluster: Cluster, script: Path) -> "subprocess.CompletedProcess[str]":
    programs = f"{cluster.kubectl_program.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603  a script that the command has just written
        ["/bin/sh", str(script), "--kubeconfig", str(cluster.kubeconfig)],
        env={**os.environ, **cluster.environment, "PATH": programs},
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN,
    )


def _migrate(cluster: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    options = ("--kubeconfig", str(cluster.kubeconfig), "--domain", "example.com")
    return run_tallygate(cluster, "migrate", "opaque-resources", *options, *arguments)


def _list_left(cluster: Cluster, namespace: str, pool: str) -> list[dict[str, Any]]:
    """Return the uses that are left in the namespace and the nodes of a case."""
    items: list[dict[str, Any]] = json.loads(_migrate(cluster, "-o", "json").stdout)["items"]
    return [each for each in items if f" {namespace}/" in each["object"] or each["object"].startswith(f"Node {pool}-")]


def _read_names(cluster: Cluster, namespace: str, pool: str) -> dict[str, Any]:
    """Return what the objects have by both names."""
    client = api(cluster.kubeconfig)
    nodes = client.items("/api/v1/nodes", labelSelector=f"pool={pool}")
    pods = client.items(f"/api/v1/namespaces/{namespace}/pods")
    quota = client.get(f"/api/v1/namespaces/{namespace}/resourcequotas/fruit")
    limits = client.get(f"/api/v1/namespaces/{namespace}/limitranges/fruit")
    return {
        "nodes": [_select(each["status"]["allocatable"]) for each in nodes],
        "pods": [_select(each["spec"]["containers"][0]["resources"]["limits"]) for each in pods],
        "quota": quota["spec"]["hard"],
        "limits": limits["spec"]["limits"][0]["max"],
    }


def _select(amounts: Object) -> Object:
    return {name: amount for name, amount in amounts.items() if name in {_OLD, _NEW}}


def test_a_deployment_goes_through_the_steps_and_never_waits(
    site: Site, namespace: str, pool: str, tmp_path: Path
) -> None:
    cluster = site.cluster
    _create(site, namespace, pool)
    until("all pods run", _has_rolled(cluster, namespace), _WITHIN)
    steps = tmp_path / "steps"
    written = _migrate(cluster, "--write", str(steps))
    assert written.returncode == 1, written.stderr
    both = {_OLD: "2", _NEW: "2"}
    pods = [{_OLD: "2"}, {_OLD: "2"}, both, {_NEW: "2"}, {_NEW: "2"}]
    nodes = [{_OLD: "4"}, *[{_OLD: "4", _NEW: "4"}] * 3, {_NEW: "4"}]
    for number, name in enumerate(_STEPS):
        assert min(each["step"] for each in _list_left(cluster, namespace, pool)) == number + 1
        _run_script(cluster, steps / name / "apply.sh")
        until(f"the rollout of {name} ends", _has_rolled(cluster, namespace), _WITHIN)
        now = _read_names(cluster, namespace, pool)
        assert now["pods"] == [pods[number]] * _REPLICAS
        assert now["nodes"] == [nodes[number]] * 2
        assert _list_failures(cluster, namespace) == []
    assert _list_left(cluster, namespace, pool) == []
    assert now["quota"] == {f"requests.{_NEW}": "16"}
    assert now["limits"] == {_NEW: "3"}


def test_a_pod_without_a_controller_is_created_again(site: Site, namespace: str, pool: str, tmp_path: Path) -> None:
    cluster, path = site.cluster, f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "main", "image": site.image, "resources": {"limits": {_OLD: "4"}, "requests": {_OLD: "4"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}}
    client = api(cluster.kubeconfig)
    spec = {"nodeSelector": {"pool": pool}, "containers": [container], "terminationGracePeriodSeconds": 0}
    first = client.create(path, {**pod, "spec": spec})["metadata"]["uid"]

    def is_running() -> bool:
        return bool(client.get(f"{path}/alone").get("status", {}).get("phase") == "Running")

    until("the pod runs", is_running, _WITHIN)
    steps = tmp_path / "steps"
    assert _migrate(cluster, "--write", str(steps)).returncode == 1
    for script in ("2-advertise-both/apply.sh", "3-request-both/recreate.sh", "4-request-new/recreate.sh"):
        _run_script(cluster, steps / script)
        until("the pod runs", is_running, _WITHIN)
    last = client.get(f"{path}/alone")
    assert last["metadata"]["uid"] != first
    assert last["spec"]["containers"][0]["resources"]["limits"] == {_NEW: "4"}
    _run_script(cluster, steps / "5-withdraw-old/apply.sh")
    assert _list_left(cluster, namespace, pool) == []


def test_a_step_is_refused_while_pods_request_the_old_name_alone(
    site: Site, namespace: str, pool: str, tmp_path: Path
) -> None:
    """Try steps 4 and 5 beside a pod without a controller: they change nothing until it has ended."""
    cluster, path = site.cluster, f"/api/v1/namespaces/{namespace}/pods"
    _create(site, namespace, pool)
    container = {"name": "main", "image": site.image, "resources": {"limits": {_OLD: "1"}, "requests": {_OLD: "1"}}}
    spec = {"nodeSelector": {"pool": pool}, "containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": spec}
    api(cluster.kubeconfig).create(path, pod)
    steps = tmp_path / "steps"
    assert _migrate(cluster, "--write", str(steps)).returncode == 1
    for name in _STEPS[:3]:
        _run_script(cluster, steps / name / "apply.sh")
    until("the rollout ends", lambda: len(_list_with_both(cluster, namespace)) == _REPLICAS, _WITHIN)
    before = _read_names(cluster, namespace, pool)
    for script in ("4-request-new/apply.sh", "4-request-new/recreate.sh", "5-withdraw-old/apply.sh"):
        done = _try_script(cluster, steps / script)
        assert done.returncode == 1
        assert "refused, and nothing was changed: these pods request an old name" in done.stderr
        assert f"{namespace}/alone" in done.stderr.splitlines()
        assert (f"{namespace}/peel" in done.stderr) is script.startswith("5")
    assert _read_names(cluster, namespace, pool) == before
    api(cluster.kubeconfig).delete(f"{path}/alone")
    until("the pod is deleted", _has_rolled(cluster, namespace), _WITHIN)
    _run_script(cluster, steps / "4-request-new" / "apply.sh")
    until("the rollout ends", _has_rolled(cluster, namespace), _WITHIN)
    _run_script(cluster, steps / "5-withdraw-old" / "apply.sh")
    assert _list_left(cluster, namespace, pool) == []


def _list_with_both(cluster: Cluster, namespace: str) -> list[Object]:
    """Return the pods that request both names, if no other pod of the Deployment is left."""
    pods = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    limits = [each["spec"]["containers"][0].get("resources", {}).get("limits") for each in pods]
    both = [each for each in limits if each and _NEW in each]
    return both if len(pods) == len(both) + 1 else []


def _list_locations(cluster: Cluster) -> list[str]:
    return [each["location"] for each in json.loads(_migrate(cluster, "-o", "json").stdout)["items"]]


def test_the_policies_that_the_gate_mounts_get_the_new_names(site: Site, tmp_path: Path) -> None:
    """Take the shipped manifests, with one policy more in their ConfigMap, through the first and the last step."""
    cluster = site.cluster
    client = api(cluster.kubeconfig)
    with install_temporarily(cluster, site.image) as installed:
        path = f"/api/v1/namespaces/{installed.namespace}/configmaps/{installed.policies}"
        client.patch(path, {"data": {"fruit.yaml": _CAP}})
        location, steps = f"configmap/{installed.policies}/fruit.yaml:7:5", tmp_path / "steps"
        until("the objects of other cases are deleted", lambda: _list_locations(cluster) == [location], _WITHIN)
        written = _migrate(cluster, "--write", str(steps), "-o", "json")
        (listed,) = json.loads(written.stdout)["items"]
        assert (listed["object"], listed["step"]) == ("NamespaceCap fruit", 1)
        texts = [_CAP]
        for name, script in ((_STEPS[0], "apply.sh"), (_STEPS[4], "apply.sh"), (_STEPS[4], "back.sh")):
            _run_script(cluster, steps / name / script)
            texts.append(client.get(path)["data"]["fruit.yaml"])
        both = _CAP + f"    {_NEW}: 8  # of the whole team\n"
        assert texts == [_CAP, both, _CAP.replace(_OLD, _NEW), both]


def test_each_step_can_be_reverted(site: Site, namespace: str, pool: str, tmp_path: Path) -> None:
    cluster = site.cluster
    _create(site, namespace, pool)
    until("all pods run", _has_rolled(cluster, namespace), _WITHIN)
    before = _read_names(cluster, namespace, pool)
    steps = tmp_path / "steps"
    assert _migrate(cluster, "--write", str(steps)).returncode == 1
    for name, script in [*((name, "apply.sh") for name in _STEPS), *((name, "back.sh") for name in _STEPS[::-1])]:
        _run_script(cluster, steps / name / script)
        until(f"the rollout of {name} ends", _has_rolled(cluster, namespace), _WITHIN)
    assert _read_names(cluster, namespace, pool) == before
    assert _list_failures(cluster, namespace) == []
