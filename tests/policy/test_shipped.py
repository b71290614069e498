"""The policies that are shipped: clean, useful to an editor, and what the guide says of them."""

import re
from pathlib import Path

import pytest

from tests.policy.reference import reference
from webhook.policy.load import load_policies
from webhook.policy.model import Checks, Enforcement, Equality, Schedulable
from webhook.policy.parse import parse
from webhook.policy.schema import SCHEMA_FILE_NAME, read_schema_text

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"
FILES = sorted([*POLICIES.glob("*.yaml"), *POLICIES.glob("examples/*.yaml")])
GUIDE = (POLICIES / "README.md").read_text(encoding="utf-8")
YAML_BLOCKS = re.findall(r"```yaml\n(apiVersion.*?)```", GUIDE, re.DOTALL)


def _id(path: Path) -> str:
    return path.stem


def test_there_are_a_default_and_examples() -> None:
    assert POLICIES / "default.yaml" in FILES
    assert len(FILES) > 6


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_is_clean(path: Path) -> None:
    assert load_policies([path]).findings == ()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_is_clean_beside_the_default(path: Path) -> None:
    assert load_policies([POLICIES / "default.yaml", path]).findings == ()


def test_all_examples_together_are_clean() -> None:
    assert load_policies([POLICIES, POLICIES / "examples"]).findings == ()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_shows_an_editor_the_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    said, _, where = first.partition("=")
    assert said == "# yaml-language-server: $schema"
    schema_file = (path.parent / where).resolve()
    assert schema_file.name == SCHEMA_FILE_NAME
    assert schema_file.read_text(encoding="utf-8") == read_schema_text()


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_each_says_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[1] == "#"
    assert lines[2].startswith("# ")


def test_the_default_is_names_whole_units_and_equal_limits_and_a_word_when_there_is_no_node() -> None:
    names, units, nodes = load_policies([POLICIES / "default.yaml"]).policies.rules
    assert names.resources == ("*",)
    assert (names.checks.well_formed_name, names.checks.whole_quantity) == (True, False)
    assert names.checks.requests_equal_limits is Equality.IGNORE
    assert units.resources == ("extended", "opaque")
    assert (units.checks.whole_quantity, units.checks.requests_equal_limits) == (True, Equality.REQUIRE)
    assert names.enforcement is units.enforcement is Enforcement.DENY
    assert names.match.namespaces is units.match.namespaces is None
    assert (nodes.resources, nodes.enforcement) == (("*",), Enforcement.WARN)
    assert nodes.checks == Checks(
        well_formed_name=False,
        whole_quantity=False,
        requests_equal_limits=Equality.IGNORE,
        advertised=True,
        schedulable=Schedulable.NEVER,
    )


def test_the_default_is_in_the_package_too() -> None:
    """Where no path is named it is in force, and the folder of policies is not installed."""
    installed = ROOT / "webhook" / "policy" / "shipped"
    assert [path.name for path in sorted(installed.iterdir())] == ["default.yaml"]
    assert (installed / "default.yaml").read_bytes() == (POLICIES / "default.yaml").read_bytes()


def test_every_policy_of_the_guide_is_clean() -> None:
    assert len(YAML_BLOCKS) == 2
    for block in YAML_BLOCKS:
        assert parse([("README.md", block.encode())]).findings == ()


def test_every_file_the_guide_points_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert links
    assert all((POLICIES / link).exists() for link in links)


def test_the_reference_is_what_the_schema_says() -> None:
    """Write it anew with `python -m tests.policy.reference > docs/policies.md`."""
    assert (ROOT / "docs" / "policies.md").read_text(encoding="utf-8") == reference()
