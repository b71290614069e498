"""`tallygate explain`: codes and sums of requests."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.answers import code_catalog
from tallygate.cli.app import root

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: trainer, namespace: team-a}
spec:
  template:
    spec:
      initContainers:
      - {name: proxy, restartPolicy: Always, resources: {limits: {nvidia.com/gpu: 1}}}
      - {name: warm, resources: {limits: {nvidia.com/gpu: 4}}}
      containers:
      - {name: train, resources: {limits: {nvidia.com/gpu: 2, memory: 1Gi}, requests: {cpu: 250m}}}
      overhead: {cpu: 100m}
"""


UNKNOWN_LIMIT_RANGES = (
    "note: the LimitRanges of the cluster are not known: what they give to containers is not in the sums; "
    "--snapshot has them\n"
)


def explain(*arguments: str, text: str = "") -> Result:
    """Run `tallygate explain` with a text on stdin."""
    return CliRunner().invoke(root, ["explain", *arguments], input=text)


def test_every_code_is_listed_without_an_argument() -> None:
    lines = explain().stdout.splitlines()
    assert lines[0].split() == ["CODE", "NAME", "WHAT"]
    assert [line.split()[0] for line in lines[1:]] == [code.number for code in code_catalog.list_codes()]


def test_a_code_is_explained() -> None:
    """Print its summary, its explanation, and both examples."""
    code = code_catalog.get_code("TG101")
    text = explain("not-whole").stdout
    for part in (
        "TG101 not-whole",
        code.summary,
        code.explanation,
        "This gets TG101:",
        "This does not:",
        "        nvidia.com/gpu: 1500m",
    ):
        assert part in text


@pytest.mark.parametrize("arguments", [(), ("TG101",), ("limit-missing",)], ids=str)
def test_codes_are_printed_as_data(arguments: tuple[str, ...]) -> None:
    """Print the same fields for one code and for all."""
    found: list[dict[str, str]] = json.loads(explain(*arguments, "-o", "json").stdout)["items"]
    assert found == yaml.safe_load(explain(*arguments, "-o", "yaml").stdout)["items"]
    assert all(set(each) == {"code", "name", "what", "why", "fails", "passes"} for each in found)


def test_a_sum_is_printed_with_its_terms() -> None:
    """Print the terms of requests, limits and the quota."""
    text = explain("pod", "-f", "-", text=WORKLOAD).stdout
    assert "Deployment team-a/trainer  <stdin>:1:1  spec.template.spec" in text
    lines = [line for line in text.splitlines() if len(line.split()) > 1]
    rows = {(line.split()[0], line.split()[1]): line for line in reversed(lines)}
    how = 'max(container 2 + sidecar 1, init step "warm" 4 + sidecars 1 beneath)'
    assert how in rows["nvidia.com/gpu", "5"]
    assert "350 milli-cpu" in rows["cpu", "350m"]
    assert rows["memory", "1Gi"].split()[2] == "1073741824"
    assert ("requests.nvidia.com/gpu", "5") in rows


def test_a_sum_is_printed_as_data() -> None:
    """Print for every term whether it counts."""
    found: list[dict[str, Any]] = json.loads(explain("pod", "-f", "-", "-o", "json", text=WORKLOAD).stdout)["items"]
    assert found == yaml.safe_load(explain("pod", "-f", "-", "-o", "yaml", text=WORKLOAD).stdout)["items"]
    assert (found[0]["object"], found[0]["field"]) == ("Deployment team-a/trainer", "spec.template.spec")
    gpu = found[0]["requests"]["nvidia.com/gpu"]
    assert (gpu["quantity"], gpu["amount"], gpu["unit"]) == ("5", 5, "whole")
    terms = {term["who"]: (term["role"], term["quantity"], term["beneath"], term["counts"]) for term in gpu["terms"]}
    assert terms["train"] == ("container", "2", "0", False)
    assert terms["proxy"] == ("sidecar", "1", "0", False)
    assert terms["warm"] == ("init step", "4", "1", True)
    assert found[0]["requests"]["cpu"]["unit"] == "milli"
    assert found[0]["limits"]["nvidia.com/gpu"]["quantity"] == "5"
    assert found[0]["quota"]["requests.nvidia.com/gpu"] == "5"


