"""The files beside those of a release: checksums that `sha256sum` accepts, and a provenance with each file."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.release.signed_files import CHECKSUMS, describe_provenance, write_checksums


def write_files(folder: Path) -> list[Path]:
    """Write two files of a release."""
    files = [folder / "tallygate-1.2.3.tgz", folder / "tallygate.yaml"]
    for file in files:
        file.write_bytes(file.name.encode())
    return files


def test_sha256sum_accepts_the_checksums_and_finds_a_change(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    checksums = write_checksums(tmp_path)
    assert write_checksums(tmp_path).read_text(encoding="utf-8") == checksums.read_text(encoding="utf-8")
    command = ["sha256sum", "--check", "--strict", checksums.name]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0  # noqa: S603  no shell
    files[0].write_bytes(b"changed")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1  # noqa: S603  no shell


def test_the_provenance_names_each_file_with_its_digest_and_the_commit(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    started = datetime(2026, 12, 1, 8, tzinfo=UTC)
    statement = describe_provenance(files, "https://example.com/tallygate", "c" * 40, started)
    digests = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    sums = write_checksums(tmp_path).read_text(encoding="utf-8")
    assert sums == "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    definition = statement["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://example.com/tallygate", "digest": {"gitCommit": "c" * 40}}
    ]
    assert statement["predicate"]["runDetails"]["metadata"]["startedOn"] == "2026-12-01T08:00:00Z"


def test_a_folder_without_files_has_no_checksums(tmp_path: Path) -> None:
    assert write_checksums(tmp_path).read_text(encoding="utf-8") == ""


def test_the_checksums_leave_themselves_out(tmp_path: Path) -> None:
    write_files(tmp_path)
    write_checksums(tmp_path)
    assert CHECKSUMS not in write_checksums(tmp_path).read_text(encoding="utf-8")
