"""The commands that read files, where no extra is installed: one wrong import at the top of a module ends them all."""

import pytest

from tests.cli.test_extras import NO_CLUSTER, run_without


@pytest.mark.parametrize(
    "arguments",
    [
        "check e2e/manifests/one-dongle.yaml --strict",
        "lint policies",
        "test policies/examples/tests/fill.yaml",
        "init --for gpus --dry-run",
        "explain TG101",
        "explain pod -f e2e/manifests/one-dongle.yaml",
        "completion bash",
        "--version",
    ],
)
def test_commands_that_read_files_work_without_any_extra(arguments: str) -> None:
    done = run_without(NO_CLUSTER, *arguments.split())
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
