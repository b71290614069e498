"""`python -m tests.release.standalone WHEEL`: the command as an archive for machines without Python, and for krew.

PyInstaller makes it of a clean environment with the wheel and its extra `cluster`. It builds for the machine on which
it runs, so release.yml runs this on four. A folder and not one file: such a file unpacks itself at each start.
It needs nothing but this Python, since three of the four have no environment of the project.
"""

import argparse
import gzip
import hashlib
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.release.commands import ROOT, ReleaseError, run_program

PLATFORMS: Final = ("linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64")
_MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_PROGRAM: Final = "tallygate"
_MANIFESTS: Final = ROOT / "e2e" / "manifests"
_CLUSTER: Final = ROOT / "tests" / "cli" / "audit" / "cases" / "stored_objects_are_evaluated_like_new_ones"
_NODES: Final = ROOT / "tests" / "cli" / "cases" / "nodes_of_a_snapshot_are_evaluated" / "snapshot.json"
_ENTRY: Final = "from tallygate.cli.app import main\n\nmain()\n"
_OPTIONS: Final = (
    "--onedir",
    "--noconfirm",
    "--log-level=WARN",
    f"--name={_PROGRAM}",
    "--collect-submodules=tallygate",  # commands are imported by their names
    "--collect-submodules=tallygate_certs",
    "--collect-data=tallygate",
    "--copy-metadata=tallygate",
    "--exclude-module=kubernetes.aio",  # as in the image: nothing imports it
)
_LIBC: Final = ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
_COMMANDS: Final = (
    (0, ("--version",)),
    (0, ("check", str(_MANIFESTS / "one-dongle.yaml"))),
    (1, ("check", str(_MANIFESTS / "half.yaml"))),
    (0, ("explain", "TG101")),
    (1, ("predict", "-f", str(_MANIFESTS / "one-dongle.yaml"), "--snapshot", str(_NODES))),
    (0, ("usage", "--policies", str(_CLUSTER / "policies"), "--snapshot", str(_CLUSTER / "snapshot.json"))),
    (0, ("ask", "--help")),
    (2, ("serve",)),
)
"""Exit codes, and the arguments that lead to them; `serve` has no extra here."""


def find_platform() -> str:
    """Return the name of this machine's platform, as archives and krew have it: `linux-amd64`.

    Raises:
        ReleaseError: if no archive is made for it.
    """
    found = f"{sys.platform}-{_MACHINES.get(platform.machine().lower(), platform.machine())}"
    if found not in PLATFORMS:
        raise ReleaseError(f"no archive is made for {found}; there are {', '.join(PLATFORMS)}")
    return found


@dataclass(frozen=True, slots=True)
class StandaloneArchive:
    """An archive as package managers name it: system and machine as in `PLATFORMS`, and the SHA-256 of its bytes."""

    name: str
    system: str
    machine: str
    sha256: str

    @staticmethod
    def read(path: Path) -> "StandaloneArchive":
        """Read an archive; its name ends with the platform.

        Raises:
            ReleaseError: if the name has no known platform.
        """
        found = [each for each in PLATFORMS if path.name.endswith(f"-{each}.tar.gz")]
        if not found:
            raise ReleaseError(f"{path.name} is an archive of no platform; there are {', '.join(PLATFORMS)}")
        system, _, machine = found[0].partition("-")
        return StandaloneArchive(path.name, system, machine, hashlib.sha256(path.read_bytes()).hexdigest())


def build_archive(wheel: Path, python: str, target: Path) -> Path:
    """Build the archive for this machine from a wheel, with this Python, try its commands, and return its path.

    Raises:
        ReleaseError: if a step fails.
    """
    with TemporaryDirectory(prefix="tallygate-standalone-") as name:
        folder = Path(name)
        built = _build_folder(wheel, python, folder)
        shutil.copy(ROOT / "LICENSE", built)
        try_commands(built / _PROGRAM)
        _report_glibc(built)
        archive = target / f"{_PROGRAM}-{find_platform()}.tar.gz"
        target.mkdir(parents=True, exist_ok=True)
        _pack(built, archive)
    return archive


