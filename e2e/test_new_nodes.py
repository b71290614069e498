"""Nodes that come later: the prediction by a shape, and what the real scheduler does once such a node is there.

The node of KWOK has the labels, taints and amounts of the shape. Pools of Karpenter have the definitions of its module.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.definitions import serve_kinds_of
from e2e.extra_gates import run_watching_gate
from e2e.gates.process import GateProcess
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes
from e2e.pods import pod
from e2e.ports import NotHereError, Site
from e2e.waiting import until
from e2e.workload_kinds.modules import KARPENTER

_WITHIN = 240.0
_KARPENTER_ROOT = "/apis/karpenter.sh/v1"
_POOL = "karpenter.sh/nodepool"
_ZONE = "topology.kubernetes.io/zone"
_BOARD = "example.com/board"
_TAINT = {"key": _BOARD, "effect": "NoSchedule"}
_TOLERATES = {"tolerations": [{"key": _BOARD, "operator": "Exists"}]}
_AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110", _BOARD: "4"}
_POOLED = {"tallygate-pool": "boards"}

_PODS: tuple[tuple[str, Object, dict[str, str], bool], ...] = (
    ("fits", {**_TOLERATES, "nodeSelector": _POOLED}, {_BOARD: "2"}, True),
    ("fits-too", {**_TOLERATES, "nodeSelector": _POOLED}, {_BOARD: "2", "cpu": "1"}, True),
    ("too-many-boards", _TOLERATES, {_BOARD: "5"}, False),
    ("too-many-cpus", {**_TOLERATES, "nodeSelector": _POOLED}, {_BOARD: "1", "cpu": "5"}, False),
    ("no-toleration", {}, {_BOARD: "1"}, False),
    ("other-label", {**_TOLERATES, "nodeSelector": {"tallygate-pool": "other"}}, {_BOARD: "1"}, False),
)
"""Pods by name: more of their spec, what they request, and whether they fit on a new node."""


_SHAPE: dict[str, Any] = {
    "apiVersion": "tallygate.dev/v1alpha1",
    "kind": "NodeShape",
    "metadata": {"name": "boards"},
    "spec": {"labels": _POOLED, "taints": [_TAINT], "allocatable": _AMOUNTS, "most": 2},
}
_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: possible-boards}
spec: {resources: [example.com/board], checks: {advertised: true, schedulable: never}}
"""


@pytest.fixture(scope="module")
def local_cluster(site: Site) -> LocalCluster:
    """Return the cluster if its nodes have no machines."""
    if not isinstance(site.cluster, LocalCluster):
        raise NotHereError("a node with any labels and amounts is made by KWOK, which only the local control plane has")
    return site.cluster


def _make_pod(site: Site, name: str, spec: Object, requests: dict[str, str]) -> Object:
    made = pod(site, name)
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": {_BOARD: requests[_BOARD]}}
    del made["spec"]["schedulerName"]  # the default scheduler is to have it
    made["spec"] |= spec
    return made


def _make_node(name: str, labels: dict[str, str], taints: list[Object]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, **labels},
        },
        "spec": {"taints": taints},
        "status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS},
    }


def _predict(cluster: LocalCluster, namespace: str, *arguments: str) -> dict[str, Object]:
    """Return the predictions of the pending pods of a namespace, by name."""
    options = ("-n", namespace, "--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    done = run_tallygate(cluster, "predict", "pods", *options, *arguments)
    assert done.returncode == 1, done.stderr
    return {each["object"]["name"]: each for each in json.loads(done.stdout)["items"]}


def _find_nodes(cluster: LocalCluster, namespace: str) -> dict[str, str]:
    """Return the node of each pod that has one."""
    pods = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods if each["spec"].get("nodeName")}


def _find_tried(cluster: LocalCluster, namespace: str) -> set[str]:
    """Return the pods for which the scheduler has found no node."""
    pods = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    conditions = ((each["metadata"]["name"], found) for each in pods for found in each["status"].get("conditions", ()))
    return {name for name, each in conditions if (each["type"], each["status"]) == ("PodScheduled", "False")}


@pytest.fixture
def pending(site: Site, local_cluster: LocalCluster, namespace: str) -> str:
    """Return a namespace with the pods, for which the scheduler has found no node."""
    ours = api(local_cluster.kubeconfig)
    for name, spec, requests, _ in _PODS:
        ours.create(f"/api/v1/namespaces/{namespace}/pods", _make_pod(site, name, spec, requests))
    until("the scheduler has tried them", lambda: len(_find_tried(local_cluster, namespace)) == len(_PODS), _WITHIN)
    return namespace


@contextmanager
def _add_node(cluster: LocalCluster, node: Object) -> Iterator[None]:
    """Add a node for as long as the block runs."""
    try:
        add_nodes(cluster, node)
        yield
    finally:
        api(cluster.kubeconfig).delete(f"/api/v1/nodes/{node['metadata']['name']}")


