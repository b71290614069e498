"""The image of both machines without a container engine: two layers for each, put together by crane.

Nothing of an image is pulled. Where the released image has the layers of its base (`ARG BASE` of deploy/Dockerfile),
this one has Debian's packages of Python, by debootstrap, which needs root. On it lie the same wheels in the same
place, with the user, the command and the environment that the Dockerfile names. A release builds by the Dockerfile.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.image import IMAGE_EXTRAS, Python, fetch_wheels
from tests.release.commands import ROOT, ReleaseError, run_program

_SUITE: Final = "bookworm"
_MIRROR: Final = "http://deb.debian.org/debian"
_DEBIAN: Final = {"amd64": Python("3.11", "x86_64", 36), "arm64": Python("3.11", "aarch64", 36)}
"""By Debian's name of the machine: its Python, whose wheels fit glibc 2.36."""

_PACKAGES: Final = "python3,ca-certificates"
_MERGED: Final = ("bin", "lib", "lib64", "sbin")  # links into /usr, which no package has
_HOME: Final = "opt/tallygate"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SCRIPT: Final = """\
#!/opt/tallygate/bin/python3
from tallygate.cli.app import main
main()
"""


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """Builds images by `crane` in a registry on this machine, under the name `repository`."""

    crane: Path
    repository: str
    folder: Path

    def build(self, wheel: Path, tag: str) -> str:
        """Build the image of all machines, and return its name with its digest.

        Raises:
            BuildError: if a package has no wheel for a machine.
            ReleaseError: if another step fails.
        """
        images = [self._build_for(machine, wheel) for machine in _DEBIAN]
        name = f"{self.repository}:{tag}"
        self._run("index", "append", *(f"--manifest={each}" for each in images), f"--tag={name}")
        self._run("validate", f"--remote={name}")
        return f"{self.repository}@{self._run('digest', name).strip()}"

    def pull(self, name: str, target: Path) -> None:
        """Write an image of all machines as an OCI layout.

        Raises:
            ReleaseError: if crane fails.
        """
        self._run("pull", "--format=oci", name, target)

    def unpack(self, name: str, machine: str, root: Path) -> None:
        """Unpack the files of an image of one machine into a folder.

        Raises:
            ReleaseError: if crane fails.
        """
        archive = root.with_suffix(".tar")
        self._run("export", f"--platform=linux/{machine}", name, archive)
        with tarfile.open(archive) as files:
            files.extractall(root, filter="tar")
        archive.unlink()

    def _build_for(self, machine: str, wheel: Path) -> str:
        root = self.folder / machine
        base, own = root.with_suffix(".base.tar"), root.with_suffix(".own.tar")
        _make_base(machine, root, base)
        shutil.rmtree(root)
        _make_own_layer(_DEBIAN[machine], wheel, root, own)
        shutil.rmtree(root)
        name = f"{self.repository}:{machine}"
        self._run("append", "--oci-empty-base", f"--new_layer={base}", f"--new_layer={own}", f"--new_tag={name}")
        options = [f"--{option}={value}" for option, value in _read_dockerfile()]
        self._run("mutate", name, f"--set-platform=linux/{machine}", *options, f"--tag={name}")
        return name

    def _run(self, *arguments: str | Path) -> str:
        return run_program(self.crane, *arguments)


def try_image(root: Path, machine: str, manifest: Path, code: int) -> None:
    """Run `tallygate check` in the unpacked files of an image; another machine's by qemu, if it is on PATH.

    Raises:
        ReleaseError: if it has another exit code.
    """
    runner: list[str] = []
    if machine == "arm64":
        emulator = shutil.which("qemu-aarch64-static")
        if emulator is None:
            return
        shutil.copy(emulator, root / "emulator")
        runner = ["/emulator"]
    shutil.copy(manifest, root / "manifest.yaml")
    home = f"/{_HOME}/bin"
    run_program("chroot", root, *runner, f"{home}/python3", f"{home}/tallygate", "check", "/manifest.yaml", code=code)


def _make_base(machine: str, root: Path, target: Path) -> None:
    """Write the layer of Debian's packages, unpacked and not configured: no program of theirs is run."""
    fetched = root / "fetched"
    options = ("--download-only", f"--arch={machine}", "--variant=minbase", f"--include={_PACKAGES}")
    run_program("debootstrap", *options, _SUITE, fetched, _MIRROR)
    files = root / "files"
    for name in _MERGED:
        (files / "usr" / name).mkdir(parents=True)
        (files / name).symlink_to(f"usr/{name}")
    for package in sorted((fetched / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        _unpack_package(package, files)
    shutil.rmtree(files / "usr" / "share" / "doc")
    _pack(files, target)


def _unpack_package(package: Path, files: Path) -> None:
    opened = ("dpkg-deb", "--fsys-tarfile", str(package))
    unpacked = ("tar", "--extract", "--keep-directory-symlink", f"--directory={files}")
    with subprocess.Popen(opened, stdout=subprocess.PIPE) as source:  # noqa: S603  a program of Debian, no shell
        done = subprocess.run(unpacked, stdin=source.stdout, capture_output=True, text=True, check=False)  # noqa: S603  likewise
    if done.returncode or source.returncode:
        raise ReleaseError(f"{package.name} cannot be unpacked: {done.stderr}")


def _make_own_layer(python: Python, wheel: Path, root: Path, target: Path) -> None:
    """Write the layer with tallygate: as the Dockerfile's environment, but made for a machine that need not be here."""
    wheels = root / "wheels"
    fetch_wheels(python, wheel, wheels)
    files = root / "files"
    home = files / _HOME
    packages = home / "lib" / f"python{python.version}" / "site-packages"
    fitting = ("--only-binary=:all:", *python.pip_options())
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-index")
    run_program(
        sys.executable, *pip, f"--find-links={wheels}", f"--target={packages}", *fitting, f"{wheel}[{IMAGE_EXTRAS}]"
    )
    shutil.rmtree(packages / "bin", ignore_errors=True)  # scripts with the path of this machine's Python
    shutil.rmtree(packages / "kubernetes" / "aio")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n", encoding="utf-8")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to("/usr/bin/python3")
    script = home / "bin" / "tallygate"
    script.write_text(_SCRIPT, encoding="utf-8")
    script.chmod(0o755)
    _pack(files, target)


def _pack(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)


def _read_dockerfile() -> Iterator[tuple[str, str]]:
    """Yield crane's options for what the last stage of the Dockerfile sets."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    last = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[-1]
    names = {"LABEL": "label", "ENV": "env"}
    for line in last.splitlines():
        word, _, rest = line.partition(" ")
        if word in names:
            yield from ((names[word], each.replace("$PATH", _PATH)) for each in shlex.split(rest))
        elif word == "USER":
            yield "user", rest
        elif word == "EXPOSE":
            yield "exposed-ports", ",".join(rest.split())
        elif word in {"ENTRYPOINT", "CMD"}:
            yield word.lower(), ",".join(re.findall(r'"([^"]+)"', rest))
