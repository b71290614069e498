"""Helm as a program: built once from `e2e/helm/go.mod`, and kept where the control plane is (`e2e.local.build`)."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from e2e.errors import BuildError
from e2e.progress import ended

_SOURCE: Final = Path(__file__).parent
_MODULE: Final = "helm.sh/helm/v3"
_SHOWN_OUTPUT = 2000  # characters of a failed build


def built() -> Path | None:
    """Where it is, if it was built from these versions before."""
    program = _program()
    return program if program.exists() else None


def helm() -> Path:
    """The program, built now when it is not there: some minutes on a cold machine.

    Raises:
        BuildError: there is no Go here, or the build fails.
    """
    program = _program()
    if not program.exists():
        _build(program)
    return program


def _program() -> Path:
    content = b"".join((_SOURCE / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(content + _linker_flags().encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path in it is to be ignored (XDG Base Directory Specification).
    cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return cache / "tallygate" / f"helm-{digest}" / "helm"


def _build(program: Path) -> None:
    """Beside, and then renamed, so that a program of that name is always whole; of two who build, one is kept."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "Helm is built from its Go module, and there is no `go` on PATH; "
            "install Go 1.26 or newer (https://go.dev/doc/install) and run this again"
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=program.parent) as folder:
        made = Path(folder) / "helm"
        command = (go, "build", "-buildvcs=false", "-ldflags", _linker_flags(), "-o", str(made), f"{_MODULE}/cmd/helm")
        environment = {**os.environ, "GOWORK": "off", "GOTMPDIR": folder}
        done = ended(command, "building Helm (once)", folder=_SOURCE, environment=environment)
        if done.returncode:
            raise BuildError(f"Helm cannot be built; `go build` in {_SOURCE} says:\n{done.stderr[-_SHOWN_OUTPUT:]}")
        made.rename(program)


def _linker_flags() -> str:
    """Which Kubernetes it takes for there where it is told of none goes in at link time (Helm's Makefile, v3.22)."""
    found = re.search(r"k8s\.io/client-go v0\.(\d+)\.", (_SOURCE / "go.mod").read_text())
    minor = "" if found is None else found[1]
    packages = (f"{_MODULE}/pkg/chartutil", f"{_MODULE}/pkg/lint/rules")
    values = {"k8sVersionMajor": "1", "k8sVersionMinor": minor}
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={each}" for package in packages for name, each in values.items())]
    )
