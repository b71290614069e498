"""The shipped policies: without findings, with a schema for editors, and as the guide describes them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallygate.policy.load import load_policies
from tallygate.policy.model import Checks, Enforcement, Equality, Schedulable
from tallygate.policy.parse import parse
from tallygate.policy.schema import SCHEMA_FILE_NAME, read_schema_text
from tests.policy.reference import FULL_EXAMPLES, render_reference

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"
FILES = sorted([*POLICIES.glob("*.yaml"), *POLICIES.glob("examples/*.yaml")])
GUIDE = (POLICIES / "README.md").read_text(encoding="utf-8")
YAML_BLOCKS = re.findall(r"```yaml\n(apiVersion.*?)```", GUIDE, re.DOTALL)


def _id(path: Path) -> str:
    return path.stem


def test_a_default_and_examples_exist() -> None:
    assert POLICIES / "default.yaml" in FILES
    assert len(FILES) > 6


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_has_no_findings(path: Path) -> None:
    assert load_policies([path]).findings == ()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_has_no_findings_together_with_the_default(path: Path) -> None:
    assert load_policies([POLICIES / "default.yaml", path]).findings == ()


def test_all_examples_together_have_no_findings() -> None:
    assert load_policies([POLICIES, POLICIES / "examples"]).findings == ()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_names_the_schema_for_editors(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    comment, _, schema_path = first.partition("=")
    assert comment == "# yaml-language-server: $schema"
    schema_file = (path.parent / schema_path).resolve()
    assert schema_file.name == SCHEMA_FILE_NAME
    assert schema_file.read_text(encoding="utf-8") == read_schema_text()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_begins_with_a_description(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[1] == "#"
    assert lines[2].startswith("# ")


_DEVICES = ("extended", "opaque", "deviceclass.resource.kubernetes.io/*")


def test_the_default_checks_names_whole_units_and_equal_limits_and_warns_of_missing_nodes() -> None:
    names, units, nodes = load_policies([POLICIES / "default.yaml"]).policies.rules
    assert names.resources == ("*",)
    assert (names.checks.well_formed_name, names.checks.whole_quantity) == (True, False)
    assert names.checks.requests_equal_limits is Equality.IGNORE
    assert units.resources == ("extended", "opaque")
    assert (units.checks.whole_quantity, units.checks.requests_equal_limits) == (True, Equality.REQUIRE)
    assert names.enforcement is units.enforcement is Enforcement.DENY
    assert names.match.namespaces is units.match.namespaces is None
    assert (nodes.resources, nodes.enforcement) == (_DEVICES, Enforcement.WARN)
    assert nodes.checks == Checks(
        well_formed_name=False,
        whole_quantity=False,
        requests_equal_limits=Equality.IGNORE,
        advertised=True,
        schedulable=Schedulable.NEVER,
    )


def test_the_package_contains_the_default() -> None:
    """Compare the default of the package, which is active if no path is given, with the repository's."""
    installed = ROOT / "webhook" / "tallygate" / "policy" / "shipped"
    assert [path.name for path in sorted(installed.iterdir())] == ["default.yaml"]
    assert (installed / "default.yaml").read_bytes() == (POLICIES / "default.yaml").read_bytes()


def test_every_policy_of_the_guide_has_no_findings() -> None:
    assert len(YAML_BLOCKS) == 5
    for block in YAML_BLOCKS:
        assert parse([("README.md", block.encode())]).findings == ()


def test_every_link_of_the_guide_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert links
    assert all((POLICIES / link).exists() for link in links)


def test_the_reference_is_generated_from_the_schema() -> None:
    """Compare with the schema; `python -m tests.policy.reference > docs/reference/policies.md` writes the page."""
    assert (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8") == render_reference()


@pytest.mark.parametrize(("kind", "text"), FULL_EXAMPLES.items())
def test_the_full_example_of_a_kind_has_every_field_of_its_spec_and_no_findings(kind: str, text: str) -> None:
    assert parse([(f"{kind}.yaml", text.encode())]).findings == ()
    section = render_reference().split(f"\n## {kind}\n")[1].split("\n## ")[0]
    headings = re.findall(r"^### `spec\.(\w+)(?:\.(\w+))?`$", section, re.MULTILINE)
    spec: dict[str, Any] = {}
    for document in yaml.safe_load_all(text):
        spec = document["spec"] | spec
    assert headings
    missing = [
        (field, inner)
        for field, inner in headings
        if field not in spec or (inner and isinstance(spec[field], dict) and inner not in spec[field])
    ]
    assert missing == []
