"""The command line says what the cluster says: a real API server's answers, the gate's own, in every way of writing."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.conformance.errors import is_resource_field
from tests.conformance.sums import wrapping_names
from webhook.admission.request import Phase
from webhook.cli.app import root
from webhook.cli.sources.options import load_usable_policies
from webhook.gate.gate import Gate
from webhook.policy.load import SHIPPED_POLICIES
from webhook.state.in_memory import MemoryLedgers, UnknownNamespaces

CASES = Path(__file__).parents[1] / "conformance" / "cases" / "workload.jsonl"
Finding = dict[str, Any]


def cases() -> list[dict[str, Any]]:
    """Objects put to a real API server 1.36, with its answer; those left out on which its own integers wrap around."""
    read = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [case for case in read if not wrapping_names(case["object"])]


ALL = cases()


def check(folder: Path, text: str, *policies: Path) -> dict[int, list[Finding]]:
    """The findings about each document of a text."""
    (folder / "all.yaml").write_text(text)
    arguments = ["check", "-o", "json", *(part for path in policies for part in ("--policies", str(path)))]
    result = CliRunner().invoke(root, [*arguments, str(folder / "all.yaml")])
    assert result.exit_code in {0, 1}, result.stderr
    found: dict[int, list[Finding]] = {index: [] for index in range(len(ALL))}
    for finding in json.loads(result.stdout)["findings"]:
        found[finding["document"]].append(finding)
    return found


@pytest.fixture
def no_rules(tmp_path: Path) -> Path:
    """Policies that say nothing of these objects."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: none}\n"
        "spec: {resources: [example.org/nothing]}\n"
    )
    return rule


def test_there_are_cases() -> None:
    """Of both outcomes."""
    codes = [case["code"] for case in ALL]
    assert len(codes) > 100
    assert min(codes.count(201), codes.count(422)) > 30


def test_the_api_servers_refusals_are_errors_and_nothing_else_is(tmp_path: Path, no_rules: Path) -> None:
    """Object by object: refused for its resources, or not decoded, or neither."""
    found = check(tmp_path, "\n".join(json.dumps(case["object"]) for case in ALL), no_rules)
    for index, case in enumerate(ALL):
        refused = case["code"] == 400 or any(is_resource_field(cause["field"]) for cause in case["causes"] or ())
        errors = [finding for finding in found[index] if finding["level"] == "error"]
        assert bool(errors) == refused, (case, errors)
        assert all(finding["by"] in {"the API server", "tallygate"} for finding in errors)


def test_the_gate_and_the_command_line_refuse_the_same(wanted: dict[int, list[Finding]]) -> None:
    """By the shipped rules: the same codes at the same fields, for objects of every kind."""
    policies = load_usable_policies([SHIPPED_POLICIES])
    gate = Gate(
        policies=lambda: policies,
        namespaces=UnknownNamespaces(),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: "nonce",
    )
    for index, case in enumerate(ALL):
        ours = {(each["field"], each["code"]) for each in wanted[index] if each["by"].startswith("rule ")}
        assert ours == refusals(gate, case["object"]), case


def refusals(gate: Gate, manifest: dict[str, Any]) -> set[tuple[str, str]]:
    """Field and code of everything that the gate refuses at the creation of an object."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    request = {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "resource": {"group": group, "version": version, "resource": manifest["kind"].lower() + "s"},
        "name": manifest["metadata"]["name"],
        "namespace": manifest["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "you"},
        "object": manifest,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = json.loads(gate.admit(json.dumps(review).encode(), Phase.MUTATING, 1.0).body)["response"]
    causes = answer.get("status", {}).get("details", {}).get("causes", [])
    return {(cause["field"], re.findall(r"TG\d{3}", cause["message"])[-1]) for cause in causes}


STYLES: dict[str, Callable[[Any], str]] = {
    "yaml in blocks": lambda value: "---\n" + yaml.safe_dump(value, default_style=None),
    "yaml in one line": lambda value: "---\n" + yaml.safe_dump(value, default_flow_style=True, width=2**31),
    "yaml in quotes": lambda value: "---\n" + quoted(value),
    "json in one line": lambda value: json.dumps(value) + "\n",
    "json with tabs": lambda value: json.dumps(value, indent="\t") + "\n",
}


def quoted(value: Any) -> str:
    """YAML with every text in single quotes."""
    return yaml.dump(json.loads(json.dumps(value)), Dumper=_Quoting, default_flow_style=False)


class _Quoting(yaml.SafeDumper):
    """Writes every text in single quotes."""


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'"))


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Finding]]:
    """What is found where each object is a line of JSON."""
    return check(tmp_path_factory.mktemp("lines"), "\n".join(json.dumps(case["object"]) for case in ALL))


@pytest.mark.parametrize("style", STYLES)
def test_every_way_of_writing_gives_the_same_at_its_own_place(
    tmp_path: Path, style: str, wanted: dict[int, list[Finding]]
) -> None:
    """What is found does not depend on how it is written, and a finding about a resource stands at its key."""
    objects = [case["object"] for case in ALL]
    text = "".join(map(STYLES[style], objects))
    lines = text.splitlines()
    found = check(tmp_path, text)
    placed = 0
    for index, findings in found.items():
        assert sorted(map(told, findings)) == sorted(map(told, wanted[index]))
        for finding in findings:
            name = re.fullmatch(r".*\[([^\]]+)\]", finding["field"])
            if name and is_written(objects[index], finding["field"]):
                placed += 1
                at = lines[finding["line"] - 1][finding["column"] - 1 :]
                assert at.lstrip("\"'").startswith(name[1]), (finding, at)
    assert placed > 100


def told(finding: Finding) -> tuple[str, ...]:
    """A finding without place and wording: a bare `1e3` is the same quantity as "1e3", but is printed as 1k."""
    return finding["level"], finding["code"], finding["by"], finding["field"]


def is_written(manifest: Any, field: str) -> bool:
    """Whether a field is there."""
    for name, key in re.findall(r"\.?([^.\[\]]+)|\[([^\]]*)\]", field):
        step = name or key
        if isinstance(manifest, list):
            manifest = manifest[int(step)]
        elif isinstance(manifest, dict) and step in manifest:
            manifest = manifest[step]
        else:
            return False
    return True
