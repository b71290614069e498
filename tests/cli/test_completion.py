"""`tallygate completion`, and the completion of commands, options and codes."""

import os
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from tallygate.webhook.cli.app import root
from tests.warm import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    """Call the command itself for completions."""
    result = CliRunner().invoke(root, ["completion", shell])
    assert result.exit_code == 0
    assert f"_TALLYGATE_COMPLETE={shell}_complete" in result.stdout


def test_bash_can_read_the_script() -> None:
    """Parse the script with bash."""
    script = CliRunner().invoke(root, ["completion", "bash"]).stdout
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n"], input=script.encode(), check=True, timeout=30)  # noqa: S603 -- parsed, not run


def complete(words: str, index: int) -> list[str]:
    """Return the completions that bash gets for a word of a line."""
    environment = {"_TALLYGATE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    result = run("tallygate.webhook.cli", [], environment={**os.environ, **environment})
    assert result.returncode == 0
    return [line.partition(",")[2] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "index", "completions"),
    [
        ("tallygate ch", 1, ["check"]),
        ("tallygate s", 1, ["snapshot", "schema", "serve"]),
        ("tallygate --tr", 1, ["--traceback"]),
        ("tallygate certs s", 2, ["show", "status"]),
        ("tallygate explain TG20", 2, ["TG201", "TG202", "TG203", "TG204", "TG205", "TG206", "TG207", "TG208"]),
        ("tallygate explain po", 2, ["pod"]),
        ("tallygate check -o s", 3, ["sarif"]),
        ("tallygate certs re", 2, ["renew"]),
        ("tallygate serve --tls-c", 2, ["--tls-cert"]),
        ("tallygate usage --ver", 2, ["--verify"]),
        ("tallygate snapshot --in", 2, ["--in-cluster"]),
    ],
)
def test_commands_options_and_codes_are_completed(words: str, index: int, completions: list[str]) -> None:
    assert complete(words, index) == completions
