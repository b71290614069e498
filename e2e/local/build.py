"""The programs of the control plane, built from `e2e/controlplane` when the cache has none of this content.

They are kept in `$XDG_CACHE_HOME/tallygate/<digest>` (`~/.cache` when that is not set): a quarter of an hour on a cold
machine with two cores, nothing afterwards.

The environment variable `KUBERNETES` selects the release, as `1.37.2` or `1.37`; without it, that of
`e2e/controlplane/go.mod` is built. `e2e.local.releases` has the releases.
"""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import click

from e2e.errors import BuildError
from e2e.go_program import find_cache
from e2e.local.releases import SOURCE, Release, complete_requirements, select_release
from e2e.progress import run_command

_KWOK_SOURCE = SOURCE / "kwok"
_FILES = ("main.go", "kubectl/main.go", "kwok/go.mod", "kwok/go.sum")
_CONTENT = tuple(SOURCE / name for name in _FILES)
_KWOK_MODULE = "sigs.k8s.io/kwok"
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_MISUSE = 2  # the exit code
_INTERRUPTED = 130  # likewise
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_SHOWN_OUTPUT = 2000  # characters of a failed build


@dataclass(frozen=True)
class Programs:
    """The programs: the control plane, kubectl, KWOK, and the stages by which KWOK simulates a kubelet."""

    controlplane: Path
    kubectl: Path
    kwok: Path
    stages: tuple[Path, ...]


def programs() -> Programs:
    """Return the programs; build them if they are missing, with progress on stderr.

    Raises:
        BuildError: if there is no Go here, no release of that version, or a build fails.
    """
    release = select_release(os.environ)
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the local control plane is built from Kubernetes' Go modules, and there is no `go` on PATH; "
            "install Go 1.26 or newer (https://go.dev/doc/install) and run this again"
        )
    complete_requirements(release)
    folder = find_cache() / _digest(release)
    if not folder.exists():
        with _only_builder(folder.parent):
            _build(go, release, folder)
    return Programs(folder / "controlplane", folder / "kubectl", folder / "kwok", _stages(go))


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built, as `v1.36.3`.

    Raises:
        BuildError: if the environment names a version without a release here.
    """
    return select_release(os.environ).version


def _digest(release: Release) -> str:
    digest = hashlib.sha256(_linker_flags(release).encode())
    for file in (release.requirements, release.checksums, *_CONTENT):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _linker_flags(release: Release) -> str:
    """Return the flags with the version; without it `kubectl version` fails (Kubernetes' hack/lib/version.sh)."""
    major, minor = release.minor.split(".")
    values = {"gitVersion": release.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={each}" for package in packages for name, each in values.items())]
    )


@contextmanager
def _only_builder(cache: Path) -> Iterator[None]:
    """Let one process build at a time."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("w")
    except OSError as error:
        raise BuildError(
            f"{error.filename}: {error.strerror}; what is built is kept there: "
            "let XDG_CACHE_HOME name a folder that can be written"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            click.echo(f"another process builds in {cache}; waiting for it …", err=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, release: Release, folder: Path) -> None:
    """Build beside and rename, so that a folder of that name is always whole."""
    if folder.exists():  # the other process has built it
        return
    beside = folder.parent / "building"
    shutil.rmtree(beside, ignore_errors=True)  # of a build that was killed
    beside.mkdir()
    build = (go, "build", "-buildvcs=false", "-ldflags", _linker_flags(release), "-o")
    requirements = f"-modfile={release.requirements}"
    try:
        command = (*build, f"{beside}/", requirements, ".", "./kubectl")
        _run("Kubernetes' control plane", command, SOURCE, beside, release.go_environment)
        _run("KWOK", (*build, str(beside / "kwok"), f"{_KWOK_MODULE}/cmd/kwok"), _KWOK_SOURCE, beside)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _run(
    what: str,
    command: Sequence[str],
    folder: Path,
    scratch: Path | None = None,
    variables: Mapping[str, str] = _NO_VARIABLES,
) -> str:
    """Run Go, with progress now and then when it takes long, and return its output.

    Raises:
        BuildError: if it fails.
    """
    doing = f"building {what} (once; minutes on a cold machine)"
    done = run_command(command, doing, folder=folder, environment={**_environment(scratch), **variables})
    if done.returncode:
        raise BuildError(
            f"{what} cannot be built; `go {command[1]}` in {folder} says:\n{done.stderr[-_SHOWN_OUTPUT:].strip()}"
        )
    return done.stdout


def _environment(scratch: Path | None) -> dict[str, str]:
    """Return the user's own environment without a Go workspace, and with Go's scratch files in `scratch`.

    An interrupted Go leaves those behind.
    """
    own = {**os.environ, "GOWORK": "off"}
    # The linker heeds the one, all else of Go the other.
    return own if scratch is None else {**own, "TMPDIR": str(scratch), "GOTMPDIR": str(scratch)}


def _stages(go: str) -> tuple[Path, ...]:
    """Return KWOK's own stage files, from Go's module cache; fetch them again if that was emptied."""
    output = _run("KWOK's stages", (go, "mod", "download", "-json", _KWOK_MODULE), _KWOK_SOURCE)
    base = Path(json.loads(output)["Dir"]) / "kustomize" / "stage"
    return tuple(
        file for stage in _STAGES for file in sorted((base / stage).glob("*.yaml")) if file.name != "kustomization.yaml"
    )


def _main() -> int:
    """Build what is missing, for `make e2e`: pytest would keep the progress to itself."""
    try:
        programs()
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        return _MISUSE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    sys.exit(_main())
