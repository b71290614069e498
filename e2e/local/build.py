"""The programs of the control plane, built from `e2e/controlplane` when the cache has none of this content.

They are kept in `$XDG_CACHE_HOME/tallygate/<digest>` (`~/.cache` when that is not set): a quarter of an hour on a cold
machine with two cores, nothing afterwards.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.errors import BuildError
from e2e.progress import run_command

_SOURCE = Path(__file__).parent.parent / "controlplane"
_KWOK_SOURCE = _SOURCE / "kwok"
_FILES = ("go.mod", "go.sum", "main.go", "kubectl/main.go", "kwok/go.mod", "kwok/go.sum")
_CONTENT = tuple(_SOURCE / name for name in _FILES)
_KWOK_MODULE = "sigs.k8s.io/kwok"
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_MISUSE = 2  # the exit code
_INTERRUPTED = 130  # likewise
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
        BuildError: if there is no Go here, or a build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the local control plane is built from Kubernetes' Go modules, and there is no `go` on PATH; "
            "install Go 1.26 or newer (https://go.dev/doc/install) and run this again"
        )
    folder = _cache() / _digest()
    if not folder.exists():
        with _only_builder(folder.parent):
            _build(go, folder)
    return Programs(folder / "controlplane", folder / "kubectl", folder / "kwok", _stages(go))


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built, as `v1.36.3`: what `go.mod` requires."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)$", (_SOURCE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{_SOURCE / 'go.mod'}: it requires no release of k8s.io/kubernetes")
    return found[1]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path in it is to be ignored (XDG Base Directory Specification).
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "tallygate"


def _digest() -> str:
    digest = hashlib.sha256(_linker_flags().encode())
    for file in _CONTENT:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _linker_flags() -> str:
    """Return the flags with the version; without it `kubectl version` fails (Kubernetes' hack/lib/version.sh)."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
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


def _build(go: str, folder: Path) -> None:
    """Build beside and rename, so that a folder of that name is always whole."""
    if folder.exists():  # the other process has built it
        return
    beside = folder.parent / "building"
    shutil.rmtree(beside, ignore_errors=True)  # of a build that was killed
    beside.mkdir()
    build = (go, "build", "-buildvcs=false", "-ldflags", _linker_flags(), "-o")
    try:
        _run("Kubernetes' control plane", (*build, f"{beside}/", ".", "./kubectl"), _SOURCE, beside)
        _run("KWOK", (*build, str(beside / "kwok"), f"{_KWOK_MODULE}/cmd/kwok"), _KWOK_SOURCE, beside)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _run(what: str, command: Sequence[str], folder: Path, scratch: Path | None = None) -> str:
    """Run Go, with progress now and then when it takes long, and return its output.

    Raises:
        BuildError: if it fails.
    """
    doing = f"building {what} (once; minutes on a cold machine)"
    done = run_command(command, doing, folder=folder, environment=_environment(scratch))
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
