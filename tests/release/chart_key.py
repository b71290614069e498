"""The PGP key that signs a release's chart by Helm's own rules: that of the repository, or one for a rehearsal.

Helm does not read GnuPG's own store, but a keyring in the format that GnuPG had before 2.1
(helm.sh/docs/topics/provenance). A release without a key has no such signature, and its chart names no key; cosign
signs it in any case.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.release.commands import ReleaseError, run_program

CHART_KEY_FILE: Final = "tallygate-chart.asc"
"""The name of the public key among the files of a release."""
CHART_KEY_VARIABLE: Final = "CHART_SIGNING_KEY"
"""The variable with the secret key, armored and without a passphrase, which release.yml sets from a secret."""

_USER: Final = "tallygate rehearsal"
_EXPORT: Final = ("--pinentry-mode=loopback", "--passphrase=", "--export-secret-keys")


@dataclass(frozen=True, slots=True)
class ChartKey:
    """A key for as long as its keyring exists; `user` is its user id, and `public` its public part, armored."""

    user: str
    fingerprint: str
    keyring: Path
    public: str


def find_gpg() -> str | None:
    """Return the path of GnuPG."""
    return shutil.which("gpg")


@contextmanager
def make_chart_key() -> Iterator[ChartKey]:
    """Make a key that expires in a day.

    Raises:
        ReleaseError: if there is no GnuPG here, or it fails.
    """
    with _open_store() as store:
        _run_gpg(store, "--passphrase=", "--quick-generate-key", _USER, "rsa3072", "sign", "1d")
        yield _read_key(store)


@contextmanager
def import_chart_key(secret: str) -> Iterator[ChartKey]:
    """Import an armored secret key.

    Raises:
        ReleaseError: if there is no GnuPG here, if it finds no secret key, or if the key has a passphrase.
    """
    with _open_store() as store:
        file = store / "secret.asc"
        file.write_text(secret, encoding="utf-8")
        _run_gpg(store, "--import", file)
        yield _read_key(store)


@contextmanager
def _open_store() -> Iterator[Path]:
    """Yield the folder of a new store, which no key of this machine is in; then end the agent that GnuPG began."""
    with TemporaryDirectory(prefix="tallygate-gpg-") as name:
        try:
            yield Path(name)
        finally:
            if program := shutil.which("gpgconf"):
                run_program(program, f"--homedir={name}", "--kill", "gpg-agent")


def _read_key(store: Path) -> ChartKey:
    listed = _run_gpg(store, "--with-colons", "--list-secret-keys")
    fingerprint = re.search(r"^fpr:{9}(\w+):", listed, re.MULTILINE)
    user = re.search(r"^uid:(?:[^:]*:){8}([^:]+):", listed, re.MULTILINE)
    if fingerprint is None or user is None:
        raise ReleaseError(f"{CHART_KEY_VARIABLE} has no secret PGP key")
    keyring = store / "secret.gpg"
    try:
        _run_gpg(store, f"--output={keyring}", *_EXPORT, fingerprint[1])
    except ReleaseError as error:
        raise ReleaseError(f"{CHART_KEY_VARIABLE} has a key that needs a passphrase:\n{error}") from error
    return ChartKey(user[1], fingerprint[1], keyring, _run_gpg(store, "--armor", "--export", fingerprint[1]))


def _run_gpg(store: Path, *arguments: str | Path) -> str:
    program = find_gpg()
    if program is None:
        raise ReleaseError("a chart is signed by GnuPG, and there is no `gpg` on PATH")
    environment = {**os.environ, "GNUPGHOME": str(store)}
    return run_program(program, "--batch", "--quiet", *arguments, environment=environment)
