"""The folder from which the server serves what the Secret holds: `tls.crt` and `tls.key`, exchanged in one step.

As the kubelet does it (k8s.io/kubernetes, pkg/volume/util/atomic_writer.go, v1.36): both are links through one link to
a folder with the files, and that link is turned. So whoever reads them never finds the one new and the other old. The
keys of authorities are never written.
"""

import os
import secrets
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from certs.errors import CertsError
from certs.files import CHAIN, KEY
from certs.kept import Leaf, read_leaf

_TURNED = "..data"
_LARGEST_FILE = 1 << 20


class Folder:
    """A folder of this process's own, on a volume in memory; it is made when it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.chain = path / CHAIN
        self.key = path / KEY

    def read(self, now: datetime) -> Leaf | None:
        """What it holds from before, if that has not expired."""
        try:
            with self.chain.open("rb") as chain, self.key.open("rb") as key:
                leaf = read_leaf(chain.read(_LARGEST_FILE), key.read(_LARGEST_FILE))
        except OSError:
            return None
        return leaf if leaf and leaf.certificate.not_valid_after_utc > now else None

    def write(self, leaf: Leaf) -> None:
        """Put it in force.

        Raises:
            CertsError: it cannot be written.
        """
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = f"..{secrets.token_hex(8)}"
            self._fill(self._path / new, leaf)
            self._turn(new)
        except OSError as error:
            raise CertsError(
                f"{self._path}: cannot be written: {error.strerror}; it must be a volume in memory"
            ) from None

    def _fill(self, made: Path, leaf: Leaf) -> None:
        made.mkdir(mode=0o700)
        for name, content, mode in ((CHAIN, leaf.chain, 0o644), (KEY, leaf.key, 0o600)):
            with os.fdopen(os.open(made / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)

    def _turn(self, new: str) -> None:
        """Let the link lead to what is new, and take away what it led to."""
        beside = self._path / f"{new}.link"
        beside.symlink_to(new)
        beside.replace(self._path / _TURNED)
        for link in (self.chain, self.key):
            if not link.is_symlink():
                link.unlink(missing_ok=True)
                link.symlink_to(Path(_TURNED, link.name))
        for old in self._path.glob("..*"):
            if old.name not in (_TURNED, new) and old.is_dir() and not old.is_symlink():
                with suppress(OSError):
                    shutil.rmtree(old)
