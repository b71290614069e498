"""The examples of the catalogue of codes: the invalid one has a finding with this code, the valid one has none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tallygate.answers import code_catalog
from tallygate.answers.code_catalog import Code
from tallygate.cli.app import root
from tallygate.policy.load import SHIPPED_POLICIES

_CONTAINER = {"resources"}
_QUOTA = {"hard", "scopes", "scopeSelector"}
NODE_CODES = ("TG112", "TG113", "TG114", "TG115")
STORED_CODES = ("TG071", "TG121")
"""The codes of stored objects, which `check` does not find: names of before Kubernetes 1.8, and what is implied."""
WHOLE_MANIFESTS = ("TG024", "TG028", "TG029", "TG123", "TG124")
"""The codes whose examples are whole manifests."""
RULE_CODES = [
    code
    for code in code_catalog.list_codes()
    if code.number < "TG2" and code.number not in {*NODE_CODES, *STORED_CODES}
]
BOUNDS = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: bounds}
spec:
  resources: [nvidia.com/gpu]
  checks: {perContainer: {max: 32}, perPod: {max: 8}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: packs}
spec: {resources: [nvidia.com/gpu], checks: {perContainer: {multipleOf: 2}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: shapes}
spec: {resources: [nvidia.com/gpu], checks: {perContainer: {oneOf: [1, 2, 4, 8, 16]}}}
"""
CLAIMS = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: claims}
spec:
  resources: ["*.deviceclass.resource.k8s.io/devices"]
  checks:
    perClaim: {max: 8}
    devices: {classes: [gpu.example.com], allocationModes: [ExactCount], adminAccess: {}, selectors: required}
"""
IMPLIED = """\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: one-address-each}
spec: {resource: example.com/ip}
"""
DEADLINES = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: a-day}
spec: {resources: [nvidia.com/gpu], checks: {activeDeadlineSeconds: {max: 24h}}}
"""
DEADLINE_CODES = ("TG123", "TG124")
NOTHING = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: nothing}
spec: {resources: [example.org/nothing]}
"""


def manifest(fragment: str) -> dict[str, Any]:
    """Return an object with the fragment: in a container, pod, claim, quota, limit range or node."""
    read: dict[str, Any] = yaml.safe_load(fragment)
    if "devices" in read:
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": read}
    if "status" in read:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, **read}
    if read.keys() & _QUOTA:
        return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": read}
    if isinstance(read.get("limits"), list):
        return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": read}
    spec = read
    if read.keys() <= _CONTAINER:
        spec = {"containers": [{"name": "a", **read}], "resourceClaims": [{"name": "gpu"}, {"name": "nic"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def check_fragment(folder: Path, code: Code, fragment: str) -> set[str]:
    """Return the codes that check finds in an object with the fragment, by policies for this code."""
    policies = folder / "policies.yaml"
    shipped = SHIPPED_POLICIES.joinpath("default.yaml").read_text()
    own = DEADLINES if code.number in DEADLINE_CODES else f"{BOUNDS}---\n{CLAIMS}---\n{IMPLIED}"
    policies.write_text(NOTHING if code.number < "TG1" else f"{shipped}---\n{own}")
    arguments = ["check", "-o", "json", "--policies", str(policies), "-"]
    manifests = fragment if code.number in WHOLE_MANIFESTS else json.dumps(manifest(fragment))
    result = CliRunner().invoke(root, arguments, input=manifests)
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}


@pytest.mark.parametrize("code", RULE_CODES, ids=lambda code: code.number)
def test_invalid_examples_fail(tmp_path: Path, code: Code) -> None:
    assert code.number in check_fragment(tmp_path, code, code.invalid_example)


@pytest.mark.parametrize("code", RULE_CODES, ids=lambda code: code.number)
def test_valid_examples_pass(tmp_path: Path, code: Code) -> None:
    assert code.number not in check_fragment(tmp_path, code, code.valid_example)


NODES = {"TG112": 8, "TG113": 8, "TG114": 4, "TG115": 4}
"""The codes that depend on nodes, and the number of GPUs of the only node of each example."""
USED = {"TG115": 2}
"""The number of these GPUs that a pod of a lower priority uses."""
CAPACITY_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: capacity}
spec: {resources: ["*"], checks: {advertised: true, schedulable: not-now}}
"""


