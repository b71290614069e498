"""Rules that differ by version of Kubernetes in `check` and `explain`: that of the snapshot, or of --kubernetes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.accounting.kubernetes_codes import OUTSIDE_LIMIT_RANGE
from tallygate.cli.app import root
from tests.cli.usage.clusters import Object, namespace, write_snapshot

_PRELIMINARY = "the rules of Kubernetes 1.38 are preliminary"


def _create_version(git_version: str) -> Object:
    return {"apiVersion": "tallygate.dev/v1", "kind": "ClusterVersion", "gitVersion": git_version}


def _create_limit_range() -> Object:
    metadata = {"name": "ratio", "namespace": "team-a", "uid": "ratio", "resourceVersion": "7"}
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2007m"}}]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}


def _create_quota() -> Object:
    """Return a quota of limits that is used up."""
    limits = {"limits.cpu": "1"}
    metadata = {"name": "limits", "namespace": "team-a", "uid": "limits", "resourceVersion": "7"}
    status = {"hard": limits, "used": limits}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": limits}} | {
        "status": status
    }


def _create_pod(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": spec}


_AT_ITS_RATIO = _create_pod(
    containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2007m"}}}]
)
_PARTLY_LIMITED = _create_pod(
    resources={"requests": {"cpu": "2"}},
    containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d"}],
)


_LIMITED = (
    pytest.param(_create_limit_range(), _AT_ITS_RATIO, OUTSIDE_LIMIT_RANGE, id="limit range"),
    pytest.param(_create_quota(), _PARTLY_LIMITED, "TG208", id="quota"),
)


def _check(folder: Path, stored: Object, pod: Object, version: str, *arguments: str) -> tuple[list[str], str]:
    """Return the codes of the errors about a pod, and the remarks on the run."""
    (folder / "pod.json").write_text(json.dumps(pod))
    versions = [_create_version(version)] if version else []
    snapshot = write_snapshot(folder, [*versions, namespace("team-a"), stored])
    command = ["check", str(folder / "pod.json"), "--snapshot", str(snapshot), "-o", "json", *arguments]
    result = CliRunner().invoke(root, command)
    assert result.exit_code in {0, 1}, result.stderr
    report = json.loads(result.stdout)
    codes = [each["code"] for each in report["findings"] if each["level"] == "error"]
    return codes, " ".join(report["summary"]["remarks"])


@pytest.mark.parametrize(("stored", "pod", "code"), _LIMITED)
@pytest.mark.parametrize("version", ["v1.37.2", "v1.36.0", "v1.35.4", ""])
def test_a_pod_is_rejected_as_in_the_version_of_the_snapshot(
    tmp_path: Path, stored: Object, pod: Object, code: str, version: str
) -> None:
    codes, remarks = _check(tmp_path, stored, pod, version)
    assert codes == [code]
    assert ("the cluster runs Kubernetes v1.35.4" in remarks) is (version == "v1.35.4")
    codes, remarks = _check(tmp_path, stored, pod, version, "--kubernetes", "1.38")
    assert codes == []
    assert _PRELIMINARY in remarks
    assert "the cluster runs" not in remarks


@pytest.mark.parametrize(("stored", "pod", "code"), _LIMITED)
def test_a_snapshot_of_a_newer_cluster_has_its_rules(tmp_path: Path, stored: Object, pod: Object, code: str) -> None:
    codes, remarks = _check(tmp_path, stored, pod, "v1.38.0")
    assert codes == []
    assert _PRELIMINARY in remarks
    assert _check(tmp_path, stored, pod, "v1.38.0", "--kubernetes", "1.37")[0] == [code]


@pytest.mark.parametrize("identity", [{}, {"uid": "p", "resourceVersion": "5"}], ids=["new", "stored"])
@pytest.mark.parametrize(
    ("version", "limits", "note"),
    [
        pytest.param("", {"limits.cpu": "1"}, "", id="none"),
        pytest.param("v1.37.2", {"limits.cpu": "1"}, "", id="1.37"),
        pytest.param("v1.35.4", {"limits.cpu": "1"}, "the cluster runs Kubernetes v1.35.4", id="older"),
        pytest.param("v1.38.0", {}, _PRELIMINARY, id="1.38"),
    ],
)
def test_the_amounts_of_quotas_are_explained_as_in_the_version_of_the_snapshot(
    tmp_path: Path, identity: Object, version: str, limits: Object, note: str
) -> None:
    """Explain a pod of which one container has no limit: since 1.38 the pod has none, whether it is stored or not."""
    pod = _PARTLY_LIMITED | {"metadata": _PARTLY_LIMITED["metadata"] | identity}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    versions = [_create_version(version)] if version else []
    snapshot = write_snapshot(tmp_path, [*versions, namespace("team-a")])
    command = ["explain", "pod", "-f", str(tmp_path / "pod.json"), "--snapshot", str(snapshot), "-o", "json"]
    result = CliRunner().invoke(root, command)
    (found,) = json.loads(result.stdout)["items"]
    assert {key: amount for key, amount in found["quota"].items() if key.startswith("limits.")} == limits
    assert note in result.stderr
    assert ("Kubernetes" in result.stderr) is bool(note)