def _check_scheduler(cluster: LocalCluster, namespace: str, node: str, fitting: set[str]) -> None:
    """Check that the scheduler places exactly these pods on the node that came."""
    until("the pods that fit have the node", lambda: _find_nodes(cluster, namespace).keys() >= fitting, _WITHIN)
    assert _find_nodes(cluster, namespace) == dict.fromkeys(fitting, node)
    assert _find_tried(cluster, namespace) == {name for name, *_ in _PODS} - fitting


def test_pods_that_fit_a_shape_are_scheduled_once_such_a_node_comes(
    local_cluster: LocalCluster, pending: str, tmp_path: Path
) -> None:
    policies = tmp_path / "shapes.yaml"
    policies.write_text(yaml.safe_dump(_SHAPE))
    predictions = _predict(local_cluster, pending, "--policies", str(policies))
    assert all(each["verdict"] != "fits now" for each in predictions.values())
    answers = {
        name: {shape["shape"]: shape["answer"] for shape in each["newNodes"]} for name, each in predictions.items()
    }
    assert {name: each["boards"] == "fits" for name, each in answers.items()} == {
        name: fits for name, _, _, fits in _PODS
    }
    with _add_node(local_cluster, _make_node("new-board", _POOLED, [_TAINT])):
        _check_scheduler(local_cluster, pending, "new-board", {name for name, _, _, fits in _PODS if fits})


