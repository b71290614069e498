"""The command line agrees with a real API server, in every syntax of a manifest."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.conformance.errors import is_resource_field
from tests.conformance.sums import find_wrapping_names

CASES = Path(__file__).parents[1] / "conformance" / "cases" / "workload.jsonl"
Finding = dict[str, Any]


def load_cases() -> list[dict[str, Any]]:
    """Return objects with the response of a real API server 1.36, without those whose sums overflow there.

    Each LimitRange is in a namespace of its own: it was created alone, and none of the pods was created beside it.
    """
    read = [json.loads(line) for line in CASES.read_text().splitlines()]
    for number, case in enumerate(read):
        if case["object"]["kind"] == "LimitRange":
            case["object"]["metadata"]["namespace"] = f"limits-{number}"
    return [case for case in read if not find_wrapping_names(case["object"])]


CASES_OF_WORKLOADS = load_cases()


def check(folder: Path, text: str, *policies: Path) -> dict[int, list[Finding]]:
    """Return the findings about each document of a text."""
    (folder / "all.yaml").write_text(text)
    arguments = ["check", "-o", "json", *(part for path in policies for part in ("--policies", str(path)))]
    result = CliRunner().invoke(root, [*arguments, str(folder / "all.yaml")])
    assert result.exit_code in {0, 1}, result.stderr
    found: dict[int, list[Finding]] = {index: [] for index in range(len(CASES_OF_WORKLOADS))}
    for finding in json.loads(result.stdout)["findings"]:
        found[finding["document"]].append(finding)
    return found


@pytest.fixture
def no_rules(tmp_path: Path) -> Path:
    """Return policies without rules for these objects."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: none}\n"
        "spec: {resources: [example.org/nothing]}\n"
    )
    return rule


def test_both_outcomes_have_cases() -> None:
    """Check that both outcomes are frequent."""
    codes = [case["code"] for case in CASES_OF_WORKLOADS]
    assert len(codes) > 100
    assert min(codes.count(201), codes.count(422)) > 30


def test_exactly_the_rejections_of_the_api_server_are_errors(tmp_path: Path, no_rules: Path) -> None:
    """Compare each object: rejected for its resources, not decoded, or accepted."""
    found = check(tmp_path, "\n".join(json.dumps(case["object"]) for case in CASES_OF_WORKLOADS), no_rules)
    for index, case in enumerate(CASES_OF_WORKLOADS):
        rejected = case["code"] == 400 or any(is_resource_field(cause["field"]) for cause in case["causes"] or ())
        errors = [finding for finding in found[index] if finding["level"] == "error"]
        assert bool(errors) == rejected, (case, errors)
        assert all(finding["by"] in {"the API server", "tallygate"} for finding in errors)


STYLES: dict[str, Callable[[Any], str]] = {
    "yaml in blocks": lambda value: "---\n" + yaml.safe_dump(value, default_style=None),
    "yaml in one line": lambda value: "---\n" + yaml.safe_dump(value, default_flow_style=True, width=2**31),
    "yaml in quotes": lambda value: "---\n" + quote_texts(value),
    "json in one line": lambda value: json.dumps(value) + "\n",
    "json with tabs": lambda value: json.dumps(value, indent="\t") + "\n",
}


def quote_texts(value: Any) -> str:
    """Format YAML with every text in single quotes."""
    return yaml.dump(json.loads(json.dumps(value)), Dumper=_QuotingDumper, default_flow_style=False)


class _QuotingDumper(yaml.SafeDumper):
    """A dumper that writes every text in single quotes."""


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'")
)


@pytest.fixture(scope="module")
def json_findings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Finding]]:
    """Return the findings for objects that are lines of JSON."""
    return check(tmp_path_factory.mktemp("lines"), "\n".join(json.dumps(case["object"]) for case in CASES_OF_WORKLOADS))


@pytest.mark.parametrize("style", STYLES)
def test_every_syntax_has_the_same_findings_at_its_own_positions(
    tmp_path: Path, style: str, json_findings: dict[int, list[Finding]]
) -> None:
    """Compare the findings with those of JSON, and the position of each with the key of its resource."""
    objects = [case["object"] for case in CASES_OF_WORKLOADS]
    text = "".join(map(STYLES[style], objects))
    lines = text.splitlines()
    found = check(tmp_path, text)
    position_count = 0
    for index, findings in found.items():
        assert sorted(map(to_tuple, findings)) == sorted(map(to_tuple, json_findings[index]))
        for finding in findings:
            name = re.fullmatch(r".*\[([^\]]+)\]", finding["field"])
            if name and has_field(objects[index], finding["field"]):
                position_count += 1
                at = lines[finding["line"] - 1][finding["column"] - 1 :]
                assert at.lstrip("\"'").startswith(name[1]), (finding, at)
    assert position_count > 100


def to_tuple(finding: Finding) -> tuple[str, ...]:
    """Return a finding without position and message: `1e3` and "1e3" are one quantity, but one is printed as 1k."""
    return finding["level"], finding["code"], finding["by"], finding["field"]


def has_field(manifest: Any, field: str) -> bool:
    """Return whether an object has a field."""
    for name, key in re.findall(r"\.?([^.\[\]]+)|\[([^\]]*)\]", field):
        step = name or key
        if isinstance(manifest, list):
            manifest = manifest[int(step)]
        elif isinstance(manifest, dict) and step in manifest:
            manifest = manifest[step]
        else:
            return False
    return True
