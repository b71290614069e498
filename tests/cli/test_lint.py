"""`tallygate lint`: output and exit codes for the findings of the linter."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.policy.schema import read_schema_text
from tests.cli.check_case import change_directory

GOOD = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [nvidia.com/gpu]}
"""
MISSPELT = GOOD.replace("resources:", "resource:")
DOUBTFUL = GOOD.replace("[nvidia.com/gpu]", "[nvidia.com/gpu, nvidia.com/gpus]")


def lint(folder: Path, *arguments: str) -> Result:
    """Run `tallygate lint` in a folder."""
    with change_directory(folder):
        return CliRunner().invoke(root, ["lint", *arguments])


def test_valid_files_have_no_findings(tmp_path: Path) -> None:
    """Print the number of files and policies."""
    (tmp_path / "rule.yaml").write_text(GOOD)
    result = lint(tmp_path, ".")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 policy in 1 file: nothing found\n")


def test_errors_fail(tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(MISSPELT)
    result = lint(tmp_path, "rule.yaml")
    assert result.exit_code == 1
    assert "rule.yaml:4:8" in result.stdout
    assert "TG307" in result.stdout


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_fail_when_strict(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "rule.yaml").write_text(DOUBTFUL)
    result = lint(tmp_path, *arguments, "-o", "json", "rule.yaml")
    assert {finding["level"] for finding in json.loads(result.stdout)["findings"]} == {"warning"}
    assert result.exit_code == code


@pytest.mark.parametrize("output", ["table", "json", "yaml", "github", "sarif"])
def test_every_format_has_position_and_code(tmp_path: Path, output: str) -> None:
    (tmp_path / "rule.yaml").write_text(MISSPELT)
    text = lint(tmp_path, "rule.yaml", "-o", output).stdout
    assert "rule.yaml" in text
    assert "TG307" in text


def test_an_unreadable_path_is_a_usage_error(tmp_path: Path) -> None:
    """Lint the other files too."""
    (tmp_path / "rule.yaml").write_text(MISSPELT)
    result = lint(tmp_path, "rule.yaml", "missing.yaml")
    assert result.exit_code == 2
    assert "TG307" in result.stdout
    assert "missing.yaml:1:1" in result.stdout


def test_a_broken_file_in_a_nested_folder_is_reported(tmp_path: Path) -> None:
    """Skip the scenarios beside it, and count them."""
    for name, text in (("rule.yaml", GOOD), ("teams/rule.yaml", MISSPELT), ("tests/t.yaml", "name: t\nsteps: []\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    result = lint(tmp_path, ".")
    assert result.exit_code == 1
    assert "teams/rule.yaml:4:8" in result.stdout
    assert "1 scenario skipped: `tallygate test` runs them" in result.stderr


def test_the_schema_and_a_kustomization_in_the_folder_are_skipped_and_counted(tmp_path: Path) -> None:
    """Follow the steps of the README, and those of an installation by kustomize."""
    (tmp_path / "rule.yaml").write_text(GOOD)
    (tmp_path / "schema.json").write_text(read_schema_text())
    (tmp_path / "kustomization.yaml").write_text("configMapGenerator: []\n")
    result = lint(tmp_path, ".")
    assert result.exit_code == 0, result.output
    assert "2 documents of other tools skipped: kustomization.yaml, schema.json" in result.stderr


def test_a_path_is_required(tmp_path: Path) -> None:
    result = lint(tmp_path)
    assert result.exit_code == 2
    assert "name files or folders" in result.stderr


def test_the_shipped_policies_are_valid_and_equal_to_those_of_the_repository() -> None:
    """Compare the policies of the package with policies/default.yaml."""
    result = CliRunner().invoke(root, ["lint", "--strict", str(SHIPPED_POLICIES)])
    assert result.exit_code == 0
    repository = Path(__file__).parents[2]
    assert (SHIPPED_POLICIES / "default.yaml").read_bytes() == (repository / "policies" / "default.yaml").read_bytes()
