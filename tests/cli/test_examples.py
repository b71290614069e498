"""The examples of the catalogue are true: what is said to fail does so with this very code, the other does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from webhook.accounting.problem import Code
from webhook.cli.app import root
from webhook.cli.output import code_catalog
from webhook.policy.load import SHIPPED_POLICIES

_CONTAINER = {"resources"}
_QUOTA = {"hard", "scopes", "scopeSelector"}
PLACED = ("TG112", "TG113", "TG114", "TG115")
CHECKED = [code for code in code_catalog.ALL_CODES if code.number < "TG2" and code.number not in PLACED]
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
NOTHING = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: nothing}
spec: {resources: [example.org/nothing]}
"""


def manifest(fragment: str) -> dict[str, Any]:
    """An object with the fragment where it belongs: a container, a pod, a quota, a limit range or a node."""
    read: dict[str, Any] = yaml.safe_load(fragment)
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


def found(folder: Path, code: Code, fragment: str) -> set[str]:
    """The codes that check finds in an object with the fragment, by policies that speak of this code."""
    policies = folder / "policies.yaml"
    policies.write_text(
        NOTHING if code.number < "TG1" else SHIPPED_POLICIES.joinpath("default.yaml").read_text() + "---\n" + BOUNDS
    )
    arguments = ["check", "-o", "json", "--policies", str(policies), "-"]
    result = CliRunner().invoke(root, arguments, input=json.dumps(manifest(fragment)))
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}


@pytest.mark.parametrize("code", CHECKED, ids=lambda code: code.number)
def test_what_fails_fails(tmp_path: Path, code: Code) -> None:
    """With this code."""
    assert code.number in found(tmp_path, code, code.invalid_example)


@pytest.mark.parametrize("code", CHECKED, ids=lambda code: code.number)
def test_what_passes_passes(tmp_path: Path, code: Code) -> None:
    """As far as this code goes."""
    assert code.number not in found(tmp_path, code, code.valid_example)


NODES = {"TG112": 8, "TG113": 8, "TG114": 4, "TG115": 4}
"""Codes of what is judged by nodes, and how many GPUs the one node of the example has."""
HELD = {"TG115": 2}
"""How many of them a pod of a lower priority holds."""
ROOM = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: room}
spec: {resources: ["*"], checks: {advertised: true, schedulable: not-now}}
"""


def placed(folder: Path, number: str, fragment: str) -> set[str]:
    """The codes that check finds beside a node."""
    allocatable = {"pods": "110", "nvidia.com/gpu": str(NODES[number])}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    holder = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": str(HELD.get(number, 0))}}}]}
    held = {
        "kind": "Pod",
        "metadata": {"name": "old", "uid": "old"},
        "spec": {"nodeName": "n", "priority": -1, **holder},
    }
    (folder / "now.json").write_text(json.dumps({"kind": "List", "items": [node, held]}))
    (folder / "room.yaml").write_text(ROOM)
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
    arguments = ["check", "-o", "json", "--policies", str(folder / "room.yaml"), "--snapshot", str(folder / "now.json")]
    result = CliRunner().invoke(root, [*arguments, "-"], input=json.dumps(body))
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}


@pytest.mark.parametrize("number", PLACED)
def test_examples_of_what_nodes_say_are_true_too(tmp_path: Path, number: str) -> None:
    """Beside the node that they speak of."""
    code = code_catalog.get_code(number)
    assert placed(tmp_path, number, code.invalid_example) == {number}
    assert placed(tmp_path, number, code.valid_example) == set()


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
WRAPPED: dict[str, Callable[[str], str]] = {
    "TG401": lambda text: f"apiVersion: v1\nkind: Pod\n{text}",
    "TG403": lambda text: text,
    "TG404": lambda text: POD + text,
    "TG405": lambda text: POD + "spec:\n  containers:\n  - resources:\n" + indented(text, 6),
    "TG407": lambda text: POD + "spec:\n  containers:\n  - resources:\n" + indented(text, 6),
}
"""Codes of manifests: how their examples become whole ones."""


def indented(text: str, by: int) -> str:
    """A block a few columns to the right."""
    return "".join(f"{'':{by}}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("number", WRAPPED)
def test_examples_of_manifests_are_true_too(number: str) -> None:
    """Text by text, since what is wrong with them is how they are written."""
    code = code_catalog.get_code(number)
    assert number in codes(WRAPPED[number](code.invalid_example))
    assert number not in codes(WRAPPED[number](code.valid_example))


def codes(text: str) -> set[str]:
    """What check finds in a text."""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=text)
    return {finding["code"] for finding in json.loads(result.stdout)["findings"]}
