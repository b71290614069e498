"""`tallygate certs` with files in a folder."""

import json
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography import x509

from tallygate.cli.app import root
from tests.cli.check_case import change_directory


def certs(*arguments: str) -> Result:
    """Run `tallygate certs`."""
    return CliRunner().invoke(root, ["certs", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a folder with certificates."""
    made = tmp_path / "tls"
    result = certs("issue", str(made), "--service", "system/gate", "--name", "127.0.0.1")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{made}/tls.crt: for gate.system.svc, gate.system.svc.cluster.local, ")
    assert result.stdout.endswith(f"; trust {made}/ca.crt\n")
    return made


def serial(folder: Path, name: str) -> int:
    """Return the serial number of a certificate."""
    return x509.load_pem_x509_certificate((folder / name).read_bytes()).serial_number


def test_issue_makes_files_with_right_modes(folder: Path) -> None:
    """Give read access to keys to their owner only."""
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}


def test_issue_again_keeps_the_ca(folder: Path) -> None:
    """Sign the new certificate with the same CA, so that its clients trust it too."""
    ca, serving_pair = serial(folder, "ca.crt"), serial(folder, "tls.crt")
    assert certs("issue", str(folder), "--name", "localhost").exit_code == 0
    assert serial(folder, "ca.crt") == ca
    assert serial(folder, "tls.crt") != serving_pair


def test_status_prints_the_certificates_of_a_folder(folder: Path) -> None:
    """Print the same data for users and for programs."""
    text = certs("status", str(folder)).stdout
    assert "gate.system.svc" in text
    assert "127.0.0.1" in text
    found = json.loads(certs("status", str(folder), "-o", "json").stdout)
    assert found == yaml.safe_load(certs("status", str(folder), "-o", "yaml").stdout)
    assert (found["renewalDue"], found["problems"], found["serving"]["daysLeft"]) == (False, [], 89)
    assert found["serving"]["issuer"] == found["authorities"][0]["subject"]


def test_status_fails_for_an_invalid_folder(folder: Path) -> None:
    """Report a key of another certificate, and an empty folder."""
    certs("issue", str(folder.parent / "other"), "--name", "x")
    (folder / "tls.key").write_bytes((folder.parent / "other" / "tls.key").read_bytes())
    result = certs("status", str(folder))
    assert result.exit_code == 1
    assert "tls.key is not the key of" in result.stdout
    assert certs("status", str(folder.parent / "empty")).exit_code == 1


def test_renew_replaces_certificates_that_are_due(folder: Path) -> None:
    """Renew nothing now, and the serving certificate on request."""
    serving_pair = serial(folder, "tls.crt")
    assert certs("renew", str(folder)).stdout == f"{folder}: nothing is due\n"
    assert serial(folder, "tls.crt") == serving_pair
    result = certs("renew", str(folder), "--force")
    assert result.stdout == f"{folder}: made a new serving certificate: it was asked for\n"
    assert serial(folder, "tls.crt") != serving_pair


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("issue", "x"), "a serving certificate needs a name"),
        (("issue", "x", "--service", "gate"), "--service gate: write NAMESPACE/NAME"),
        (("issue", "x", "--name", "no name"), "'no name' is neither a DNS name nor an IP address"),
        (("renew", "missing"), "missing/ca.crt: not there"),
        (("status", "x", "--secret", "a/b"), "FOLDER takes no --secret"),
        (("status", "x", "--context", "prod"), "FOLDER takes no --secret"),
    ],
)
def test_a_usage_error_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """Exit with code 2, and write no file."""
    with change_directory(tmp_path):
        result = certs(*arguments)
    assert not list(tmp_path.iterdir())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tallygate: {sentence}")