def check_with_node(folder: Path, number: str, fragment: str) -> set[str]:
    """Return the codes that check finds with a node in the snapshot."""
    allocatable = {"pods": "110", "nvidia.com/gpu": str(NODES[number])}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    containers = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": str(USED.get(number, 0))}}}]}
    low_priority_pod = {
        "kind": "Pod",
        "metadata": {"name": "old", "uid": "old"},
        "spec": {"nodeName": "n", "priority": -1, **containers},
    }
    (folder / "now.json").write_text(json.dumps({"kind": "List", "items": [node, low_priority_pod]}))
    (folder / "capacity.yaml").write_text(CAPACITY_RULE)
    read = yaml.safe_load(fragment)
    replicas = read.get("spec", {}).get("replicas")
    resources = read.get("resources", {"limits": {"nvidia.com/gpu": 2}})
    spec: dict[str, Any] = {"containers": [{"name": "a", "image": "a", "resources": resources}]}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    if replicas:
        labels = {"app": "p"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        made = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        body |= {"apiVersion": "apps/v1", "kind": "Deployment", "spec": made}
    arguments = [
        "check",
        "-o",
        "json",
        "--policies",
        str(folder / "capacity.yaml"),
        "--snapshot",
        str(folder / "now.json"),
    ]
    result = CliRunner().invoke(root, [*arguments, "-"], input=json.dumps(body))
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}


@pytest.mark.parametrize("number", NODE_CODES)
def test_examples_of_codes_that_depend_on_nodes_are_right(tmp_path: Path, number: str) -> None:
    code = code_catalog.get_code(number)
    assert check_with_node(tmp_path, number, code.invalid_example) == {number}
    assert check_with_node(tmp_path, number, code.valid_example) == set()


@pytest.mark.parametrize("number", STORED_CODES)
def test_the_examples_of_stored_pods_are_right(tmp_path: Path, number: str) -> None:
    """Audit a stored pod with each of the examples."""
    code = code_catalog.get_code(number)
    (tmp_path / "policies.yaml").write_text(IMPLIED)
    for fragment, expected in ((code.invalid_example, {code.number}), (code.valid_example, set[str]())):
        resources = yaml.safe_load(fragment)["resources"]
        resources["requests"] = resources.get("limits", {})
        metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "3"}
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "a", "resources": resources}]}}
        namespace = {"kind": "Namespace", "metadata": {"name": "default", "uid": "n", "resourceVersion": "2"}}
        (tmp_path / "now.json").write_text(json.dumps({"kind": "List", "items": [namespace, pod]}))
        options = ["--policies", str(tmp_path / "policies.yaml"), "--snapshot", str(tmp_path / "now.json")]
        result = CliRunner().invoke(root, ["audit", "-o", "json", *options])
        assert result.stdout, result.stderr
        codes = {finding["code"] for finding in json.loads(result.stdout)["findings"]}
        assert codes & {number} == expected


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
MANIFESTS: dict[str, Callable[[str], str]] = {
    "TG401": lambda text: f"apiVersion: v1\nkind: Pod\n{text}",
    "TG403": lambda text: text,
    "TG404": lambda text: POD + text,
    "TG405": lambda text: POD + "spec:\n  containers:\n  - resources:\n" + indent(text, 6),
    "TG407": lambda text: POD + "spec:\n  containers:\n  - resources:\n" + indent(text, 6),
}
"""The codes of manifests, and functions that turn their examples into manifests."""


def indent(text: str, by: int) -> str:
    """Indent a block by some columns."""
    return "".join(f"{'':{by}}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("number", MANIFESTS)
def test_examples_of_manifests_are_right(number: str) -> None:
    """Check the examples as texts, since their errors are errors of syntax."""
    code = code_catalog.get_code(number)
    assert number in check_text(MANIFESTS[number](code.invalid_example))
    assert number not in check_text(MANIFESTS[number](code.valid_example))


def check_text(text: str) -> set[str]:
    """Return the codes that check finds in a text."""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=text)
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}
