"""Tests of the commands under caps whose limits are percentages of a capacity."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: team-quarter}
spec:
  hard: {nvidia.com/gpu: 25%}
  soft: {nvidia.com/gpu: 20%}
  capacity: {excludeTaints: [maintenance]}
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {GPU: "5"}}}]},
}
NO_CLASSES = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClassList", "items": []}


def node(name: str, gpus: int, **spec: Any) -> Object:
    """Return a node with GPUs."""
    metadata = {"name": name, "uid": f"node-{name}", "resourceVersion": "9"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec,
            "status": {"allocatable": {GPU: f"{gpus}", "cpu": "8"}}}  # fmt: skip


TAINTED = node("c", 16, taints=[{"key": "maintenance", "effect": "NoSchedule"}])
CLUSTER = (namespace("team-a"), NO_CLASSES, node("a", 16), node("b", 16), TAINTED)


def run(folder: Path, command: list[str], *objects: Object) -> Result:
    """Run a command with the cap, on a snapshot of these objects; `FILE` stands for a pod with 5 GPUs."""
    (folder / "cap.yaml").write_text(CAP)
    (folder / "pod.yaml").write_text(yaml.safe_dump(POD))
    snapshot = write_snapshot(folder, objects)
    arguments = [str(folder / "pod.yaml") if each == "FILE" else each for each in command]
    options = ["--policies", str(folder / "cap.yaml"), "--snapshot", str(snapshot)]
    return CliRunner().invoke(root, [*arguments, *options])


def test_check_compares_with_the_capacity_of_the_snapshot(tmp_path: Path) -> None:
    within = run(tmp_path, ["check", "FILE"], *CLUSTER)
    assert (within.exit_code, "hard 8" in within.output) == (0, False)
    beyond = run(tmp_path, ["check", "FILE"], *CLUSTER, pod("other", {GPU: "4"}))
    assert beyond.exit_code == 1
    assert "hard 8 (25% of 32), free 4" in beyond.output


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ((namespace("team-a"),), "the snapshot has no nodes"),
        ((namespace("team-a"), node("a", 16)), "the snapshot has no deviceclasses"),
    ],
)
def test_check_says_that_a_limit_was_not_evaluated(tmp_path: Path, objects: tuple[Object, ...], problem: str) -> None:
    result = run(tmp_path, ["check", "FILE"], *objects)
    assert f"hard 25% of {GPU} is of a capacity that is not known: {problem}, so it was not evaluated" in result.output
    assert f"cap team-quarter was not evaluated for {GPU}: {problem}" in result.output


def test_check_without_a_cluster_says_that_a_limit_was_not_evaluated(tmp_path: Path) -> None:
    (tmp_path / "cap.yaml").write_text(CAP)
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(POD))
    result = CliRunner().invoke(root, ["check", str(tmp_path / "pod.yaml"), "--policies", str(tmp_path / "cap.yaml")])
    assert "the nodes of the cluster are not read, so it was not evaluated" in result.output


def test_audit_compares_with_the_capacity_and_says_what_is_unknown(tmp_path: Path) -> None:
    running = pod("other", {GPU: "9"})
    result = run(tmp_path, ["audit"], *CLUSTER, running)
    assert "hard 8 (25% of 32)" in result.output
    unknown = run(tmp_path, ["audit"], namespace("team-a"), running)
    assert f"cap team-quarter was not evaluated for {GPU}: the snapshot has no nodes" in unknown.output


def test_explain_and_predict_use_the_capacity_of_the_snapshot(tmp_path: Path) -> None:
    explained = run(tmp_path, ["explain", "pod", "-f", "FILE"], *CLUSTER)
    assert explained.exit_code == 0
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(POD))
    predicted = run(tmp_path, ["predict", "-f", "FILE"], *CLUSTER, pod("other", {GPU: "4"}))
    assert "hard 8 (25% of 32)" in predicted.output