def test_a_gate_denies_the_pods_that_fit_neither_a_node_nor_a_shape(
    site: Site, local_cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    policies = {"boards.yaml": f"{_RULE}---\n{yaml.safe_dump(_SHAPE)}"}
    pods = {name: (_make_pod(site, name, spec, requests), fits) for name, spec, requests, fits in _PODS}
    with run_watching_gate(site, tmp_path, policies):

        def is_allowed(body: Object) -> bool:
            path = f"/api/v1/namespaces/{namespace}/pods"
            return api(local_cluster.kubeconfig).ask("POST", path, body, query={"dryRun": "All"}).is_done

        denied = pods["too-many-boards"][0]
        until("the gate has listed the nodes", lambda: not is_allowed(denied), _WITHIN)
        assert {name: is_allowed(body) for name, (body, _) in pods.items()} == {
            name: fits for name, (_, fits) in pods.items()
        }


def _count_nodes(gate: GateProcess) -> int:
    return int(gate.readiness()["checks"]["watches"]["nodes"]["objects"])


def test_a_gate_remembers_the_last_node_of_a_group_until_it_is_restarted(
    site: Site, local_cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    ours = api(local_cluster.kubeconfig)
    pods = {name: _make_pod(site, name, spec, requests) for name, spec, requests, _ in _PODS}
    fitting = {name for name, _, _, fits in _PODS if fits}
    labels = {**_POOLED, "eks.amazonaws.com/nodegroup": "boards"}
    with run_watching_gate(site, tmp_path, {"boards.yaml": _RULE}) as gate:

        def list_allowed() -> set[str]:
            path = f"/api/v1/namespaces/{namespace}/pods"
            allowed = {name: ours.ask("POST", path, body, query={"dryRun": "All"}) for name, body in pods.items()}
            return {name for name, each in allowed.items() if each.is_done}

        until("the gate has listed the nodes", lambda: not list_allowed(), _WITHIN)
        with _add_node(local_cluster, _make_node("group-board", labels, [_TAINT])):
            until("the node counts", lambda: list_allowed() == fitting, _WITHIN)
        until("the node is deleted", lambda: ours.find("/api/v1/nodes/group-board") is None, _WITHIN)
        until("the gate has seen that", lambda: _count_nodes(gate) == len(ours.items("/api/v1/nodes")), _WITHIN)
        assert list_allowed() == fitting
        gate.stop()
        gate.start()
        until("the group is forgotten", lambda: not list_allowed(), _WITHIN)


@pytest.fixture(scope="module")
def karpenter(local_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Define NodePools and NodeClaims as Karpenter does."""
    with serve_kinds_of(local_cluster, KARPENTER):
        yield local_cluster


def _node_pool() -> Object:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["board-4"]},
        {"key": _ZONE, "operator": "In", "values": ["a", "b"]},
    ]
    template = {
        "metadata": {"labels": _POOLED},
        "spec": {
            "nodeClassRef": {"group": "example.com", "kind": "BoardClass", "name": "boards"},
            "taints": [_TAINT],
            "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
            "requirements": requirements,
        },
    }
    spec = {"template": template, "limits": {_BOARD: "10"}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "boards"}, "spec": spec}


def _node_claim() -> Object:
    spec = {
        "nodeClassRef": {"group": "example.com", "kind": "BoardClass", "name": "boards"},
        "taints": [_TAINT],
        "requirements": [{"key": _POOL, "operator": "In", "values": ["boards"]}],
    }
    metadata = {"name": "boards-1", "labels": {_POOL: "boards"}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def _make_zoned_pod(site: Site, zone: str) -> Object:
    selector = {"nodeSelector": {**_POOLED, _ZONE: zone}}
    return _make_pod(site, f"in-zone-{zone}", {**_TOLERATES, **selector}, {_BOARD: "2"})


def test_a_gate_follows_the_pools_of_karpenter_that_come_and_go(
    site: Site, local_cluster: LocalCluster, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Define the kinds while the gate runs: it reads them without a restart, and remembers the node of a pool."""
    ours = api(local_cluster.kubeconfig)
    pods = {name: _make_pod(site, name, spec, requests) for name, spec, requests, _ in _PODS}
    pods |= {f"in-zone-{zone}": _make_zoned_pod(site, zone) for zone in ("b", "c")}
    fitting = {name for name, _, _, fits in _PODS if fits} | {"in-zone-b"}
    without_amounts = fitting | {"too-many-boards", "too-many-cpus"}
    with run_watching_gate(site, tmp_path, {"boards.yaml": _RULE}):

        def list_allowed() -> set[str]:
            path = f"/api/v1/namespaces/{namespace}/pods"
            allowed = {name: ours.ask("POST", path, body, query={"dryRun": "All"}) for name, body in pods.items()}
            return {name for name, each in allowed.items() if each.is_done}

        until("the gate has listed the nodes", lambda: not list_allowed(), _WITHIN)
        request.getfixturevalue("karpenter")
        ours.create(f"{_KARPENTER_ROOT}/nodepools", _node_pool())
        until("nothing is impossible but for labels and taints", lambda: list_allowed() == without_amounts, _WITHIN)
        ours.create(f"{_KARPENTER_ROOT}/nodeclaims", _node_claim())
        status = {"status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS}}
        ours.patch(f"{_KARPENTER_ROOT}/nodeclaims/boards-1/status", status)
        until("the amounts of the claim decide", lambda: list_allowed() == fitting, _WITHIN)
        ours.delete(f"{_KARPENTER_ROOT}/nodeclaims/boards-1")
        until("the claim is deleted", lambda: not ours.items(f"{_KARPENTER_ROOT}/nodeclaims"), _WITHIN)
        assert list_allowed() == fitting
        ours.delete(f"{_KARPENTER_ROOT}/nodepools/boards")
        until("the pool is forgotten", lambda: not list_allowed(), _WITHIN)


def test_a_pool_of_karpenter_has_the_shape_of_its_claim_and_of_its_node(
    site: Site, karpenter: LocalCluster, pending: str, tmp_path: Path
) -> None:
    """Predict by the amounts of a claim, and then of the node; the limits leave two nodes, and then one."""
    ours = api(karpenter.kubeconfig)
    ours.create(f"{_KARPENTER_ROOT}/nodepools", _node_pool())
    ours.create(f"{_KARPENTER_ROOT}/nodeclaims", _node_claim())
    status = {"status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS}}
    ours.patch(f"{_KARPENTER_ROOT}/nodeclaims/boards-1/status", status)
    expected = {name: "fits" if fits else "does not fit" for name, _, _, fits in _PODS}
    assert _list_answers(karpenter, pending) == {name: (answer, 2) for name, answer in expected.items()}
    snapshot = tmp_path / "now.json"
    taken = run_tallygate(karpenter, "snapshot", str(snapshot), "--kubeconfig", str(karpenter.kubeconfig))
    assert taken.returncode == 0, taken.stderr
    done = run_tallygate(karpenter, "predict", "pod/fits", "-n", pending, "--snapshot", str(snapshot))
    assert "would fit on a new node of shape nodepool/boards (at most 2 more)" in done.stdout
    zoned = tmp_path / "zoned.yaml"
    zoned.write_text(yaml.safe_dump(_make_zoned_pod(site, "b")))
    done = run_tallygate(karpenter, "predict", str(zoned), "--kubeconfig", str(karpenter.kubeconfig))
    assert "would fit on a new node of shape nodepool/boards (at most 2 more) in zone b" in done.stdout
    ours.patch(f"{_KARPENTER_ROOT}/nodepools/boards/status", {"status": {"resources": {_BOARD: "4"}, "nodes": 1}})
    labels = {**_POOLED, _POOL: "boards", "node.kubernetes.io/instance-type": "board-4"}
    with _add_node(karpenter, _make_node("pool-board", labels, [_TAINT])):
        _check_scheduler(
            karpenter, pending, "pool-board", {name for name, answer in expected.items() if answer == "fits"}
        )
        waiting = {name: (answer, 1) for name, answer in expected.items() if answer != "fits"}
        assert _list_answers(karpenter, pending) == waiting


def _list_answers(cluster: LocalCluster, namespace: str) -> dict[str, tuple[str, int | None]]:
    """Return the answer for a new node of the pool, and the number of nodes that can be added, for each pending pod."""
    predictions = _predict(cluster, namespace)
    shapes = {
        name: next(shape for shape in each["newNodes"] if shape["shape"] == "nodepool/boards")
        for name, each in predictions.items()
    }
    return {name: (each["answer"], each["most"]) for name, each in shapes.items()}
