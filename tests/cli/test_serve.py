"""`tallygate serve`: settings from flags, environment and file, and errors of one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tallygate.server.settings.table import OPTIONS
from tests import warm


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a process that is expected to end by itself."""
    return warm.run("tallygate.cli", ["serve", *arguments], environment={**os.environ, **environment})


def list_messages(result: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of stderr that are not log lines."""
    return [line for line in result.stderr.splitlines() if not line.startswith("{")]


def test_every_setting_is_an_option() -> None:
    """Print its environment variable too."""
    text = " ".join(CliRunner().invoke(root, ["serve", "--help"]).output.split())
    for option in OPTIONS:
        assert option.flag in text
        assert f"[{option.variable}]" in text


@pytest.mark.parametrize(
    ("arguments", "environment", "sentences"),
    [
        pytest.param(
            ["--listen", "nowhere", "--body-limit", "-1"],
            {},
            ["--listen: 'nowhere' is not an IP address", "--body-limit: '-1' is not a number of bytes"],
            id="flags: every mistake at once",
        ),
        pytest.param([], {"TALLYGATE_LISTEN": "here"}, ["TALLYGATE_LISTEN: 'here' is not an IP"], id="environment"),
        pytest.param(
            [], {"TALLYGATE_LISEN": "x"}, ["there is no setting TALLYGATE_LISEN; did you mean"], id="misspelt"
        ),
        pytest.param(["--config", "missing.yaml"], {}, ["missing.yaml: cannot be read"], id="a missing file"),
        pytest.param([], {}, ["name a certificate and its key"], id="no certificate"),
        pytest.param(["--policies", "missing"], {}, ["missing:1:1: error: cannot be read"], id="no policies"),
    ],
)
def test_every_invalid_setting_is_reported(
    arguments: list[str], environment: dict[str, str], sentences: list[str]
) -> None:
    """Print each on stderr as `tallygate: ...`, and exit with code 2."""
    result = run(*arguments, **environment)
    lines = list_messages(result)
    assert (result.returncode, result.stdout, len(lines)) == (2, "", len(sentences))
    for line, sentence in zip(lines, sentences, strict=True):
        assert line.startswith("tallygate: ")
        assert sentence in line


def test_an_option_of_an_earlier_version_is_a_usage_error_that_names_what_is_true() -> None:
    result = CliRunner().invoke(root, ["serve", "--drain-timeout", "1m"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "tallygate: --drain-timeout: there is no such setting any more: it is 25s\n"


def test_a_flag_overrides_the_settings_file(tmp_path: Path) -> None:
    """Ignore an invalid setting that a flag overrides, and read the other settings of the file."""
    config = tmp_path / "settings.yaml"
    config.write_text("log_level: error\ntls_cert: missing.crt\ntls_key: missing.key\nlisten: 127.0.0.1:0\n")
    result = subprocess.run(  # noqa: S603 -- this very program, begun from nothing
        [sys.executable, "-m", "tallygate.cli", "serve", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 2
    assert "missing" in list_messages(result)[0]
    assert "policies-loaded" not in result.stderr
