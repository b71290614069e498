"""The commands and kinds that policies define: each reads their pods, from the policies or from its files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tests.cli.usage.clusters import GPU, namespace, write_snapshot
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import run_small_cluster

KIND = """\
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: gangs}
spec:
  group: batch.example.com
  kind: GangJob
  resource: gangjobs
  versions: [v1]
  pods: [{template: "spec.groups[*].template", count: ["spec.groups[*].replicas"]}]
---
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: pools}
spec:
  group: batch.example.com
  kind: Pool
  resource: pools
  versions: [v1]
  scope: Cluster
  pods: [{podSpec: spec.pod}]
"""
POLICIES = f"""{KIND}---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: whole}}
spec: {{resources: [{GPU}]}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: in-teams}}
spec: {{resources: [{GPU}], match: {{namespaces: {{include: ["*"]}}}}, checks: {{perPod: {{max: 2}}}}}}
"""
NODES = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}\n"
GANG_PATH = "/apis/batch.example.com/v1/gangjobs"


def write_gang(amount: str, version: str = "v1", kind: str = "GangJob", resource: str = GPU) -> str:
    """Return a GangJob with two pods."""
    container = f"{{name: main, resources: {{limits: {{{resource}: {amount}}}}}}}"
    groups = f"[{{replicas: 2, template: {{spec: {{containers: [{container}]}}}}}}]"
    head = f"apiVersion: batch.example.com/{version}\nkind: {kind}\nmetadata: {{name: g}}\n"
    return f"{head}spec: {{groups: {groups}}}\n"


def run(folder: Path, arguments: Sequence[str], **files: str) -> Result:
    """Run a command on files, whose names have `_` in the place of a dot; `@NAME` is the path of a file."""
    for name, text in {**files, "policies_yaml": POLICIES, "kind_yaml": KIND, "nodes_yaml": NODES}.items():
        (folder / name.replace("_", ".")).write_text(text)
    return CliRunner().invoke(root, [str(folder / each[1:]) if each[:1] == "@" else each for each in arguments])


CHECK = ("check", "--policies", "@policies.yaml", "@gang.yaml")


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        pytest.param(write_gang("1"), "nothing found", id="a gang without problems"),
        pytest.param(write_gang("3"), "spec.groups[0].template.spec: the pod", id="a rule checks its pods"),
        pytest.param(write_gang("1", "v2"), "is not read", id="another version is not read"),
        pytest.param(write_gang("1", kind="Gangjob"), "write kind: GangJob", id="another letter case is an error"),
        pytest.param(
            write_gang("1").replace("containers", "contaimers"),
            'did you mean "containers"?',
            id="a template has the fields of a pod",
        ),
        pytest.param(
            write_gang("1").replace("groups: [", "groups: ").replace("}]\n", "}\n").replace("]}\n", "}\n"),
            "spec.groups: expected a list, got a mapping",
            id="a mapping in the place of the list",
        ),
        pytest.param(
            "apiVersion: batch.example.com/v1\nkind: Pool\nmetadata: {name: p}\nspec: {pod: {containers: "
            f"[{{name: main, resources: {{limits: {{{GPU}: 3}}}}}}]}}}}\n",
            "nothing found",
            id="a cluster-scoped object is in no namespace",
        ),
    ],
)
def test_check_reads_the_kinds_of_its_policies(tmp_path: Path, gang: str, expected: str) -> None:
    result = run(tmp_path, CHECK, gang_yaml=gang)
    assert expected in result.output


def test_without_a_definition_a_gang_is_not_read(tmp_path: Path) -> None:
    result = run(tmp_path, ("check", "@gang.yaml"), gang_yaml=write_gang("1"))
    assert "the kind GangJob of batch.example.com/v1 is not read" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            ("predict", "--snapshot", "@nodes.yaml", "-f", "@kind.yaml", "-f", "@gang.yaml"),
            "fits now: 2 of 2 pods",
            id="predict",
        ),
        pytest.param(
            ("headroom", "--snapshot", "@nodes.yaml", "@kind.yaml", "@gang.yaml"), "4 more fit", id="headroom"
        ),
        pytest.param(("explain", "pod", "-f", "@kind.yaml", "-f", "@gang.yaml"), "GangJob g", id="explain pod"),
    ],
)
def test_commands_without_policies_read_definitions_in_their_files(
    tmp_path: Path, arguments: Sequence[str], expected: str
) -> None:
    result = run(tmp_path, arguments, gang_yaml=write_gang("1", resource="cpu"))
    assert result.exit_code == 0, result.output
    assert expected in result.stdout
    without = run(tmp_path, [each.replace("@kind", "@nodes") for each in arguments], gang_yaml=write_gang("1"))
    assert without.exit_code == 2
    assert "neither a pod nor a pod template" in without.stderr


def test_explain_pod_reads_the_kinds_of_its_policies(tmp_path: Path) -> None:
    arguments = ("explain", "pod", "-f", "@gang.yaml", "--policies", "@policies.yaml")
    result = run(tmp_path, arguments, gang_yaml=write_gang("1"))
    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1)
    assert "GangJob g" in result.stdout


def test_explain_pod_reports_the_objects_that_it_does_not_read(tmp_path: Path) -> None:
    files = f"{write_gang('1')}---\n{write_gang('1', kind='Farm')}"
    result = run(tmp_path, ("explain", "pod", "-f", "@kind.yaml", "-f", "@gang.yaml"), gang_yaml=files)
    assert result.exit_code == 1
    assert "GangJob g" in result.stdout
    assert "gang.yaml:7:7: Farm g: the kind Farm of batch.example.com/v1 is not read: its pods" in result.stderr


def test_a_mistake_in_a_definition_in_a_file_is_a_usage_error(tmp_path: Path) -> None:
    wrong = KIND.replace("resource: pools", "resource: Pools")
    result = run(tmp_path, ("explain", "pod", "-f", "@wrong.yaml"), wrong_yaml=wrong)
    assert result.exit_code == 2
    assert 'wrong.yaml:11:1: spec.resource: "Pools" is not the plural of a kind' in result.stderr
    assert result.stderr.endswith("(TG314)\n")


def test_audit_reads_the_kinds_of_its_policies(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "500m"}}}]}}
    gang = {
        "apiVersion": "batch.example.com/v1",
        "kind": "GangJob",
        "metadata": {"name": "g", "namespace": "team-a"},
        "spec": {"groups": [{"template": template}]},
    }
    snapshot = write_snapshot(tmp_path, [namespace("team-a"), gang])
    result = run(tmp_path, ("audit", "--policies", "@policies.yaml", "--snapshot", str(snapshot), "-o", "json"))
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["object"]["kind"], finding["code"]) == ("GangJob", "TG101")


@pytest.mark.parametrize(
    ("status", "remark"),
    [
        pytest.param(200, "", id="it is listed"),
        pytest.param(404, "", id="the cluster does not serve it"),
        pytest.param(403, "gangjobs.batch.example.com may not be listed", id="it may not be listed"),
    ],
)
def test_an_audit_of_a_cluster_lists_the_kind(tmp_path: Path, status: int, remark: str) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "500m"}}}]}}
    gang = {"metadata": {"name": "g", "namespace": "team-a", "uid": "u"}, "spec": {"groups": [{"template": template}]}}
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        cluster.objects[GANG_PATH] = [gang]
        if status != 200:
            cluster.error_statuses[GANG_PATH] = status
        options = ("--policies", "@policies.yaml", "--kubeconfig", str(write_kubeconfig(tmp_path, cluster.server)))
        result = run(tmp_path, ("audit", *options, "-o", "json"))
    report = json.loads(result.stdout)
    assert [each["code"] for each in report["findings"]] == (["TG101"] if status == 200 else [])
    assert GANG_PATH in cluster.paths
    assert any(remark in each for each in report["summary"]["remarks"]) is bool(remark)


def create_object(api_version: str, kind: str, name: str = "o") -> dict[str, Any]:
    """Return an object with a pod template."""
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "500m"}}}]}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"template": template},
    }


def test_an_audit_of_a_snapshot_names_the_kinds_with_pods_that_are_not_read(tmp_path: Path) -> None:
    """Name them by kind and group: a kind with the name of one that is read is another one."""
    objects = [
        create_object("example.com/v1", "Farm"),
        create_object("example.com/v1", "Farm", "p"),
        create_object("example.com/v1", "Notebook"),
        create_object("kubeflow.org/v1", "Notebook"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team-a"}},
    ]
    snapshot = write_snapshot(tmp_path, [namespace("team-a"), *objects])
    result = run(tmp_path, ("audit", "--policies", "@policies.yaml", "--snapshot", str(snapshot), "-o", "json"))
    report = json.loads(result.stdout)
    assert [each["object"]["kind"] for each in report["findings"]] == ["Notebook"]
    assert (
        "these kinds have pods and are not read, so they were not evaluated: Farm of example.com (2), Notebook of "
        "example.com (1)"
    ) in report["summary"]["remarks"]


def test_an_audit_of_a_cluster_names_a_kind_that_is_served_in_other_versions_only(tmp_path: Path) -> None:
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        cluster.objects["/apis/batch.example.com/v2/gangjobs"] = []
        options = ("--policies", "@policies.yaml", "--kubeconfig", str(write_kubeconfig(tmp_path, cluster.server)))
        result = run(tmp_path, ("audit", *options, "-o", "json"))
    remarks = json.loads(result.stdout)["summary"]["remarks"]
    assert "GangJob of batch.example.com is served in v2, and read in v1 only, so it was not evaluated" in remarks


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param(
            write_gang("1", "v2"),
            "the kind GangJob of batch.example.com/v2 is not read: its pods (spec.groups[0].template.spec.containers) "
            "are not checked; batch.example.com/v1 is read",
            id="another version of a kind of the policies",
        ),
        pytest.param(
            write_gang("1", kind="Farm"),
            "the kind Farm of batch.example.com/v1 is not read: its pods (spec.groups[0].template.spec.containers) are "
            "not checked; a WorkloadKind can define the kind",
            id="a kind without a definition",
        ),
    ],
)
def test_a_kind_that_is_not_read_is_named_with_what_is_read(tmp_path: Path, text: str, finding: str) -> None:
    assert finding in run(tmp_path, CHECK, gang_yaml=text).stdout
