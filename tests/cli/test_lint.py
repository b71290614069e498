"""`tallygate lint`: what the linter finds, as the command tells it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.case import working_in
from webhook.cli.app import root
from webhook.policy.load import SHIPPED_POLICIES

GOOD = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [nvidia.com/gpu]}
"""
SLIP = GOOD.replace("resources:", "resource:")
WARNED = GOOD.replace("[nvidia.com/gpu]", "[nvidia.com/gpu, nvidia.com/gpus]")


def lint(folder: Path, *arguments: str) -> Result:
    """Run it in a folder."""
    with working_in(folder):
        return CliRunner().invoke(root, ["lint", *arguments])


def test_right_files_are_clean(tmp_path: Path) -> None:
    """With a count of what was read."""
    (tmp_path / "rule.yaml").write_text(GOOD)
    result = lint(tmp_path, ".")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 policy in 1 file: nothing found\n")


def test_errors_fail(tmp_path: Path) -> None:
    """Each at its line."""
    (tmp_path / "rule.yaml").write_text(SLIP)
    result = lint(tmp_path, "rule.yaml")
    assert result.exit_code == 1
    assert "rule.yaml:4:8" in result.stdout
    assert "TG307" in result.stdout


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_fail_when_strict(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """And only then."""
    (tmp_path / "rule.yaml").write_text(WARNED)
    result = lint(tmp_path, *arguments, "-o", "json", "rule.yaml")
    assert {finding["level"] for finding in json.loads(result.stdout)["findings"]} == {"warning"}
    assert result.exit_code == code


@pytest.mark.parametrize("output", ["table", "json", "yaml", "github", "sarif"])
def test_every_form_names_place_and_code(tmp_path: Path, output: str) -> None:
    """As for check."""
    (tmp_path / "rule.yaml").write_text(SLIP)
    text = lint(tmp_path, "rule.yaml", "-o", output).stdout
    assert "rule.yaml" in text
    assert "TG307" in text


def test_a_path_that_cannot_be_read_is_misuse(tmp_path: Path) -> None:
    """Beside what can be read."""
    (tmp_path / "rule.yaml").write_text(SLIP)
    result = lint(tmp_path, "rule.yaml", "gone.yaml")
    assert result.exit_code == 2
    assert "TG307" in result.stdout
    assert "gone.yaml:1:1" in result.stdout


def test_without_a_path_nothing_is_linted(tmp_path: Path) -> None:
    """It must be named."""
    result = lint(tmp_path)
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_the_shipped_policies_are_clean_and_in_the_repository() -> None:
    """What an installed tallygate falls back to is what policies/default.yaml says."""
    result = CliRunner().invoke(root, ["lint", "--strict", str(SHIPPED_POLICIES)])
    assert result.exit_code == 0
    repository = Path(__file__).parents[2]
    assert (SHIPPED_POLICIES / "default.yaml").read_bytes() == (repository / "policies" / "default.yaml").read_bytes()
