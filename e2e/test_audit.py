"""The audit of stored objects: evaluated and reported before a real API server, with the real report definitions."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import api
from e2e.command_output import run_tallygate
from e2e.definitions import apply_definitions
from e2e.gates.process import GateProcess
from e2e.installation.rendered import KUSTOMIZE
from e2e.installation.rights import Right, collect_rights, read_requests
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.pods import make_deployment
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.report_definitions import OPENREPORTS, WGPOLICY, definitions
from e2e.service_account import gates_account
from e2e.waiting import until

_WITHIN = 120.0  # until controllers have made pods, or an audit has come round
_BANANAS = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: one-pod}
spec: {namespaces: {include: ["case-*"]}, hard: {pods: 1}}
"""

_SHARED_NAME = "audited-pods"
_SHARED = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: audited-pods}
spec: {shared: true, namespaces: {include: [NAMESPACE]}, hard: {pods: 1}}
"""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_VERSIONS = {"openreports.io": "v1alpha1", "wgpolicyk8s.io": "v1alpha2"}
_REPORTS = tuple(_VERSIONS)  # groups, the newer first

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the shipped policies, and a cap of one pod."""
    folder = tmp_path_factory.mktemp("policies")
    for name, text in (SHIPPED_FILES | {"cap.yaml": _CAP}).items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def audit(cluster: Cluster, policies: Path) -> Run:
    """Return a function that runs `tallygate audit` on the cluster."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ("audit", "--policies", str(policies), "--kubeconfig", str(cluster.kubeconfig))
        return run_tallygate(cluster, *command, *arguments)

    return run


@pytest.fixture
def halves(site: Site, namespace: str) -> str:
    """Create a namespace with a Deployment that requests one and a half bananas, and its two pods, without a gate."""
    container = {
        "name": "main",
        "image": site.image,
        "resources": {"requests": {_BANANAS: "1500m"}, "limits": {_BANANAS: "1500m"}},
    }
    deployment = make_deployment("halves", 2, {"containers": [container]})
    api(site.cluster.kubeconfig).create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    until("there are two pods", lambda: _pods(site.cluster, namespace) == 2, _WITHIN)
    return namespace


def _pods(cluster: Cluster, namespace: str) -> int:
    return len(api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods"))


def _install(cluster: Cluster, published: tuple[str, str]) -> Iterator[None]:
    files = definitions(published)
    apply_definitions(cluster, files, "--server-side")
    yield
    cluster.kubectl("delete", "--timeout=110s", *(f"--filename={path}" for path in files))


@pytest.fixture
def wgpolicy(cluster: Cluster) -> Iterator[None]:
    """Install the older definitions."""
    yield from _install(cluster, WGPOLICY)


@pytest.fixture
def openreports(cluster: Cluster) -> Iterator[None]:
    """Install the newer definitions."""
    yield from _install(cluster, OPENREPORTS)


def _report(cluster: Cluster, resource: str, namespace: str) -> dict[str, Any] | None:
    return api(cluster.kubeconfig).find(f"{_path(resource, namespace)}/tallygate")


def _path(resource: str, namespace: str) -> str:
    plural, _, group = resource.partition(".")
    return f"/apis/{group}/{_VERSIONS[group]}/namespaces/{namespace}/{plural}"


def _mend(cluster: Cluster, namespace: str) -> None:
    api(cluster.kubeconfig).delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/halves")
    until("its pods are deleted", lambda: _pods(cluster, namespace) == 0, _WITHIN)


def test_objects_stored_before_the_gate_are_found_at_their_owner(audit: Run, halves: str) -> None:
    done = audit("--namespace", halves, "-o", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    found_by_name = [(each["code"], each["object"]["kind"], each["object"]["name"]) for each in found["findings"]]
    # The name of the resource is one that Kubernetes 1.8 replaced: it is found in requests and limits.
    assert found_by_name.count(("TG071", "Deployment", "halves")) == 2
    assert [finding for finding in found_by_name if finding[0] != "TG071"] == [
        ("TG101", "Deployment", "halves"),
        ("TG207", "Namespace", halves),
        ("TG204", "Deployment", "halves"),
    ]
    (over_cap,) = (each for each in found["findings"] if each["code"] == "TG207")
    assert "top consumers: Deployment halves (2)" in over_cap["message"]
    assert found["summary"]["objects"]["Pod"] == 2


def test_every_kind_is_listed_in_the_whole_cluster(audit: Run, halves: str) -> None:
    done = audit("-o", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert halves in {each["object"]["namespace"] for each in found["findings"]}
    assert found["summary"]["objects"]["Node"] >= 1
    assert found["summary"]["unreadable"] == 0


def test_a_namespace_that_does_not_exist_is_a_usage_error(audit: Run) -> None:
    done = audit("--namespace", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tallygate: namespace nowhere does not exist at https://")


def test_without_definitions_of_reports_the_message_names_both(cluster: Cluster, audit: Run, namespace: str) -> None:
    if api(cluster.kubeconfig).find(f"{_DEFINITIONS}/policyreports.wgpolicyk8s.io") is not None:
        pytest.skip("the cluster has them")
    done = audit("--namespace", namespace, "--report")
    assert done.returncode == 2
    assert "install that of reports.openreports.io/v1alpha1 or policyreports.wgpolicyk8s.io/v1alpha2" in done.stderr


@pytest.mark.usefixtures("wgpolicy")
def test_a_policy_report_is_written_left_alone_and_removed(cluster: Cluster, audit: Run, halves: str) -> None:
    _write_keep_and_remove(cluster, audit, halves, "policyreports.wgpolicyk8s.io")


@pytest.mark.usefixtures("wgpolicy", "openreports")
def test_the_newer_report_is_written_where_there_are_both(cluster: Cluster, audit: Run, halves: str) -> None:
    report = _write_keep_and_remove(cluster, audit, halves, "reports.openreports.io")
    assert report["source"] == "tallygate"
    assert _report(cluster, "policyreports.wgpolicyk8s.io", halves) is None


def _write_keep_and_remove(cluster: Cluster, audit: Run, namespace: str, resource: str) -> dict[str, Any]:
    first = audit("--namespace", namespace, "--report")
    assert first.returncode == 1, first.stderr
    assert re.search(r"^reports \(\S+\): 1 written, 0 unchanged, 0 removed$", first.stderr, re.MULTILINE)
    report = _report(cluster, resource, namespace)
    assert report is not None
    assert report["summary"] == {"pass": 0, "fail": 2, "warn": 3, "error": 0, "skip": 0}
    fraction = report["results"][0]
    uid = fraction["resources"][0].pop("uid")
    assert uid
    assert fraction.pop("timestamp")["seconds"] > 0
    # All that was sent is there: the definition has a place for it.
    assert fraction == {
        "source": "tallygate",
        "category": "ResourceRule",
        "policy": "whole-units",
        "rule": "TG101",
        "result": "fail",
        "severity": "high",
        "scored": True,
        "message": f"1500m is not a whole number; {_BANANAS} is counted in whole units: request 1 or 2",
        "resources": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "halves"}],
        "properties": {
            "field": f"spec.template.spec.containers[0].resources.requests[{_BANANAS}]",
            "why": "Devices, licences and the like are counted in whole units and cannot be shared by fractions",
        },
    }
    again = audit("--namespace", namespace, "--report")
    assert again.returncode == 1
    assert ": 0 written, 1 unchanged, 0 removed" in again.stderr
    same = _report(cluster, resource, namespace)
    assert same is not None
    assert same["metadata"]["resourceVersion"] == report["metadata"]["resourceVersion"]
    _scale(cluster, namespace, 1)
    until("one pod is left", lambda: _pods(cluster, namespace) == 1, _WITHIN)
    fewer = audit("--namespace", namespace, "--report")
    assert ": 1 written, 0 unchanged, 0 removed" in fewer.stderr
    changed = _report(cluster, resource, namespace)
    assert changed is not None
    assert changed["summary"]["fail"] == 1
    assert changed["results"][0]["timestamp"] == same["results"][0]["timestamp"]
    _mend(cluster, namespace)
    last = audit("--namespace", namespace, "--report")
    assert (last.returncode, ": 0 written, 0 unchanged, 1 removed" in last.stderr) == (0, True), last.stderr
    assert _report(cluster, resource, namespace) is None
    return report


@pytest.mark.usefixtures("wgpolicy")
def test_a_report_of_another_tool_is_not_touched(cluster: Cluster, audit: Run, halves: str) -> None:
    theirs = {
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": {"name": "tallygate"},
        "results": [],
    }
    api(cluster.kubeconfig).create(_path("policyreports.wgpolicyk8s.io", halves), theirs)
    done = audit("--namespace", halves, "--report")
    assert done.returncode == 2
    assert f"PolicyReport {halves}/tallygate belongs to another tool" in done.stderr
    report = _report(cluster, "policyreports.wgpolicyk8s.io", halves)
    assert report is not None
    assert report["results"] == []


@pytest.fixture
def auditor(cluster: Cluster, tmp_path: Path) -> Path:
    """Return a kubeconfig with the rights of the components `cluster-access` and `audit`, and no others."""
    return gates_account(cluster, tmp_path, "cluster-access", "audit")


@pytest.mark.usefixtures("openreports")
def test_a_gate_audits_by_itself_and_uses_every_right_that_this_takes(
    site: Site, halves: str, auditor: Path, tmp_path: Path
) -> None:
    if not isinstance(site.gate, GateProcess):
        pytest.skip("the gate of this provider runs elsewhere")
    cluster, resource = site.cluster, "reports.openreports.io"
    log = audit_log(cluster.folder) if isinstance(cluster, LocalCluster) else None
    start = log.stat().st_size if log and log.exists() else 0
    gate = GateProcess(tmp_path / "g", arguments=_auditing(auditor))
    gate.write_policies(SHIPPED_FILES | {"cap.yaml": _CAP, "shared.yaml": _SHARED.replace("NAMESPACE", halves)})
    gate.start()
    try:
        until("it is reported", lambda: _report(cluster, resource, halves) is not None, _WITHIN, gate.log)
        report = _report(cluster, resource, halves)
        assert report is not None
        assert _rules(cluster, halves) >= {"TG101", "TG204", "TG207"}
        rounds = _whole(gate)
        until("it was audited again", lambda: _whole(gate) >= rounds + 2, _WITHIN, gate.log)
        same = _report(cluster, resource, halves)
        assert same is not None
        assert same["metadata"]["resourceVersion"] == report["metadata"]["resourceVersion"]
        assert 'tallygate_audit_findings{by="rule",enforcement="deny",policy="whole-units"}' in gate.metrics()
        assert "tallygate_audit_interval_seconds 1.0" in gate.metrics()
        until(
            "the shared cap is reported", lambda: "exceeded: used 2" in _read_cluster_report(cluster), _WITHIN, gate.log
        )
        _scale(cluster, halves, 3)
        until("and by how much", lambda: "exceeded: used 3" in _read_cluster_report(cluster), _WITHIN, gate.log)
        _scale(cluster, halves, 1)
        until("the cap is over no more", lambda: "TG207" not in _rules(cluster, halves), _WITHIN, gate.log)
        assert "TG101" in _rules(cluster, halves)
        _mend(cluster, halves)
        until("it is removed", lambda: _report(cluster, resource, halves) is None, _WITHIN, gate.log)
        until("so is the other", lambda: _SHARED_NAME not in _read_cluster_report(cluster), _WITHIN, gate.log)
        assert '"audit-' not in gate.log()
        if log is not None:
            until(
                "every right is used",
                lambda: not _find_unused(log, start),
                _WITHIN,
                lambda: str(_find_unused(log, start)),
            )
            assert [each for each in read_requests(log, start) if each.is_forbidden] == []
    finally:
        gate.stop()


def test_the_rights_to_the_older_reports_are_those_to_the_newer_ones() -> None:
    newer, older = (
        {(each.verb, each.resource) for each in _collect_audit_rights() if each.group == group} for group in _REPORTS
    )
    assert older == {(verb, resource.replace("reports", "policyreports")) for verb, resource in newer}


def _auditing(kubeconfig: Path) -> tuple[str, ...]:
    return "--cluster=kubeconfig", f"--kubeconfig={kubeconfig}", "--audit-interval=1s"


def _collect_audit_rights() -> frozenset[Right]:
    return collect_rights(yaml.safe_load_all((KUSTOMIZE / "components" / "audit" / "rbac.yaml").read_text()))


def _find_unused(log: Path, start: int) -> list[Right]:
    """Return the rights of the component that were not used, but for the older definitions of reports."""
    return sorted(
        each
        for each in _collect_audit_rights() - {each.right for each in read_requests(log, start)}
        if each.group != _REPORTS[1]
    )


def _scale(cluster: Cluster, namespace: str, replicas: int) -> None:
    scale = f"/apis/apps/v1/namespaces/{namespace}/deployments/halves/scale"
    api(cluster.kubeconfig).patch(scale, {"spec": {"replicas": replicas}})


def _read_cluster_report(cluster: Cluster) -> str:
    """Return the results of the cluster's own report about the shared cap."""
    report = api(cluster.kubeconfig).find("/apis/openreports.io/v1alpha1/clusterreports/tallygate")
    results = report.get("results", []) if report is not None else []
    return json.dumps([each for each in results if each["policy"] == _SHARED_NAME])


def _rules(cluster: Cluster, namespace: str) -> set[str]:
    report = _report(cluster, "reports.openreports.io", namespace)
    return {result["rule"] for result in report["results"]} if report is not None else set()


def _whole(gate: GateProcess) -> int:
    found = re.search(r'^tallygate_audit_runs_total\{result="completed"\} (\d+)', gate.metrics(), re.MULTILINE)
    return int(found[1]) if found else 0
