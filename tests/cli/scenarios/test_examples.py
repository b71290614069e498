"""The scenarios that are shipped with the example policies: they hold, and they would tell if those were not there."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.app import root

EXAMPLES = Path(__file__).parents[3] / "policies" / "examples"
TESTS = sorted((EXAMPLES / "tests").glob("*.yaml"))
NOTHING = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec: {namespaces: {include: [nowhere]}, hard: {nvidia.com/gpu: 1000, limits.memory: 1Ti, pods: 1000}}
"""
CAPS = ("gpus-vision", "gpus-others", "batch-pool", "gpus-on-trial")


def test_there_are_some() -> None:
    assert [path.name for path in TESTS] == [
        "cap-per-team.yaml",
        "cap-shared.yaml",
        "fill.yaml",
        "gpus-1-2-4-8.yaml",
        "warn-first.yaml",
    ]
    assert all((EXAMPLES / path.name).exists() for path in TESTS)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_goes_as_it_says(path: Path) -> None:
    result = CliRunner().invoke(root, ["test", str(path)])
    assert (result.exit_code, result.stdout.count("FAILED")) == (0, 0), result.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_fails_where_its_policies_are_not_in_force(path: Path, tmp_path: Path) -> None:
    """A test that holds whatever the policies say would be none."""
    (tmp_path / "nothing.yaml").write_text("---\n".join(NOTHING % name for name in CAPS))
    (tmp_path / "test.yaml").write_text(re.sub(r"\.\./[a-z0-9-]+\.yaml", "nothing.yaml", path.read_text()))
    result = CliRunner().invoke(root, ["test", str(tmp_path / "test.yaml")])
    assert result.exit_code == 1, result.output
    assert "FAILED" in result.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_tells_editors_where_its_schema_is(path: Path) -> None:
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n#\n# .+\n", path.read_text())
    assert found, "and says in a comment what it is for"
    assert (path.parent / found[1]).is_file()
