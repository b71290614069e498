"""The folder that the server serves from: both files change in one step, and nothing is left of what was before."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from certs.certificate_names import parse_names
from certs.errors import CertsError
from certs.secret_state import ServingCertificate, convert_key_pair, parse_serving_certificate
from certs.served_files import ServedFiles

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = create_ca(NOW)


def leaf() -> ServingCertificate:
    """Another each time."""
    return convert_key_pair(create_serving_certificate(AUTHORITY, parse_names(["gate"]), NOW))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path / "new")
    assert folder.read(NOW) is None
    for each in (leaf(), leaf(), leaf()):
        folder.write(each)
        assert folder.read(NOW) == each


def test_what_has_expired_is_not_read(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    folder.write(leaf())
    assert folder.read(NOW + SERVING_LIFETIME) is None


def test_only_the_last_is_left_and_its_key_is_for_nobody_else(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    for _ in range(3):
        folder.write(leaf())
    (data,) = (path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink())
    assert {path.name for path in tmp_path.iterdir()} == {"tls.crt", "tls.key", "..data", data.name}
    assert (data.stat().st_mode & 0o777, folder.key.stat().st_mode & 0o777) == (0o700, 0o600)


def test_files_that_somebody_has_put_there_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("x")
    folder, new = ServedFiles(tmp_path), leaf()
    folder.write(new)
    assert folder.read(NOW) == new


def test_whoever_reads_a_link_once_finds_files_that_belong_together(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    folder.write(leaf())
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            folder.write(leaf())

    writer = threading.Thread(target=write)
    writer.start()
    read = 0
    try:
        while read < 200:
            found = (tmp_path / "..data").resolve()
            try:
                texts = (found / "tls.crt").read_bytes(), (found / "tls.key").read_bytes()
            except FileNotFoundError:  # it was turned meanwhile, and what was before is gone
                continue
            assert parse_serving_certificate(*texts)
            read += 1
    finally:
        over.set()
        writer.join()


def test_a_folder_that_cannot_be_written_is_told_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertsError, match=r"file: cannot be written: .*; it must be a volume in memory"):
        ServedFiles(tmp_path / "file").write(leaf())
