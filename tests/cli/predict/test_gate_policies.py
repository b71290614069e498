"""`tallygate predict` and `headroom` without `--policies`: they read those of the gate, or say that they lack them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.installed_gate import CONFIG_MAP, install_gate
from tests.cli.usage.clusters import Object, namespace
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster

_IP = "example.com/ip"
_POLICIES = """\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: addresses, annotations: {tallygate.dev/why: each pod has an address}}
spec: {resource: example.com/ip, perPod: 1}
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: larger, annotations: {tallygate.dev/why: the pool may grow}}
spec: {allocatable: {cpu: 8, memory: 16Gi, pods: 10, example.com/ip: 4}}
---
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: gangs, annotations: {tallygate.dev/why: our batch system}}
spec:
  group: example.com
  kind: Gang
  resource: gangs
  versions: [v1]
  pods:
    - {template: spec.worker, noun: workers, count: [spec.size]}
"""
_POD: Object = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
_GANG: Object = {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "train"}}
_GANG["spec"] = {"size": 2, "worker": {"spec": _POD["spec"]}}
_MANIFESTS = {"pod": {"apiVersion": "v1", "kind": "Pod", **_POD}, "kind": _GANG}


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[SmallCluster]:
    """Yield a cluster whose only node has two addresses, and a gate whose policies imply one for each pod."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", _IP: "2"}
    node: Object = {
        "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "2"},
        "status": {"allocatable": allocatable},
    }
    with run_small_cluster(pods=[], namespaces=[namespace("default")], nodes=[node]) as cluster:
        install_gate(cluster, {"policies.yaml": _POLICIES})
        yield cluster


def _run(cluster: SmallCluster, folder: Path, *arguments: str, manifest: str = "pod") -> tuple[int, str, str]:
    kubeconfig = write_kubeconfig(folder, cluster.server)
    command, *options = arguments
    full = [command, "-f", "-", "--kubeconfig", str(kubeconfig), *options]
    result = CliRunner().invoke(root, full, input=json.dumps(_MANIFESTS[manifest]))
    return result.exit_code, result.stdout, result.stderr


def test_headroom_counts_what_the_gate_implies_and_has_its_shapes(cluster: SmallCluster, tmp_path: Path) -> None:
    exit_code, output, errors = _run(cluster, tmp_path, "headroom", "-o", "json")
    assert exit_code == 0, errors
    (item,) = json.loads(output)["items"]
    assert item["copies"] == 2
    assert [(each["shape"], each["copiesPerNode"]) for each in item["newNodes"]] == [("larger", 4)]
    assert "policies" not in errors


def test_predict_counts_what_the_gate_implies(cluster: SmallCluster, tmp_path: Path) -> None:
    assert _run(cluster, tmp_path, "predict", "--replicas", "2")[0] == 0
    exit_code, output, errors = _run(cluster, tmp_path, "predict", "--replicas", "3")
    assert (exit_code, "Insufficient example.com/ip" in output) == (1, True), errors


def test_predict_finds_the_pods_of_a_kind_that_the_gate_defines(cluster: SmallCluster, tmp_path: Path) -> None:
    exit_code, output, errors = _run(cluster, tmp_path, "predict", manifest="kind")
    assert (exit_code, "Gang default/train" in output) == (0, True), errors
    assert "is not read" not in errors


@pytest.mark.parametrize("command", ["predict", "headroom"])
def test_policies_that_cannot_be_read_are_named_as_unknown(cluster: SmallCluster, tmp_path: Path, command: str) -> None:
    del cluster.stored[CONFIG_MAP]
    cluster.error_statuses[CONFIG_MAP] = 403
    exit_code, _, errors = _run(cluster, tmp_path, command)
    assert exit_code == 0, errors
    assert "the policies of the gate are unknown: the ConfigMap tallygate-system/policies cannot be read" in errors


def test_named_policies_are_used_alone(cluster: SmallCluster, tmp_path: Path) -> None:
    """Name policies of any kind: these have nothing for a prediction, so that no address is implied."""
    caps = tmp_path / "caps.yaml"
    caps.write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n"
        "metadata: {name: gpus, annotations: {tallygate.dev/why: bought}}\n"
        "spec: {namespaces: {include: [team-a]}, hard: {nvidia.com/gpu: 8}}\n"
    )
    exit_code, _, errors = _run(cluster, tmp_path, "predict", "--replicas", "3", "--policies", str(caps))
    assert exit_code == 0, errors
    assert not [path for path in cluster.paths if "admissionregistration" in path]


def test_a_cluster_without_a_gate_has_no_policies(cluster: SmallCluster, tmp_path: Path) -> None:
    cluster.stored.clear()
    exit_code, _, errors = _run(cluster, tmp_path, "predict", "--replicas", "3")
    assert exit_code == 0, errors
    assert "policies" not in errors
