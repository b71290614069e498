"""docs/scenarios.md says what the schema says, and its example is one."""

import re
from pathlib import Path

from click.testing import CliRunner

from tests.cli.scenarios.reference import reference
from webhook.cli.app import root

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "scenarios.md"


def test_the_page_is_up_to_date() -> None:
    """Write it anew with `python -m tests.cli.scenarios.reference > docs/scenarios.md`."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_the_examples_in_page_and_help_are_one_and_hold(tmp_path: Path) -> None:
    """Beside the example policies, which they name."""
    (example,) = re.findall(r"```yaml\n# yaml-.*\n((?:.|\n)*?)```", PAGE.read_text())
    indented = "".join(f"      {line}\n" for line in example.splitlines())
    assert indented in CliRunner().invoke(root, ["test", "--help"]).stdout
    text = example.replace("../", f"{ROOT / 'policies' / 'examples'}/")
    (tmp_path / "a.yaml").write_text(text)
    assert CliRunner().invoke(root, ["test", str(tmp_path / "a.yaml")]).exit_code == 0


def test_the_example_of_the_guide_holds(tmp_path: Path) -> None:
    """Before the example policies."""
    guide = (ROOT / "policies" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# yaml-language-server: \S+scenarios/schema.json\n(?:.|\n)*?)```", guide)
    caps = ROOT / "policies" / "examples" / "cap-per-team.yaml"
    (tmp_path / "a.yaml").write_text(example.replace("../gpus.yaml", str(caps)))
    assert CliRunner().invoke(root, ["test", str(tmp_path / "a.yaml")]).exit_code == 0
