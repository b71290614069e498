"""`tallygate usage` without `--policies`: it reads those of the gate in the cluster, or says that it lacks them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.installed_gate import CONFIG_MAP, CONFIGURATIONS, DEPLOYMENT, install_gate
from tests.cli.usage.clusters import GPU, Object, namespace, pod
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster

_LEDGERS = "/apis/tallygate.dev/v1alpha1/capledgers"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus, annotations: {tallygate.dev/why: eight GPUs for each team}}
spec: {groupBy: {label: team}, hard: {nvidia.com/gpu: 8}, soft: {nvidia.com/gpu: 6}}
"""


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[SmallCluster]:
    """Yield a cluster with a gate whose policies have one cap with groups, and a namespace of the group red."""
    pods = [pod("p", {GPU: "7"}, "team-a")]
    with run_small_cluster(pods=pods, namespaces=[namespace("team-a", team="red")], nodes=[]) as cluster:
        install_gate(cluster, {"caps.yaml": _CAP, "kustomization.yaml": "resources: []\n"})
        cluster.objects[_LEDGERS] = [_create_ledger()]
        yield cluster


def _create_ledger() -> Object:
    """Return the ledger of a cap that no policy has, over another namespace."""
    meta = {"name": "old", "namespace": "tallygate-system", "uid": "l", "resourceVersion": "9"}
    status = {"used": {GPU: 1}, "resources": [GPU], "reservations": {}}
    return {"metadata": meta, "spec": {"cap": "old", "namespace": "team-b", "hard": {GPU: 2}}, "status": status}


def _run(cluster: SmallCluster, folder: Path, *arguments: str) -> tuple[int, str, str]:
    kubeconfig = write_kubeconfig(folder, cluster.server)
    result = CliRunner().invoke(root, ["usage", "--kubeconfig", str(kubeconfig), *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_caps_of_the_gate_are_shown_with_soft_limits_and_groups(cluster: SmallCluster, tmp_path: Path) -> None:
    exit_code, output, errors = _run(cluster, tmp_path, "-n", "team-a", "-o", "json")
    assert exit_code == 0, errors
    report = json.loads(output)
    (line,) = report["items"]
    assert (line["group"], line["hard"], line["soft"], line["used"]) == ("team=red", 8, 6, 7)
    assert not [note for note in report["notes"] if "--policies" in note]


@pytest.mark.parametrize("arguments", [("--explain", "gpus"), ("--group", "red")], ids=" ".join)
def test_options_that_need_caps_use_those_of_the_gate(
    cluster: SmallCluster, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    exit_code, output, errors = _run(cluster, tmp_path, *arguments)
    assert (exit_code, "7" in output) == (0, True), errors


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        (f"{CONFIGURATIONS}/mutatingwebhookconfigurations/tallygate", 403, "cannot be read"),
        (DEPLOYMENT, 403, "the gate's Deployment cannot be read"),
        (CONFIG_MAP, 403, "the ConfigMap tallygate-system/policies cannot be read"),
    ],
    ids=["the configurations are forbidden", "the Deployment is forbidden", "the ConfigMap is forbidden"],
)
def test_policies_that_cannot_be_read_are_named_as_unknown(
    cluster: SmallCluster, tmp_path: Path, path: str, status: int, reason: str
) -> None:
    del cluster.stored[path]
    cluster.error_statuses[path] = status
    exit_code, _, errors = _run(cluster, tmp_path, "-n", "team-a")
    assert exit_code == 0, errors
    assert "the policies of the gate are unknown: " in errors
    assert reason in errors
    assert "no cap counts anything here" not in errors
    exit_code, _, errors = _run(cluster, tmp_path, "--explain", "gpus")
    assert (exit_code, reason in errors) == (2, True), errors
    assert errors.rstrip().endswith("; name their policy files with --policies"), errors


def test_a_cluster_without_a_gate_has_no_policies(cluster: SmallCluster, tmp_path: Path) -> None:
    cluster.stored.clear()
    exit_code, _, errors = _run(cluster, tmp_path, "-n", "team-a")
    assert exit_code == 0, errors
    assert "the gate here has no policies with caps" in errors
    assert "no cap has a ledger for these namespaces" in errors
    cluster.objects[_LEDGERS] = []
    exit_code, _, errors = _run(cluster, tmp_path)
    assert (exit_code, "no caps are known: the gate here has no policies with caps" in errors) == (2, True), errors
