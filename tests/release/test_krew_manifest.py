"""The manifest of the krew plugin: krew's own validator accepts it, and krew installs an archive by it."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from e2e.go_program import GoProgram
from e2e.krew.build import KREW, KREW_VALIDATOR
from tests.release.commands import ReleaseError
from tests.release.krew_manifest import FILE_NAME, describe_plugin
from tests.release.standalone import PLATFORMS

_URL = "https://example.com/tallygate/releases/download/v1.2.3"


def find_program(program: GoProgram) -> Path:
    """Return the program, or skip the test if it is missing."""
    found = program.find_built()
    if found is None:
        pytest.skip(f"{program.title} is not built here (python -m e2e.build_programs does)")
    return found


def write_archives(folder: Path) -> list[Path]:
    """Write an archive for each platform, with a program that prints its arguments, and the licence."""
    archives = []
    for platform in PLATFORMS:
        archive = folder / f"tallygate-{platform}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for name, content in {"tallygate": b'#!/bin/sh\necho "$0" "$@"\n', "LICENSE": b"the licence\n"}.items():
                member = tarfile.TarInfo(f"tallygate/{name}")
                member.size, member.mode = len(content), 0o755
                tar.addfile(member, io.BytesIO(content))
        archives.append(archive)
    return archives


def write_manifest(folder: Path) -> Path:
    """Write the manifest of such archives under the name that krew requires."""
    manifest = folder / FILE_NAME
    manifest.write_text(describe_plugin("1.2.3", "https://example.com", _URL, write_archives(folder)), encoding="utf-8")
    return manifest


def test_krews_validator_accepts_the_manifest(tmp_path: Path) -> None:
    validator = find_program(KREW_VALIDATOR)
    command = [str(validator), f"-manifest={write_manifest(tmp_path)}", "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode == 0, done.stderr
    assert "no overlapping spec.platform[].selector" in done.stderr


@pytest.mark.parametrize("platform", PLATFORMS)
def test_krew_installs_the_archive_of_each_platform(tmp_path: Path, platform: str) -> None:
    """Install from the file, since krew otherwise downloads what the manifest names."""
    manifest = write_manifest(tmp_path)
    system, _, machine = platform.partition("-")
    root = tmp_path / "krew"
    done = subprocess.run(  # noqa: S603  built, no shell
        [
            str(find_program(KREW)),
            "install",
            f"--manifest={manifest}",
            f"--archive={tmp_path / f'tallygate-{platform}.tar.gz'}",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            "KREW_ROOT": str(root),
            "KREW_OS": system,
            "KREW_ARCH": machine,
            "HOME": str(tmp_path),
            "PATH": "/usr/bin",
        },
    )
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([root / "bin" / "kubectl-tallygate", "x"], capture_output=True, text=True, check=True)  # noqa: S603  ours
    assert ran.stdout.endswith("kubectl-tallygate x\n")
    (licence,) = root.rglob("LICENSE")
    assert licence.read_text(encoding="utf-8") == "the licence\n"


def test_each_platform_has_the_digest_of_its_archive(tmp_path: Path) -> None:
    described = yaml.safe_load(write_manifest(tmp_path).read_text(encoding="utf-8"))
    for each in described["spec"]["platforms"]:
        labels = each["selector"]["matchLabels"]
        archive = f"tallygate-{labels['os']}-{labels['arch']}.tar.gz"
        assert each["uri"] == f"{_URL}/{archive}"
        assert each["sha256"] == hashlib.sha256((tmp_path / archive).read_bytes()).hexdigest()
    assert len(described["spec"]["shortDescription"]) <= 50  # as krew's index asks for


def test_an_archive_of_an_unknown_platform_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no platform"):
        describe_plugin("1.2.3", "https://example.com", _URL, [tmp_path / "tallygate-plan9-386.tar.gz"])
