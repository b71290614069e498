"""`tallygate explain`: codes and sums of requests."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.webhook.cli.app import root
from tallygate.webhook.cli.output import code_catalog

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


def explain(*arguments: str, text: str = "") -> Result:
    """Run `tallygate explain` with a text on stdin."""
    return CliRunner().invoke(root, ["explain", *arguments], input=text)


def test_every_code_is_listed_without_an_argument() -> None:
    lines = explain().stdout.splitlines()
    assert lines[0].split() == ["CODE", "NAME", "WHAT"]
    assert [line.split()[0] for line in lines[1:]] == [code.number for code in code_catalog.ALL_CODES]


def test_a_code_is_explained() -> None:
    """Print its summary, its explanation, and both examples."""
    code = code_catalog.get_code("TG101")
    text = explain("not-whole").stdout
    for part in (
        "TG101 not-whole",
        code.summary,
        code.explanation,
        "This fails:",
        "This passes:",
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
    assert result.stderr == ""
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
    assert result.stderr == f"note: <stdin>:6:1: Pod team-a/trainer: {note}\n"
    assert len(json.loads(result.stdout)["items"][0]["claimsQuota"]) == claimed


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


@pytest.mark.parametrize(
    ("arguments", "text", "sentence"),
    [
        pytest.param(("TG999",), "", "there is no code 'TG999'", id="no such code"),
        pytest.param(("pod",), "", "which pod? name a file", id="no file"),
        pytest.param(("TG101", "-f", "x"), "", "-f belongs to `tallygate explain pod -f FILE`", id="a file for a code"),
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
