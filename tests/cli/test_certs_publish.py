"""`tallygate certs publish`: what it prints, before a small API server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.certs.api_server import Api, serving
from webhook.cli.app import root


@pytest.fixture
def api() -> Api:
    """An API server with one of the two configurations."""
    api = Api()
    api.add("ValidatingWebhookConfiguration", "tallygate", [{"name": "a", "clientConfig": {"url": "https://a"}}])
    return api


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Iterator[Path]:
    """It leads there; the folder beside has certificates to publish."""
    with serving(api, tmp_path / "tls") as path:
        yield path


def publish(kubeconfig: Path, *options: str) -> Result:
    """Run it for the folder that the kubeconfig lies in."""
    return CliRunner().invoke(root, ["certs", "publish", str(kubeconfig.parent), *options])


def test_each_configuration_has_its_line(kubeconfig: Path) -> None:
    options = ("--kubeconfig", str(kubeconfig), "--context", "here")
    done = publish(kubeconfig, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: not there",
        "ValidatingWebhookConfiguration tallygate: updated",
    ]
    assert "tallygate: unchanged" in publish(kubeconfig, *options).stdout


def test_what_was_done_is_told_also_when_the_rest_fails(api: Api, kubeconfig: Path) -> None:
    api.rivals = 100
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert done.exit_code == 2
    assert done.stdout == "MutatingWebhookConfiguration tallygate: not there\n"
    assert done.stderr.startswith(
        "tallygate: the ValidatingWebhookConfiguration tallygate was changed by somebody else"
    )


def test_another_name_that_is_not_there_is_misuse(kubeconfig: Path) -> None:
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig), "--name", "other")
    assert done.exit_code == 2
    assert done.stderr.startswith("tallygate: no webhook configuration is called other: register the gate first")


def test_a_cluster_is_named_in_one_way_only(kubeconfig: Path) -> None:
    for options in (("--kubeconfig", str(kubeconfig)), ("--context", "here")):
        done = publish(kubeconfig, "--in-cluster", *options)
        assert done.exit_code == 2
        assert done.stderr.startswith("tallygate: --in-cluster takes neither --kubeconfig nor --context")


def test_no_cluster_is_asked_before_the_folder_is_found_right(api: Api, kubeconfig: Path) -> None:
    (kubeconfig.parent / "ca.crt").unlink()
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "ca.crt: no certificate in it" in done.stderr
    assert not api.requests


def test_the_other_commands_do_not_wait_for_the_client() -> None:
    """It takes longer to load than everything else together."""
    program = "import sys; from webhook.cli.app import root; root(sys.argv[1:], standalone_mode=False);"
    program += "assert 'webhook.cli.certs.command' in sys.modules; sys.exit('kubernetes' in sys.modules)"
    for arguments in (["certs", "issue", "--help"], ["certs", "show", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False)  # noqa: S603  ourselves, no shell
        assert done.returncode == 0, done.stderr
