"""`tallygate audit` against an API server: listed kinds, missing permissions, and output after a failure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.policy.load import SHIPPED_POLICIES
from tests.cli.installed_gate import CONFIGURATIONS, install_gate
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster

DEPLOYMENTS = "/apis/apps/v1/deployments"
REPORTS = "/apis/openreports.io/v1alpha1"


def audit(cluster: SmallCluster, folder: Path, *arguments: str) -> Result:
    """Run `tallygate audit` with the shipped policies."""
    return audit_by_gate(cluster, folder, "--policies", str(SHIPPED_POLICIES), *arguments)


def audit_by_gate(cluster: SmallCluster, folder: Path, *arguments: str) -> Result:
    """Run `tallygate audit` with the policies of the gate in the cluster."""
    return CliRunner().invoke(
        root, ["audit", "--kubeconfig", str(write_kubeconfig(folder, cluster.server)), *arguments]
    )


def list_findings(result: Result) -> list[tuple[str, str]]:
    """Return object name and code of each finding."""
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return [(each["object"]["name"], each["code"]) for each in findings]


def create_deployment(name: str, gpus: str, where: str) -> Object:
    """Return a Deployment as the API server stores it."""
    container = {"name": "main", "resources": {"limits": {GPU: gpus}}}
    metadata = {"name": name, "namespace": where, "uid": f"u-{name}", "resourceVersion": "9"}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}


def test_the_whole_cluster_is_listed_by_kind(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as cluster:
        cluster.objects[DEPLOYMENTS] = [create_deployment("halves", "1500m", "team-a")]
        result = audit(cluster, tmp_path, "-o", "json")
    assert result.exit_code == 1, result.stderr
    assert list_findings(result) == [("halves", "TG101"), ("half", "TG101")]
    assert {path.rpartition("/")[2] for path in cluster.paths} == {
        "version",
        "apis",
        "namespaces",
        "pods",
        "nodes",
        "deviceclasses",
        "resourceslices",
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
        "priorityclasses",
        "runtimeclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "nodepools",
        "nodeclaims",
    }


_OWN_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: one-gpu, annotations: {tallygate.dev/why: one is enough}}
spec: {resources: [nvidia.com/gpu], checks: {perContainer: {max: 1}}}
"""


def test_without_policies_those_of_the_gate_are_applied(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("two", {GPU: "2"})]) as cluster:
        install_gate(cluster, {"rule.yaml": _OWN_RULE})
        result = audit_by_gate(cluster, tmp_path, "-o", "json")
    assert list_findings(result) == [("two", "TG105")]
    assert "shipped policies" not in result.output


@pytest.mark.parametrize(
    ("is_forbidden", "reason"),
    [(False, "no gate with policies is installed here"), (True, "the policies of the gate are unknown: ")],
    ids=["no gate", "no permission"],
)
def test_without_policies_of_a_gate_the_shipped_ones_are_named(
    tmp_path: Path, *, is_forbidden: bool, reason: str
) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("two", {GPU: "2"})]) as cluster:
        if is_forbidden:
            cluster.error_statuses[f"{CONFIGURATIONS}/mutatingwebhookconfigurations/tallygate"] = 403
        result = audit_by_gate(cluster, tmp_path)
    assert result.exit_code == 0, result.output
    assert reason in result.stderr
    assert "the shipped policies are applied: name others with --policies" in result.stderr


def test_an_audit_of_a_namespace_lists_only_its_objects(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace(name) for name in ("team-a", "team-b")]) as cluster:
        cluster.objects["/api/v1/namespaces/team-b/pods"] = [pod("half", {GPU: "500m"}, "team-b")]
        result = audit(cluster, tmp_path, "-n", "team-b", "-o", "json")
    assert list_findings(result) == [("half", "TG101")]
    others = [path for path in cluster.paths if "/namespaces/team-b/" not in path]
    classes = ["resource.k8s.io/v1/deviceclasses", "scheduling.k8s.io/v1/priorityclasses"]
    cluster_wide = [*classes, "node.k8s.io/v1/runtimeclasses"]
    assert others == ["/version", "/api/v1/namespaces", *(f"/apis/{each}" for each in cluster_wide), "/apis"]
    assert "whether there are nodes for pods was not asked" in result.stdout


