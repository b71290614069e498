"""`tallygate audit` at an API server: what is listed, what may not be, and what is shown though something failed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.usage.clusters import GPU, Object, namespace, pod, written
from tests.kube.kubeconfig import kubeconfig
from tests.server.small_cluster import SmallCluster, small_cluster
from webhook.cli.app import root

DEPLOYMENTS = "/apis/apps/v1/deployments"
REPORTS = "/apis/openreports.io/v1alpha1"


def audit(there: SmallCluster, folder: Path, *arguments: str) -> Result:
    """Run it by the shipped policies."""
    return CliRunner().invoke(root, ["audit", "--kubeconfig", str(kubeconfig(folder, there.server)), *arguments])


def found(result: Result) -> list[tuple[str, str]]:
    """Who something was found of, and what."""
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return [(each["object"]["name"], each["code"]) for each in findings]


def deployment(name: str, gpus: str, where: str) -> Object:
    """A Deployment as it is stored."""
    container = {"name": "main", "resources": {"limits": {GPU: gpus}}}
    metadata = {"name": name, "namespace": where, "uid": f"u-{name}", "resourceVersion": "9"}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}


def test_the_whole_cluster_is_listed_by_kind(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as there:
        there.objects[DEPLOYMENTS] = [deployment("halves", "1500m", "team-a")]
        result = audit(there, tmp_path, "-o", "json")
    assert result.exit_code == 1, result.stderr
    assert found(result) == [("halves", "TG101"), ("half", "TG101")]
    assert {path.rpartition("/")[2] for path in there.asked} == {
        "namespaces",
        "pods",
        "nodes",
        "deviceclasses",
        "cronjobs",
        "deployments",
        "daemonsets",
        "statefulsets",
        "replicasets",
        "jobs",
        "replicationcontrollers",
        "podtemplates",
        "resourcequotas",
        "limitranges",
    }


def test_of_namespaces_only_what_is_in_them_is_listed(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace(name) for name in ("team-a", "team-b")]) as there:
        there.objects["/api/v1/namespaces/team-b/pods"] = [pod("half", {GPU: "500m"}, "team-b")]
        result = audit(there, tmp_path, "-n", "team-b", "-o", "json")
    assert found(result) == [("half", "TG101")]
    assert there.asked.pop(0) == "/api/v1/namespaces"
    assert all("/namespaces/team-b/" in path for path in there.asked)
    assert "whether there are nodes for pods was not asked" in result.stdout


def test_a_right_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace("team-a")]) as there:
        there.refused[DEPLOYMENTS] = 403
        result = audit(there, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"tallygate: {DEPLOYMENTS} cannot be listed at {there.server}: the API server says 403: no; "
        "the audit must be allowed to list it\n"
    )


def test_without_the_right_to_device_classes_the_rest_is_judged(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace("team-a")]) as there:
        there.refused["/apis/resource.k8s.io/v1/deviceclasses"] = 403
        assert audit(there, tmp_path).exit_code == 0


def test_what_was_found_is_shown_though_no_report_can_be_written(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as there:
        there.objects[REPORTS] = []  # installed
        there.refused[f"{REPORTS}/reports"] = 403
        result = audit(there, tmp_path, "--report", "-o", "json")
    assert result.exit_code == 2
    assert found(result) == [("half", "TG101")]
    (failure,) = json.loads(result.stdout)["summary"]["reports"]["failures"]
    assert failure.endswith("the API server says 403: no; the audit must be allowed to list it")


def test_without_definitions_of_reports_nothing_is_judged_in_vain(tmp_path: Path) -> None:
    with small_cluster(namespaces=[namespace("team-a")]) as there:
        result = audit(there, tmp_path, "--report")
    assert result.exit_code == 2
    assert result.stderr.startswith("tallygate: no reports are written: the cluster has no CustomResourceDefinition")
    assert "/api/v1/pods" not in there.asked


MISUSE: Sequence[tuple[Sequence[str], str]] = (
    (("--report",), "--report needs a cluster: nothing is written into a snapshot"),
    (("--context", "there"), "--snapshot takes no --kubeconfig"),
    (("-n", "nowhere"), "namespace nowhere does not exist in "),
    (("--policies", "nowhere"), "nowhere"),
)


@pytest.mark.parametrize(("arguments", "sentence"), MISUSE, ids=[" ".join(each[0]) for each in MISUSE])
def test_misuse_is_one_sentence(tmp_path: Path, arguments: Sequence[str], sentence: str) -> None:
    snapshot = written(tmp_path, [namespace("team-a")])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


HOSTILE: dict[str, Object] = {
    "a spec that is a text": {"kind": "Deployment", "metadata": {"name": "x", "namespace": "team-a"}, "spec": "x"},
    "a template that is a number": {
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"template": 5},
    },
    "a quantity that is a list": {
        "kind": "ResourceQuota",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"hard": [1]},
    },
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_cannot_be_read_is_told_and_hides_nothing(tmp_path: Path, case: str) -> None:
    half = pod("half", {GPU: "500m"})
    snapshot = written(tmp_path, [namespace("team-a"), {"apiVersion": "v1", **HOSTILE[case]}, half])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), "-o", "json"])
    assert result.exit_code == 2
    assert found(result) == [("half", "TG101")]
    summary = json.loads(result.stdout)["summary"]
    assert summary["unreadable"] == 1
    assert any("cannot be read" in remark for remark in summary["remarks"])


def test_names_that_would_move_a_terminal_are_harmless(tmp_path: Path) -> None:
    evil = pod("half\x1b[2J\nerror", {GPU: "500m"})
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(written(tmp_path, [namespace("team-a"), evil]))])
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert len(result.stdout.splitlines()) == 2