def test_every_pod_of_a_folder_is_explained(tmp_path: Path) -> None:
    """Omit objects without requests."""
    (tmp_path / "a.yaml").write_text(WORKLOAD)
    (tmp_path / "b.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}))
    (tmp_path / "c.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    found = json.loads(explain("pod", "-f", str(tmp_path), "-o", "json").stdout)["items"]
    assert [each["object"] for each in found] == ["Deployment team-a/trainer", "Pod b"]
    assert found[1]["requests"] == {}


CLAIMS = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two, namespace: team-a}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.example.com, count: 2}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer, namespace: team-a}
spec:
  containers: [{name: train, resources: {limits: {nvidia.com/gpu: 1}}}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: two}]
"""
CLASS = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {extendedResourceName: nvidia.com/gpu}
"""


def test_the_claims_that_templates_make_for_a_pod_are_charged_by_a_quota_too() -> None:
    result = explain("pod", "-f", "-", text=CLAIMS + CLASS)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["QUOTA", "KEY", "CHARGE", "OF", "CLAIMS"] in rows
    assert ["requests.nvidia.com/gpu", "1", "2"] in rows
    assert ["pods", "1", "-"] in rows
    assert result.stderr == UNKNOWN_LIMIT_RANGES
    (found,) = json.loads(explain("pod", "-f", "-", "-o", "json", text=CLAIMS + CLASS).stdout)["items"]
    assert found["claimsQuota"] == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.example.com.deviceclass.resource.k8s.io/devices": "2",
        "requests.deviceclass.resource.kubernetes.io/gpu.example.com": "2",
        "requests.nvidia.com/gpu": "2",
    }


@pytest.mark.parametrize(
    ("text", "note", "claimed"),
    [
        pytest.param(
            CLAIMS, "DeviceClass gpu.example.com is not in the files: its extended resource is unknown", 3, id="class"
        ),
        pytest.param(
            CLAIMS.replace("{name: two", "{name: other") + CLASS,
            "the claims of templates are not in the sum: ResourceClaimTemplate two is unknown",
            0,
            id="template",
        ),
    ],
)
def test_a_note_names_what_the_files_lack(text: str, note: str, claimed: int) -> None:
    result = explain("pod", "-f", "-", "-o", "json", text=text)
    assert result.stderr == f"{UNKNOWN_LIMIT_RANGES}note: <stdin>:6:1: Pod team-a/trainer: {note}\n"
    assert len(json.loads(result.stdout)["items"][0]["claimsQuota"]) == claimed


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