def create_job_set(name: str, gpus: str) -> Object:
    """Return a JobSet as the API server stores it."""
    container = {"name": "main", "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}}}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    metadata = {"name": name, "namespace": "team-a", "uid": f"u-{name}", "resourceVersion": "9"}
    return {"metadata": metadata, "spec": {"replicatedJobs": [{"name": "workers", "template": template}]}}


@pytest.mark.parametrize("options", [(), ("-n", "team-a")], ids=["all", "one namespace"])
def test_kinds_of_other_projects_are_listed_in_the_version_that_is_served(
    tmp_path: Path, options: Sequence[str]
) -> None:
    where = "/namespaces/team-a" if options else ""
    job_sets = f"/apis/jobset.x-k8s.io/v1alpha2{where}/jobsets"
    workloads = f"/apis/kueue.x-k8s.io/v1beta1{where}/workloads"
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        cluster.objects |= {job_sets: [create_job_set("halves", "500m")], workloads: []}
        result = audit(cluster, tmp_path, "-o", "json", *options)
    assert list_findings(result) == [("halves", "TG101")]
    others = {path for path in cluster.paths if ".x-k8s.io" in path or ".io/v1alpha1" in path}
    assert others == {job_sets, workloads}


def test_a_kind_of_another_project_that_may_not_be_listed_is_a_remark(tmp_path: Path) -> None:
    job_sets = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as cluster:
        cluster.objects[job_sets] = [create_job_set("halves", "500m")]
        cluster.error_statuses[job_sets] = 403
        result = audit(cluster, tmp_path, "-o", "json")
    assert (result.exit_code, list_findings(result)) == (1, [("half", "TG101")])
    name = "jobsets.jobset.x-k8s.io"
    (remark,) = json.loads(result.stdout)["summary"]["remarks"]
    assert remark == f"{name} may not be listed by this account, so JobSet was not evaluated: grant list on {name}"


def test_without_discovery_the_kinds_of_kubernetes_are_audited(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as cluster:
        cluster.error_statuses["/apis"] = 403
        result = audit(cluster, tmp_path, "-o", "json")
    assert (result.exit_code, list_findings(result)) == (1, [("half", "TG101")])
    (remark,) = json.loads(result.stdout)["summary"]["remarks"]
    assert "does not report the kinds that it serves: the API server says 403: no, so no kinds of other" in remark


def test_a_missing_permission_is_one_sentence(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        cluster.error_statuses[DEPLOYMENTS] = 403
        result = audit(cluster, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"tallygate: {DEPLOYMENTS} cannot be listed at {cluster.server}: the API server says 403: no; "
        "the audit must be allowed to list it\n"
    )


def test_the_permission_for_device_classes_is_optional(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        cluster.error_statuses["/apis/resource.k8s.io/v1/deviceclasses"] = 403
        assert audit(cluster, tmp_path).exit_code == 0


def test_findings_are_printed_if_a_report_cannot_be_written(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as cluster:
        cluster.objects[REPORTS] = []  # installed
        cluster.error_statuses[f"{REPORTS}/reports"] = 403
        result = audit(cluster, tmp_path, "--report", "-o", "json")
    assert result.exit_code == 2
    assert list_findings(result) == [("half", "TG101")]
    (failure,) = json.loads(result.stdout)["summary"]["reports"]["failures"]
    assert failure.endswith("the API server says 403: no; the audit must be allowed to list it")


def test_an_audit_without_report_crds_ends_before_listing(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        result = audit(cluster, tmp_path, "--report")
    assert result.exit_code == 2
    assert result.stderr.startswith("tallygate: no reports are written: the cluster has no CustomResourceDefinition")
    assert "/api/v1/pods" not in cluster.paths


USAGE_ERRORS: Sequence[tuple[Sequence[str], str]] = (
    (("--report",), "--report needs a cluster: nothing is written into a snapshot"),
    (("--context", "there"), "--snapshot takes no --kubeconfig"),
    (("-n", "nowhere"), "namespace nowhere does not exist in "),
    (("--policies", "nowhere"), "nowhere"),
)


@pytest.mark.parametrize(("arguments", "sentence"), USAGE_ERRORS, ids=[" ".join(each[0]) for each in USAGE_ERRORS])
def test_a_usage_error_is_one_sentence(tmp_path: Path, arguments: Sequence[str], sentence: str) -> None:
    snapshot = write_snapshot(tmp_path, [namespace("team-a")])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


HOSTILE: dict[str, Object] = {
    "a string as spec": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": "x",
    },
    "a number as template": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"template": 5},
    },
    "a list of quantities": {
        "kind": "ResourceQuota",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"hard": [1]},
    },
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_unreadable_object_is_reported_and_hides_nothing(tmp_path: Path, case: str) -> None:
    half = pod("half", {GPU: "500m"})
    snapshot = write_snapshot(tmp_path, [namespace("team-a"), {"apiVersion": "v1", **HOSTILE[case]}, half])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), "-o", "json"])
    assert result.exit_code == 2
    assert list_findings(result) == [("half", "TG101")]
    summary = json.loads(result.stdout)["summary"]
    assert summary["unreadable"] == 1
    assert any("cannot be read" in remark for remark in summary["remarks"])


