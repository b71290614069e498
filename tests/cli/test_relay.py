"""`tallygate relay`: its options, its start and stop, and errors of one sentence."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.webhook.cli.app import root
from tests import warm
from tests.cli.test_serve import list_messages
from tests.server.process import ServerProcess, eventually


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a process that is expected to end by itself."""
    return warm.run("tallygate.webhook.cli", ["relay", *arguments], environment=dict(os.environ))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["--upstream", "10.0.0.1:8444"], "'10.0.0.1:8444' is not of this pod", id="gate-elsewhere"),
        pytest.param(["--upstream", "localhost:8444"], "is not an IP address and a port", id="gate-by-name"),
        pytest.param(["--peers", "tallygate"], "is not a name and a port, such as", id="others-without-port"),
        pytest.param(["--peers", "tallygate:0"], "is not a name and a port", id="others-port-0"),
        pytest.param(["--peers", "tallygate:99999999999"], "is not a name and a port", id="others-port-too-large"),
        pytest.param(["--peers", "tallygate:443"], "--peers and --peers-ca-file go together", id="others-without-ca"),
        pytest.param(["--peers-ca-file", "ca.crt"], "--peers and --peers-ca-file go together", id="ca-without-others"),
        pytest.param([], "name a certificate and its key", id="no-certificate"),
        pytest.param(["--listen", "nowhere"], "--listen: 'nowhere' is not an IP address", id="setting"),
    ],
)
def test_invalid_options_are_reported(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert sentence in " ".join(list_messages(result))


def test_options_of_the_gate_are_unknown() -> None:
    assert "--policies" not in CliRunner().invoke(root, ["relay", "--help"]).output
    assert "no such option" in run("--policies", "p").stderr.lower()


def test_a_relay_runs_until_it_gets_a_signal(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as gate:
        files = [f"--tls-cert={tmp_path / 'tls.crt'}", f"--tls-key={tmp_path / 'tls.key'}"]
        ports = [
            f"--upstream=127.0.0.1:{gate.port}",
            "--listen=127.0.0.1:0",
            "--monitor=127.0.0.1:0",
            "--drain-delay=0",
        ]
        log_file = tmp_path / "relay.log"
        with log_file.open("wb") as log:
            relay = warm.Program("tallygate.webhook.cli", ["relay", *ports, *files], stderr=log.fileno())
        assert eventually(lambda: '"serving"' in log_file.read_text())
        relay.send_signal(15)
        assert relay.wait(30) == 0
        assert [json.loads(line)["event"] for line in log_file.read_text().splitlines()] == [
            "serving",
            "draining",
            "stopped",
        ]
