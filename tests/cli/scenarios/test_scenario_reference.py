"""docs/reference/scenarios.md agrees with the schema, and its example passes."""

import re
from pathlib import Path

from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.scenarios.scenario_reference import create_reference

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "scenarios.md"


def test_the_page_is_up_to_date() -> None:
    """Compare the page with the output of `python -m tests.cli.scenarios.scenario_reference`."""
    assert PAGE.read_text(encoding="utf-8") == create_reference()


def test_the_example_of_page_and_help_passes(tmp_path: Path) -> None:
    """Run the example with the example policies."""
    (example,) = re.findall(r"```yaml\n# yaml-.*\n((?:.|\n)*?)```", PAGE.read_text())
    indented = "".join(f"      {line}\n" for line in example.splitlines())
    assert indented in CliRunner().invoke(root, ["test", "--help"]).stdout
    text = example.replace("../", f"{ROOT / 'policies' / 'examples'}/")
    (tmp_path / "a.yaml").write_text(text)
    assert CliRunner().invoke(root, ["test", str(tmp_path / "a.yaml")]).exit_code == 0


def test_the_example_of_the_guide_passes(tmp_path: Path) -> None:
    """Run the example with the example policies."""
    guide = (ROOT / "policies" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# yaml-language-server: \S+scenarios/schema.json\n(?:.|\n)*?)```", guide)
    caps = ROOT / "policies" / "examples" / "cap-per-team.yaml"
    (tmp_path / "a.yaml").write_text(example.replace("../gpus.yaml", str(caps)))
    assert CliRunner().invoke(root, ["test", str(tmp_path / "a.yaml")]).exit_code == 0