@pytest.mark.parametrize(
    ("arguments", "text", "sentence"),
    [
        pytest.param(("TG999",), "", "there is no code 'TG999'", id="no such code"),
        pytest.param(("pod",), "", "which pod? name a file", id="no file"),
        pytest.param(("TG101", "-f", "x"), "", "-f belongs to `tallygate explain pod -f FILE`", id="a file for a code"),
        pytest.param(("TG101", "TG102"), "", "TG102 belongs to `tallygate explain pod -f FILE`", id="two codes"),
        pytest.param(("pod", "missing.yaml"), "", "missing.yaml:1:1: cannot be read", id="an argument"),
        pytest.param(("pod", "-f", "missing.yaml"), "", "missing.yaml:1:1: cannot be read", id="a missing file"),
        pytest.param(("pod", "-f", "-"), "a: [", "<stdin>:2:1: this is not YAML", id="a broken file"),
        pytest.param(("pod", "-f", "-"), "kind: Pod", "<stdin>:1:1: the object has no apiVersion", id="half an object"),
        pytest.param(("pod", "-f", "-"), "a: b", "-: it contains neither a pod", id="no pod"),
        pytest.param(
            ("pod", "-f", "-"),
            POD + "spec: []",
            "<stdin>:4:1: spec: expected a mapping, got a list",
            id="a wrong shape",
        ),
        pytest.param(
            ("pod", "-f", "-"),
            POD + "spec: {containers: [{resources: {limits: {cpu: two}}}]}",
            "<stdin>:1:1: quantities must match the regular expression",
            id="no quantity",
        ),
    ],
)
def test_a_usage_error_is_one_sentence(arguments: tuple[str, ...], text: str, sentence: str) -> None:
    """Print the position, and exit with code 2."""
    result = explain(*arguments, text=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tallygate: {sentence}")


CAPS = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec:
  namespaces: {%s}
  hard: {gpu-slices: 56, gpu-memory: 100, limits.memory: 1Gi, pods: 1}
  counts:
    gpu-slices: {weights: {nvidia.com/mig-1g.10gb: 1, nvidia.com/gpu: 7}}
    gpu-memory: {product: [nvidia.com/gpu, nvidia.com/gpumem]}
"""


def test_the_amounts_under_caps_are_explained(tmp_path: Path) -> None:
    """Explain them for the caps of the namespace, also for one that selects it by labels, which are unknown."""
    selectors = {"own": "include: [team-a]", "other": "include: [team-b]", "labels": "selector: {matchLabels: {a: b}}"}
    policies = tmp_path / "caps.yaml"
    policies.write_text("---\n".join(CAPS % each for each in selectors.items()))
    text = WORKLOAD.replace("nvidia.com/gpu: 2,", "nvidia.com/gpu: 2, nvidia.com/gpumem: 10,")
    found = explain("pod", "-f", "-", "--policies", str(policies), "-o", "json", text=text)
    (item,) = json.loads(found.stdout)["items"]
    of_own = [(each["name"], each["amount"], each["how"]) for each in item["caps"] if each["cap"] == "own"]
    assert sorted(of_own) == [
        ("gpu-memory", 20, "2 nvidia.com/gpu × 10 nvidia.com/gpumem = 20"),
        ("gpu-slices", 35, "5 nvidia.com/gpu × 7 = 35"),
        ("limits.memory", 2**30, "container 1Gi + overhead 0 = 1Gi"),
        ("pods", 1, "one pod"),
    ]
    assert {each["cap"] for each in item["caps"]} == {"own", "labels"}
    table = explain("pod", "-f", "-", "--policies", str(policies), text=text).stdout
    assert "5 nvidia.com/gpu × 7 = 35" in table


def test_policies_belong_to_the_explanation_of_pods(tmp_path: Path) -> None:
    refused = explain("TG101", "--policies", str(tmp_path))
    assert refused.exit_code == 2
    assert "--policies belongs to `tallygate explain pod -f FILE`" in refused.stderr


LIMIT_RANGE = """
apiVersion: v1
kind: LimitRange
metadata: {name: each, namespace: team-a}
spec: {limits: [{type: Container, defaultRequest: {cpu: 2}, default: {cpu: 3, nvidia.com/gpu: 1}}]}
---"""
OTHER_LIMIT_RANGE = LIMIT_RANGE.replace("each", "other").replace("cpu: 3", "cpu: 4")
RUNTIME_CLASS = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
---"""
SANDBOXED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: trainer, namespace: team-a}
spec:
  template:
    spec:
      runtimeClassName: kata
      containers: [{name: train, resources: {limits: {memory: 1Gi}}}]
"""
STORED = """
apiVersion: v1
kind: Pod
metadata: {name: trainer, namespace: team-a, uid: u1}
spec:
  runtimeClassName: kata
  containers: [{name: train, resources: {limits: {memory: 1Gi}, requests: {memory: 1Gi}}}]
"""
BOTH = {"cpu": "2250m", "memory": "1Gi", "nvidia.com/gpu": "1"}
SET_BY_LIMIT_RANGER = (
    "LimitRanger plugin set: cpu, nvidia.com/gpu request for container train; "
    "cpu, nvidia.com/gpu limit for container train"
)
OVERHEAD = "RuntimeClass kata gives the overhead"
UNKNOWN_CLASS = "the overhead of RuntimeClass kata is not known, and is not in the sum"
DIFFERENT = "LimitRanges of its namespace differ in a default: the first that is listed decides; none is in the sum"
NAMESPACE = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: team-a, labels: {team: a}}}\n---"
EMPTY = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: LimitRangeList, items: []}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClassList, items: []}
---"""


