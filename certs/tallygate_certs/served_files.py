"""The folder of the served certificate: `tls.crt` and `tls.key` of the Secret, replaced in one step.

The folder works like a volume of the kubelet (k8s.io/kubernetes, pkg/volume/util/atomic_writer.go, v1.36): both files
are links through one link to a directory with the contents, and a write replaces that link. A reader that opens both
through the same target never gets one new and one old file. The keys of CAs are never written.
"""

import os
import secrets
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tallygate_certs.cert_files import CHAIN_FILE, KEY_FILE
from tallygate_certs.errors import CertsError
from tallygate_certs.secret_state import ServingCertificate, parse_serving_certificate

_DATA_LINK = "..data"
_MAX_FILE_BYTES = 1 << 20


class ServedFiles:
    """A private folder of this process, on a volume in memory; a write creates it if it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.chain = path / CHAIN_FILE
        self.key = path / KEY_FILE

    def read(self, now: datetime) -> ServingCertificate | None:
        """Return the certificate of an earlier write, or None if it is missing, invalid or expired."""
        try:
            with self.chain.open("rb") as chain, self.key.open("rb") as key:
                serving = parse_serving_certificate(chain.read(_MAX_FILE_BYTES), key.read(_MAX_FILE_BYTES))
        except OSError:
            return None
        return serving if serving and serving.certificate.not_valid_after_utc > now else None

    def write(self, serving: ServingCertificate) -> None:
        """Replace the served certificate.

        Raises:
            CertsError: if it cannot be written.
        """
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = f"..{secrets.token_hex(8)}"
            self._write_files(self._path / new, serving)
            self._switch_link(new)
        except OSError as error:
            raise CertsError(
                f"{self._path}: cannot be written: {error.strerror}; it must be a volume in memory"
            ) from None

    def _write_files(self, directory: Path, serving: ServingCertificate) -> None:
        directory.mkdir(mode=0o700)
        for name, content, mode in ((CHAIN_FILE, serving.chain, 0o644), (KEY_FILE, serving.key, 0o600)):
            with os.fdopen(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)

    def _switch_link(self, new: str) -> None:
        """Point the link to the new directory, and remove the old one."""
        new_link = self._path / f"{new}.link"
        new_link.symlink_to(new)
        new_link.replace(self._path / _DATA_LINK)
        for link in (self.chain, self.key):
            if not link.is_symlink():
                link.unlink(missing_ok=True)
                link.symlink_to(Path(_DATA_LINK, link.name))
        for old in self._path.glob("..*"):
            if old.name not in (_DATA_LINK, new) and old.is_dir() and not old.is_symlink():
                with suppress(OSError):
                    shutil.rmtree(old)
