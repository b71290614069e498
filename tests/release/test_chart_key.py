"""The key of the chart: imported as release.yml hands it over, and refused where Helm could not sign with it."""

import os
from pathlib import Path

import pytest

from tests.release.chart_key import find_gpg, import_chart_key, make_chart_key
from tests.release.commands import ReleaseError, run_program

needs_gpg = pytest.mark.skipif(find_gpg() is None, reason="gpg is not on PATH")


def run_gpg(store: Path, passphrase: str, *arguments: str) -> str:
    """Run GnuPG in a store, where it gets this passphrase."""
    options = ("--batch", "--pinentry-mode=loopback", f"--passphrase={passphrase}")
    return run_program("gpg", *options, *arguments, environment={**os.environ, "GNUPGHOME": str(store)})


@needs_gpg
def test_an_imported_key_is_the_one_that_was_exported() -> None:
    with make_chart_key() as made:
        with import_chart_key(run_gpg(made.keyring.parent, "", "--armor", "--export-secret-keys")) as key:
            assert (key.user, key.fingerprint) == (made.user, made.fingerprint)
            assert key.public.startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
            assert key.keyring.read_bytes() == made.keyring.read_bytes()
        assert not key.keyring.exists()


@needs_gpg
def test_a_public_key_signs_nothing() -> None:
    with make_chart_key() as made:
        public = made.public
    with pytest.raises(ReleaseError, match="CHART_SIGNING_KEY has no secret PGP key"), import_chart_key(public):
        pass


@needs_gpg
def test_a_text_that_is_no_key_is_an_error() -> None:
    with pytest.raises(ReleaseError, match=r"--import .* exits with 2"), import_chart_key("no key"):
        pass


@needs_gpg
def test_a_key_with_a_passphrase_is_an_error() -> None:
    """Find it before Helm asks a terminal for the passphrase."""
    with make_chart_key() as made:
        run_gpg(made.keyring.parent, "x", "--quick-generate-key", "protected", "rsa2048", "sign", "1d")
        protected = run_gpg(made.keyring.parent, "x", "--armor", "--export-secret-keys", "protected")
    with pytest.raises(ReleaseError, match="a key that needs a passphrase"), import_chart_key(protected):
        pass


def test_a_machine_without_gpg_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ReleaseError, match="there is no `gpg` on PATH"), make_chart_key():
        pass
