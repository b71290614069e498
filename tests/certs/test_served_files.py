"""The folder of served files: both files are replaced atomically, and old files are deleted."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tallygate_certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.errors import CertsError
from tallygate_certs.secret_state import ServingCertificate, convert_key_pair, parse_serving_certificate
from tallygate_certs.served_files import ServedFiles

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = create_ca(NOW)


def create_serving_pair() -> ServingCertificate:
    """Return a new certificate on each call."""
    return convert_key_pair(create_serving_certificate(CA, parse_names(["gate"]), NOW))


def test_a_written_certificate_is_read(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path / "new")
    assert folder.read(NOW) is None
    for each in (create_serving_pair(), create_serving_pair(), create_serving_pair()):
        folder.write(each)
        assert folder.read(NOW) == each


def test_an_expired_certificate_is_not_read(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    folder.write(create_serving_pair())
    assert folder.read(NOW + SERVING_LIFETIME) is None


def test_only_the_last_certificate_stays_and_only_its_owner_reads_the_key(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    for _ in range(3):
        folder.write(create_serving_pair())
    (data,) = (path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink())
    assert {path.name for path in tmp_path.iterdir()} == {"tls.crt", "tls.key", "..data", data.name}
    assert (data.stat().st_mode & 0o777, folder.key.stat().st_mode & 0o777) == (0o700, 0o600)


def test_existing_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("x")
    folder, new = ServedFiles(tmp_path), create_serving_pair()
    folder.write(new)
    assert folder.read(NOW) == new


def test_a_reader_that_resolves_the_link_once_finds_matching_files(tmp_path: Path) -> None:
    folder = ServedFiles(tmp_path)
    folder.write(create_serving_pair())
    is_done = threading.Event()

    def write() -> None:
        while not is_done.is_set():
            folder.write(create_serving_pair())

    writer = threading.Thread(target=write)
    writer.start()
    read = 0
    try:
        while read < 200:
            found = (tmp_path / "..data").resolve()
            try:
                texts = (found / "tls.crt").read_bytes(), (found / "tls.key").read_bytes()
            except FileNotFoundError:  # the link was replaced meanwhile, and the old files are deleted
                continue
            assert parse_serving_certificate(*texts)
            read += 1
    finally:
        is_done.set()
        writer.join()


def test_a_read_only_folder_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertsError, match=r"file: cannot be written: .*; it must be a volume in memory"):
        ServedFiles(tmp_path / "file").write(create_serving_pair())