@pytest.mark.parametrize(
    ("files", "snapshot", "requests", "notes"),
    [
        pytest.param(
            LIMIT_RANGE + RUNTIME_CLASS + SANDBOXED, None, BOTH, [SET_BY_LIMIT_RANGER, OVERHEAD], id="of the files"
        ),
        pytest.param(
            SANDBOXED, LIMIT_RANGE + RUNTIME_CLASS, BOTH, [SET_BY_LIMIT_RANGER, OVERHEAD], id="of the snapshot"
        ),
        pytest.param(
            LIMIT_RANGE + SANDBOXED, EMPTY + RUNTIME_CLASS, BOTH, [SET_BY_LIMIT_RANGER, OVERHEAD], id="of both"
        ),
        pytest.param(SANDBOXED, None, {"memory": "1Gi"}, [UNKNOWN_CLASS], id="neither is known"),
        pytest.param(SANDBOXED, EMPTY, {"memory": "1Gi"}, [], id="the cluster has neither"),
        pytest.param(
            LIMIT_RANGE + OTHER_LIMIT_RANGE + SANDBOXED,
            EMPTY + RUNTIME_CLASS,
            {"cpu": "250m", "memory": "1Gi"},
            [OVERHEAD, DIFFERENT],
            id="two LimitRanges differ",
        ),
        pytest.param(
            LIMIT_RANGE + RUNTIME_CLASS + SANDBOXED.replace("team-a", "team-b"),
            EMPTY,
            {"cpu": "250m", "memory": "1Gi"},
            [OVERHEAD],
            id="a LimitRange of another namespace",
        ),
        pytest.param(LIMIT_RANGE + RUNTIME_CLASS + STORED, None, {"memory": "1Gi"}, [], id="a stored pod has all"),
    ],
)
def test_a_pod_counts_as_admission_completes_it(
    tmp_path: Path, files: str, snapshot: str | None, requests: dict[str, str], notes: list[str]
) -> None:
    """Count defaults of LimitRanges and the overhead of a RuntimeClass, and name them; say what is not known."""
    arguments = ["pod", "-f", "-", "-o", "json"]
    if snapshot is not None:
        (tmp_path / "now.yaml").write_text(NAMESPACE + snapshot.removesuffix("---"))
        arguments += ["--snapshot", str(tmp_path / "now.yaml")]
    result = explain(*arguments, text=files)
    (item,) = json.loads(result.stdout)["items"]
    assert {name: each["quantity"] for name, each in item["requests"].items()} == requests
    assert item["quota"].get("requests.cpu") == requests.get("cpu")
    lines = result.stderr.splitlines(keepends=True)
    general = [UNKNOWN_LIMIT_RANGES] if snapshot is None and "uid" not in files else []
    assert lines[: len(general)] == general
    assert [each.partition("trainer: ")[2].strip() for each in lines[len(general) :]] == notes


def test_the_caps_of_a_pod_count_what_admission_gives_it(tmp_path: Path) -> None:
    """Count it under caps, also by labels of a namespace of the snapshot, and say what a cap counts that is unknown."""
    (tmp_path / "caps.yaml").write_text(CAPS % ("labels", "selector: {matchLabels: {team: a}}"))
    (tmp_path / "now.yaml").write_text(NAMESPACE + LIMIT_RANGE + RUNTIME_CLASS.removesuffix("---"))
    arguments = ("pod", "-f", "-", "-o", "json", "--policies", str(tmp_path / "caps.yaml"))
    known = explain(*arguments, "--snapshot", str(tmp_path / "now.yaml"), text=SANDBOXED)
    amounts = {each["name"]: each["amount"] for each in json.loads(known.stdout)["items"][0]["caps"]}
    assert (amounts["gpu-slices"], amounts["limits.memory"]) == (7, 2**30)
    lacking = explain(*arguments, text=SANDBOXED.replace("memory: 1Gi", "cpu: 1"))
    assert "cap labels counts limits.memory, which containers lack: whether a LimitRange gives it" in lacking.stderr


def test_a_snapshot_belongs_to_the_explanation_of_pods(tmp_path: Path) -> None:
    refused = explain("TG101", "--snapshot", str(tmp_path))
    assert refused.exit_code == 2
    assert "--snapshot belongs to `tallygate explain pod -f FILE`" in refused.stderr
