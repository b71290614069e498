"""The version in a snapshot: pods are counted by its rules, so that it has to come before them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root

Object = dict[str, Any]

_VERSION: Object = {"apiVersion": "tallygate.dev/v1", "kind": "ClusterVersion", "gitVersion": "v1.36.3"}
_NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "uid": "team-a"}}
_NODE: Object = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n0", "uid": "n0"},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}


def _create_pod(name: str, *cpus: str, **status: Any) -> Object:
    containers = [{"name": f"c{index}", "resources": {"requests": {"cpu": cpu}}} for index, cpu in enumerate(cpus)]
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}, **status}


def _create_resized_pod() -> Object:
    """Return a pod of 3 cpu whose containers had 1 and 2 cpu, and will have 2 and 1: up to 1.36 it counts as 4."""
    pod = _create_pod("old", "2", "1")
    pod["metadata"] |= {"uid": "old"}
    pod["spec"]["nodeName"] = "n0"
    actual = [{"name": f"c{index}", "resources": {"requests": {"cpu": cpu}}} for index, cpu in enumerate("12")]
    return pod | {"status": {"phase": "Running", "containerStatuses": actual}}


def _predict(folder: Path, *items: Object) -> Result:
    (folder / "pod.json").write_text(json.dumps(_create_pod("new", "1")))
    (folder / "snapshot.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    command = ["predict", str(folder / "pod.json"), "--snapshot", str(folder / "snapshot.json")]
    return CliRunner().invoke(root, command, prog_name="tallygate")


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        pytest.param((_VERSION, _NAMESPACE, _NODE, _create_resized_pod()), "not now", id="first"),
        pytest.param((_NAMESPACE, _NODE, _VERSION, _create_resized_pod()), "not now", id="before the pods"),
        pytest.param(
            (_NAMESPACE, _NODE, _create_resized_pod()), "fits now", id="without one, that of the newest release"
        ),
    ],
)
def test_pods_are_counted_by_the_version_of_the_snapshot(
    tmp_path: Path, items: tuple[Object, ...], verdict: str
) -> None:
    result = _predict(tmp_path, *items)
    assert f"Pod team-a/new: {verdict}" in result.stdout, result.stderr


def test_a_version_behind_the_pods_is_an_error(tmp_path: Path) -> None:
    """Predict nothing by rules that the pods before the version were not counted by."""
    result = _predict(tmp_path, _NAMESPACE, _NODE, _create_resized_pod(), _VERSION)
    assert result.exit_code == 2
    place = "document 1, items[3]: ClusterVersion without a name: "
    assert f"{place}it decides how pods are counted, and has to come before them" in result.stderr


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_version_is_none(tmp_path: Path, text: str) -> None:
    result = _predict(tmp_path, _VERSION | {"gitVersion": text}, _NAMESPACE, _NODE)
    assert "fits now" in result.stdout
    assert "the cluster runs" not in result.stderr
