"""Every command reads every known kind, with the number of pods that its controllers make."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.policy.known_kinds import KNOWN_KINDS
from tests.cli.test_explain import UNKNOWN_LIMIT_RANGES
from tests.cli.usage.clusters import GPU, namespace, write_snapshot

KINDS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "known_kinds.yaml").read_text())["kinds"]
NAMESPACED = {(each.group, each.kind) for each in KNOWN_KINDS if each.is_namespaced}
NODES = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
    f"status: {{allocatable: {{cpu: '64', memory: 64Gi, pods: '110', {GPU}: '64'}}}}\n"
)
UNKNOWN_DEFAULTS = (
    "tallygate: the limitranges and priorityclasses of this cluster are not known: new pods count as they are written\n"
)
"""What predictions report on a snapshot without these kinds."""
RULE = (
    "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: few}\n"
    f"spec: {{resources: [{GPU}], checks: {{perPod: {{max: 3}}}}}}\n"
)
CAP = (
    "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {{name: gpus}}\n"
    "spec: {{hard: {{nvidia.com/gpu: {hard}}}}}\n"
)


def parametrize(*needed: str) -> pytest.MarkDecorator:
    """Return the mark that runs a test for each kind of which these numbers are given and not 0."""
    chosen = [each for each in KINDS if all(each.get(name) for name in needed)]
    return pytest.mark.parametrize("known", chosen, ids=lambda each: f"{each['kind']} of {each['apiVersion']}")


def create_object(known: dict[str, Any], gpus: int = 1) -> dict[str, Any]:
    """Return the object of a kind, whose containers request this many GPUs."""
    metadata: dict[str, Any] = {"name": "sample", "annotations": known.get("annotations", {})}
    if (known["apiVersion"].rpartition("/")[0], known["kind"]) in NAMESPACED:
        metadata["namespace"] = "team-a"
    body = {name: known[name] for name in ("apiVersion", "kind")} | {"metadata": metadata, "spec": known["spec"]}
    created: dict[str, Any] = json.loads(json.dumps(body).replace(f'"{GPU}": 1', f'"{GPU}": {gpus}'))
    return created


def run(folder: Path, *arguments: str, known: dict[str, Any], gpus: int = 1, **files: str) -> Result:
    """Run a command in a folder that has the object of a kind, and files, whose names have `_` in place of a dot."""
    texts = {"object_json": json.dumps(create_object(known, gpus)), "nodes_yaml": NODES, "rule_yaml": RULE, **files}
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)
    return CliRunner().invoke(root, [str(folder / each[1:]) if each[:1] == "@" else each for each in arguments])


def test_the_table_has_every_known_kind_in_its_newest_version_once() -> None:
    written = [(each["apiVersion"], each["kind"]) for each in KINDS]
    assert sorted(written) == sorted((f"{each.group}/{each.versions[0]}", each.kind) for each in KNOWN_KINDS)


def test_the_table_has_a_maximum_for_every_kind_with_one() -> None:
    scaled = {
        (each.group, each.kind) for each in KNOWN_KINDS if any(pods.most for pods in each.pod_sets if pods.is_used)
    }
    written = {(each["apiVersion"].rpartition("/")[0], each["kind"]) for each in KINDS if each.get("most")}
    assert written == scaled


@parametrize()
def test_predict_places_its_pods(tmp_path: Path, known: dict[str, Any]) -> None:
    result = run(tmp_path, "predict", "--snapshot", "@nodes.yaml", "-f", "@object.json", "-o", "json", known=known)
    items = json.loads(result.stdout)["items"]
    assert {each["verdict"] for each in items} == {"fits now"}
    assert sum(each["placed"] for each in items) == (known["pods"] or 1)


@parametrize()
def test_headroom_shows_how_many_more_of_its_pods_fit(tmp_path: Path, known: dict[str, Any]) -> None:
    result = run(tmp_path, "headroom", "--snapshot", "@nodes.yaml", "@object.json", known=known)
    assert (result.exit_code, result.stderr) == (0, UNKNOWN_DEFAULTS)
    assert f"{known['kind']} " in result.stdout
    assert ": 64 more fit, on 1 node" in result.stdout


@parametrize()
def test_explain_adds_up_the_requests_of_its_pods(tmp_path: Path, known: dict[str, Any]) -> None:
    result = run(tmp_path, "explain", "pod", "-f", "@object.json", known=known, gpus=2)
    assert (result.exit_code, result.stderr) == (0, UNKNOWN_LIMIT_RANGES)
    assert result.stdout.startswith((f"{known['kind']} team-a/sample  ", f"{known['kind']} sample  "))
    assert any(line.split() == [f"requests.{GPU}", "2"] for line in result.stdout.splitlines())


@parametrize()
def test_check_and_audit_apply_the_rules_to_its_pods(tmp_path: Path, known: dict[str, Any]) -> None:
    policies = ("--policies", "@rule.yaml", "--output=json")
    checked = json.loads(run(tmp_path, "check", *policies, "@object.json", known=known, gpus=4).stdout)
    stored = copy.deepcopy(create_object(known, 4))
    stored["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    snapshot = write_snapshot(tmp_path, [namespace("team-a"), stored])
    audited = json.loads(run(tmp_path, "audit", *policies, "--snapshot", str(snapshot), known=known).stdout)
    fields = [{each["field"] for each in report["findings"]} for report in (checked, audited)]
    assert fields[0] == fields[1]
    assert fields[0]
    for report in (checked, audited):
        assert {each["code"] for each in report["findings"]} == {"TG108"}
        assert {each["object"]["kind"] for each in report["findings"]} == {known["kind"]}


@parametrize("pods")
def test_the_simulated_controller_makes_its_pods(tmp_path: Path, known: dict[str, Any]) -> None:
    expected = {"pods": {"created": known["pods"], "missing": 0}}
    namespaces: dict[str, Any] = {"team-a": {}}
    scenario = {
        "name": "s",
        "namespaces": namespaces,
        "steps": [{"create": {"manifest": create_object(known)}, "expect": expected}],
    }
    result = run(tmp_path, "test", "@scenario.yaml", known=known, scenario_yaml=json.dumps(scenario))
    assert result.exit_code == 0, result.output


@parametrize("pods")
def test_a_cap_for_fewer_pods_is_reported_with_their_number(tmp_path: Path, known: dict[str, Any]) -> None:
    cap = CAP.format(hard=known["pods"] - 1 or 1)
    gpus = 1 if known["pods"] > 1 else 2
    result = run(tmp_path, "check", "--policies", "@cap.yaml", "@object.json", known=known, gpus=gpus, cap_yaml=cap)
    assert f"{known['pods'] * gpus} {GPU}, cap gpus of this namespace has hard" in result.stdout
    assert "TG204" in result.stdout
    enough = CAP.format(hard=max(known.get("most", 0), known["pods"]))
    fits = run(tmp_path, "check", "--policies", "@cap.yaml", "@object.json", known=known, cap_yaml=enough)
    assert fits.exit_code == 0
    assert "TG408" in fits.stdout if known.get("per_node") else fits.stdout == ""


@parametrize("most")
def test_a_cap_below_its_own_maximum_is_a_warning(tmp_path: Path, known: dict[str, Any]) -> None:
    cap = CAP.format(hard=known["most"] - 1)
    result = run(tmp_path, "check", "--policies", "@cap.yaml", "@object.json", known=known, cap_yaml=cap)
    assert f"request {known['most']} {GPU}, cap gpus of this namespace has hard {known['most'] - 1}" in result.stdout
    assert "warning" in result.stdout
    assert "TG214" in result.stdout
