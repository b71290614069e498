"""`tallygate certs publish` against a small API server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.webhook.cli.app import root
from tests.certs.api_server import CertificateApiServer, run_api_server


@pytest.fixture
def api() -> CertificateApiServer:
    """Return an API server with one of the two configurations."""
    api = CertificateApiServer()
    api.add("ValidatingWebhookConfiguration", "tallygate", [{"name": "a", "clientConfig": {"url": "https://a"}}])
    return api


@pytest.fixture
def kubeconfig(api: CertificateApiServer, tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a kubeconfig in a folder with certificates."""
    with run_api_server(api, tmp_path / "tls") as path:
        yield path


def publish(kubeconfig: Path, *options: str) -> Result:
    """Run the command for the folder of the kubeconfig."""
    return CliRunner().invoke(root, ["certs", "publish", str(kubeconfig.parent), *options])


def test_each_configuration_has_one_line(kubeconfig: Path) -> None:
    options = ("--kubeconfig", str(kubeconfig), "--context", "here")
    done = publish(kubeconfig, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: not there",
        "ValidatingWebhookConfiguration tallygate: updated",
    ]
    assert "tallygate: unchanged" in publish(kubeconfig, *options).stdout


def test_completed_writes_are_printed_before_a_failure(api: CertificateApiServer, kubeconfig: Path) -> None:
    api.conflicting_writes = 100
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert done.exit_code == 2
    assert done.stdout == "MutatingWebhookConfiguration tallygate: not there\n"
    assert done.stderr.startswith(
        "tallygate: the ValidatingWebhookConfiguration tallygate was changed by another client"
    )


def test_a_missing_configuration_name_is_a_usage_error(kubeconfig: Path) -> None:
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig), "--name", "other")
    assert done.exit_code == 2
    assert done.stderr.startswith("tallygate: no webhook configuration is called other: register the gate first")


def test_a_cluster_is_named_in_one_way_only(kubeconfig: Path) -> None:
    for options in (("--kubeconfig", str(kubeconfig)), ("--context", "here")):
        done = publish(kubeconfig, "--in-cluster", *options)
        assert done.exit_code == 2
        assert done.stderr.startswith("tallygate: --in-cluster takes neither --kubeconfig nor --context")


def test_an_invalid_folder_fails_before_any_request(api: CertificateApiServer, kubeconfig: Path) -> None:
    (kubeconfig.parent / "ca.crt").unlink()
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "ca.crt: no certificate in it" in done.stderr
    assert not api.methods


def test_other_commands_do_not_load_the_client() -> None:
    """Avoid the client, whose import takes longer than all others together."""
    program = "import sys; from tallygate.webhook.cli.app import root; root(sys.argv[1:], standalone_mode=False);"
    program += "assert 'tallygate.webhook.cli.certs.command' in sys.modules; sys.exit('kubernetes' in sys.modules)"
    for arguments in (["certs", "issue", "--help"], ["certs", "show", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False)  # noqa: S603  ourselves, no shell
        assert done.returncode == 0, done.stderr