def try_commands(program: Path) -> None:
    """Run the commands that people without Python want.

    Raises:
        ReleaseError: if one has another exit code.
    """
    for code, arguments in _COMMANDS:
        run_program(program, *arguments, environment={"HOME": "/nonexistent"}, code=code)


def try_without_python(archive: Path, root: Path) -> None:
    """Run commands of an archive of Linux in a folder that has nothing else but the C library and zlib; needs root.

    Raises:
        ReleaseError: if one has another exit code.
    """
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="data")
    libraries = set(re.findall(r"(/\S+\.so[.\d]*)", run_program("ldd", root / _PROGRAM / _PROGRAM)))
    for library in (*sorted(libraries), *_sides_of_libc(libraries)):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    for code, name in ((0, "one-dongle.yaml"), (1, "half.yaml")):
        shutil.copy(_MANIFESTS / name, root / name)
        run_program("chroot", root, f"/{_PROGRAM}/{_PROGRAM}", "check", f"/{name}", code=code)


def _sides_of_libc(libraries: Iterable[str]) -> list[str]:
    """Return the parts of the C library that the archive's own libraries may name: they are files of their own."""
    (folder,) = {Path(each).parent for each in libraries if Path(each).name == "libc.so.6"}
    return [str(path) for name in _LIBC if (path := folder / name).exists()]


def find_oldest_glibc(folder: Path) -> str:
    """Return the version of glibc that the programs and libraries of a folder need; empty if they need none."""
    minors = {
        int(minor)
        for path in folder.rglob("*")
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
        for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", path.read_bytes())
    }
    return f"2.{max(minors)}" if minors else ""


def _report_glibc(folder: Path) -> None:
    if oldest := find_oldest_glibc(folder):
        sys.stderr.write(f"the archive needs glibc {oldest}\n")


def _build_folder(wheel: Path, python: str, folder: Path) -> Path:
    environment = folder / "environment"
    run_program(python, "-m", "venv", environment)
    own = environment / "bin" / "python"
    pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run_program(*pip, "pip>=25.1")  # the first with groups of pyproject.toml
    run_program(*pip, f"{wheel.resolve()}[cluster]", "--group", f"{ROOT / 'pyproject.toml'}:standalone")
    for record in environment.rglob("tallygate-*.dist-info/direct_url.json"):
        record.unlink()  # the wheel's place on this machine, which messages about a missing extra would name
    entry = folder / "entry.py"
    entry.write_text(_ENTRY, encoding="utf-8")
    places = (f"--distpath={folder}", f"--workpath={folder / 'work'}", f"--specpath={folder}")
    run_program(own, "-m", "PyInstaller", *_OPTIONS, *places, entry, folder=folder)
    if sys.platform == "linux":
        # Second names of libraries that their modules find without: as files they would be a third of the archive.
        for link in filter(Path.is_symlink, list((folder / _PROGRAM).rglob("*"))):
            link.unlink()
    return folder / _PROGRAM


def _pack(folder: Path, archive: Path) -> None:
    """Pack a folder with links as files, since krew unpacks no link; the same content makes the same bytes."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", dereference=True, format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, f"{_PROGRAM}/{path.relative_to(folder)}", filter=_clear_owner)


def _clear_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive without what differs from one build to the next."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def main() -> None:
    """Build the archive of a wheel and print its path; exit with 1 if a step fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.standalone", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python that the archive has")
    parser.add_argument("--target", type=Path, default=ROOT / "dist", help="the folder of the archive")
    arguments = parser.parse_args()
    try:
        archive = build_archive(arguments.wheel, arguments.python, arguments.target)
    except ReleaseError as error:
        sys.exit(f"tallygate: {error}")
    sys.stdout.write(f"{archive}\n")


if __name__ == "__main__":
    main()