def test_names_send_no_control_characters(tmp_path: Path) -> None:
    evil = pod("half\x1b[2J\nerror", {GPU: "500m"})
    result = CliRunner().invoke(
        root, ["audit", "--snapshot", str(write_snapshot(tmp_path, [namespace("team-a"), evil]))]
    )
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert len(result.stdout.splitlines()) == 2


_LIMITED = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  hard: {nvidia.com/gpu: 4}
  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}
"""
_RECORDS = "/apis/coordination.k8s.io/v1/namespaces/tallygate-system/leases"


def _list_remarks(folder: Path, records: list[Object] | None, *, by_snapshot: bool) -> list[str]:
    """Return the remarks of an audit of team-a, which has an annotation, with these records; None: they are refused."""
    annotated = namespace("team-a")
    annotated["metadata"] |= {"uid": "u1", "annotations": {"limits.tallygate.dev/gpus": "nvidia.com/gpu=8"}}
    (folder / "gpus.yaml").write_text(_LIMITED)
    with run_small_cluster(namespaces=[annotated]) as cluster:
        cluster.objects[_RECORDS] = records or []
        if records is None:
            cluster.error_statuses[_RECORDS] = 403
        source = ["--kubeconfig", str(write_kubeconfig(folder, cluster.server))]
        if by_snapshot:
            written = CliRunner().invoke(root, ["snapshot", *source, str(folder / "now.json")])
            source = ["--snapshot", str(folder / "now.json")]
            assert written.exit_code == 0, written.stderr
            assert ("admitted annotations are left out" in written.stderr) is (records is None)
            assert "admin-of-limits" not in (folder / "now.json").read_text()
        result = CliRunner().invoke(root, ["audit", *source, "--policies", str(folder / "gpus.yaml"), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    remarks: list[str] = json.loads(result.stdout)["summary"]["remarks"]
    return [remark for remark in remarks if "admitted" in remark]


@pytest.mark.parametrize("by_snapshot", [False, True], ids=["of a cluster", "of a snapshot"])
def test_an_annotation_that_no_gate_admitted_is_a_remark(tmp_path: Path, *, by_snapshot: bool) -> None:
    admitted = {
        "metadata": {
            "name": "tallygate-limits.team-a",
            "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "limits"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "team-a", "uid": "u1"}],
            "annotations": {"limits.tallygate.dev/gpus": "nvidia.com/gpu=8"},
        },
        "spec": {"holderIdentity": "admin-of-limits"},
    }
    assert _list_remarks(tmp_path, [admitted], by_snapshot=by_snapshot) == []
    (remark,) = _list_remarks(tmp_path, [], by_snapshot=by_snapshot)
    assert remark.startswith(
        "the annotation limits.tallygate.dev/gpus of namespace team-a sets limits, and no gate has"
    )
    refused = _list_remarks(tmp_path, None, by_snapshot=by_snapshot)
    assert [remark.partition(":")[0] for remark in refused] == [
        *(() if by_snapshot else ("the gate's records of admitted annotations cannot be read",)),
        "it is unknown whether a gate admitted the annotations that set limits",
    ]
