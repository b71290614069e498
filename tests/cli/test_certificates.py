"""`tallygate certs`: real files."""

import json
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography import x509

from tests.cli.case import working_in
from webhook.cli.app import root


def certs(*arguments: str) -> Result:
    """Run it."""
    return CliRunner().invoke(root, ["certs", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with certificates."""
    made = tmp_path / "tls"
    result = certs("issue", str(made), "--service", "system/gate", "--name", "127.0.0.1")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{made}/tls.crt: for gate.system.svc, gate.system.svc.cluster.local, ")
    assert result.stdout.endswith(f"; trust {made}/ca.crt\n")
    return made


def serial(folder: Path, name: str) -> int:
    """The serial number of a certificate."""
    return x509.load_pem_x509_certificate((folder / name).read_bytes()).serial_number


def test_issue_makes_files_with_right_modes(folder: Path) -> None:
    """Keys are for their owner only."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}


def test_issue_again_keeps_the_authority(folder: Path) -> None:
    """Whoever trusts it, trusts the new certificate too."""
    authority, leaf = serial(folder, "ca.crt"), serial(folder, "tls.crt")
    assert certs("issue", str(folder), "--name", "localhost").exit_code == 0
    assert serial(folder, "ca.crt") == authority
    assert serial(folder, "tls.crt") != leaf


def test_show_says_what_there_is(folder: Path) -> None:
    """For people, and the same for programs."""
    text = certs("show", str(folder)).stdout
    assert "gate.system.svc" in text
    assert "127.0.0.1" in text
    found = json.loads(certs("show", str(folder), "-o", "json").stdout)
    assert found == yaml.safe_load(certs("show", str(folder), "-o", "yaml").stdout)
    assert (found["renewalDue"], found["problems"], found["serving"]["daysLeft"]) == (False, [], 89)
    assert found["serving"]["issuer"] == found["authorities"][0]["subject"]


def test_show_fails_when_something_is_wrong(folder: Path) -> None:
    """A key that is another's, an empty folder."""
    certs("issue", str(folder.parent / "other"), "--name", "x")
    (folder / "tls.key").write_bytes((folder.parent / "other" / "tls.key").read_bytes())
    result = certs("show", str(folder))
    assert result.exit_code == 1
    assert "tls.key is not the key of" in result.stdout
    assert certs("show", str(folder.parent / "empty")).exit_code == 1


def test_renew_does_what_is_due(folder: Path) -> None:
    """Nothing now; a new certificate when it is asked for."""
    leaf = serial(folder, "tls.crt")
    assert certs("renew", str(folder)).stdout == f"{folder}: nothing is due\n"
    assert serial(folder, "tls.crt") == leaf
    result = certs("renew", str(folder), "--force")
    assert result.stdout == f"{folder}: made a new serving certificate: it was asked for\n"
    assert serial(folder, "tls.crt") != leaf


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("issue", "x"), "a serving certificate needs a name"),
        (("issue", "x", "--service", "gate"), "--service gate: write NAMESPACE/NAME"),
        (("issue", "x", "--name", "no name"), "'no name' is neither a DNS name nor an IP address"),
        (("renew", "gone"), "gone/ca.crt: not there"),
    ],
)
def test_misuse_is_told(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """In one sentence, with exit code 2, and without a file."""
    with working_in(tmp_path):
        result = certs(*arguments)
    assert not list(tmp_path.iterdir())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tallygate: {sentence}")
