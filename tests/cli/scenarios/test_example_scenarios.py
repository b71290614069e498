"""The scenarios of the example policies: they pass with these policies and fail without them."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root

EXAMPLES = Path(__file__).parents[3] / "policies" / "examples"
TESTS = sorted((EXAMPLES / "tests").glob("*.yaml"))
LENIENT_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec:
  namespaces: {include: [nowhere]}
  hard: {nvidia.com/gpu: 1000, amd.com/gpu: 1000, limits.memory: 1Ti, pods: 1000, gpu-slices: 1000, gpu-memory: 1000000}
  counts: {gpu-slices: {weights: {nvidia.com/gpu: 1}}, gpu-memory: {product: [nvidia.com/gpu, nvidia.com/gpumem]}}
"""
CAPS = (
    "gpus-vision",
    "gpus-others",
    "batch-pool",
    "gpus-on-trial",
    "gpus-gangs",
    "team-gpus",
    "project-gpus",
    "mig-slices",
    "hami-memory",
    "serving-gpus",
    "gpus-whole",
    "annotated-gpus",
    "team-quarter",
    "team-pool",
)


def test_the_examples_have_scenarios() -> None:
    assert [path.name for path in TESTS] == [
        "addresses.yaml",
        "cap-by-annotation.yaml",
        "cap-guarantees.yaml",
        "cap-per-label.yaml",
        "cap-per-team.yaml",
        "cap-percent.yaml",
        "cap-raised.yaml",
        "cap-shared.yaml",
        "claims.yaml",
        "fill.yaml",
        "gang-jobs.yaml",
        "gpus-1-2-4-8.yaml",
        "hami-memory.yaml",
        "mig-slices.yaml",
        "node-resources.yaml",
        "node-shapes.yaml",
        "rolling-surge.yaml",
        "run-time.yaml",
        "warn-first.yaml",
        "whole-jobs.yaml",
    ]
    assert all((EXAMPLES / path.name).exists() for path in TESTS)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_scenario_passes(path: Path) -> None:
    result = CliRunner().invoke(root, ["test", str(path)])
    assert (result.exit_code, result.stdout.count("FAILED")) == (0, 0), result.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_scenario_fails_without_its_policies(path: Path, tmp_path: Path) -> None:
    """Fail, since a scenario that passes with any policies checks nothing."""
    (tmp_path / "nothing.yaml").write_text("---\n".join(LENIENT_CAP % name for name in CAPS))
    (tmp_path / "test.yaml").write_text(re.sub(r"\.\./[a-z0-9-]+\.yaml", "nothing.yaml", path.read_text()))
    result = CliRunner().invoke(root, ["test", str(tmp_path / "test.yaml")])
    assert result.exit_code == 1, result.output
    assert "FAILED" in result.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_each_scenario_names_its_schema_for_editors(path: Path) -> None:
    found = re.match(r"# yaml-language-server: \$schema=(\S+)\n#\n# .+\n", path.read_text())
    assert found, "the schema, then a comment about its purpose"
    assert (path.parent / found[1]).is_file()
