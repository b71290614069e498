"""The releases of Kubernetes of which a control plane can be built: one of each supported minor, and newer ones.

`go.mod` of `e2e/controlplane` requires the default release; `versions/<minor>.mod` beside it requires that of another
minor. `python -m e2e.local.releases 1.37.2` writes such a file, with the requirements of Kubernetes' own `go.mod`.

A release of a newer minor needs no file here: its requirements are written into `$XDG_CACHE_HOME/tallygate/releases`
from the day on which the module proxy serves it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.errors import BuildError
from e2e.go_program import find_cache

SOURCE = Path(__file__).parent.parent / "controlplane"
"""The folder with the programs and their requirements."""

VARIABLE = "KUBERNETES"
"""The environment variable that selects a release."""

_DEFAULT = SOURCE / "go.mod"
_OTHERS = SOURCE / "versions"
_NEWER = re.compile(r"1\.(\d{1,4})\.\d+(?:-[a-z]+\.\d+)?", re.ASCII)
_GO_OF_RELEASE = re.compile(r"^go 1\.(\d+)", re.MULTILINE)
_OLDER_GO = 26  # the minor of Go that builds the releases with a file here
_TOOLCHAIN = "go1.27.3"  # builds the others, unless GOTOOLCHAIN is set
_NOT_SERVED = re.compile(r"([\w./-]+)@(v[\w.+-]+): .*(?:40[34]|410|not found|unknown revision|invalid version)")
_REQUIRED = re.compile(r"^\s*k8s\.io/kubernetes v(\d+\.\d+)(\.\d+)$", re.MULTILINE)
_MISUSE = 2  # the exit code


@dataclass(frozen=True)
class Release:
    """A release, as `1.37` and `v1.37.2`, and the file that requires it."""

    minor: str
    version: str
    requirements: Path

    @property
    def checksums(self) -> Path:
        """The file with the checksums of the modules."""
        return self.requirements.with_suffix(".sum")

    @property
    def go_environment(self) -> dict[str, str]:
        """The variables with which Go builds the release: a newer Go than that on PATH, where the release needs it."""
        found = _GO_OF_RELEASE.search(self.requirements.read_text()) if self.requirements.exists() else None
        if found is not None and int(found[1]) <= _OLDER_GO:
            return {}
        return {"GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN") or _TOOLCHAIN}


def list_releases() -> tuple[Release, ...]:
    """Return the releases, the default one first.

    Raises:
        BuildError: if a file requires no release of Kubernetes.
    """
    return tuple(_read_release(file) for file in (_DEFAULT, *sorted(_OTHERS.glob("*.mod"), reverse=True)))


def _read_release(requirements: Path) -> Release:
    found = _REQUIRED.search(requirements.read_text())
    if found is None:
        raise BuildError(f"{requirements}: it requires no release of k8s.io/kubernetes")
    return Release(found[1], f"v{found[1]}{found[2]}", requirements)


def select_release(environment: Mapping[str, str]) -> Release:
    """Return the release that the environment selects, or the default one.

    The requirements of a release that is newer than these may not be there yet (`complete_requirements`).

    Raises:
        BuildError: if it names a version without a release here, and no newer one.
    """
    releases = list_releases()
    wanted = environment.get(VARIABLE, "").removeprefix("v")
    if not wanted:
        return releases[0]
    for release in releases:
        if wanted in (release.minor, release.version.removeprefix("v")):
            return release
    newer = _NEWER.fullmatch(wanted)
    if newer is not None and int(newer[1]) > int(releases[0].minor.partition(".")[2]):
        file = find_cache() / "releases" / f"{wanted}.mod"
        return Release(f"1.{newer[1]}", f"v{wanted}", file)
    known = ", ".join(sorted(release.version.removeprefix("v") for release in releases))
    raise BuildError(
        f"{VARIABLE}={wanted}: no control plane of that version can be built; there are {known}. "
        f"`python -m e2e.local.releases VERSION` adds another release"
    )


def complete_requirements(release: Release) -> None:
    """Write the file that requires a release, and that with its checksums, unless they are there.

    Raises:
        BuildError: if there is no Go, or the module proxy does not serve the release.
    """
    if not release.checksums.exists():
        release.requirements.parent.mkdir(parents=True, exist_ok=True)
        beside = Release(release.minor, release.version, release.requirements.with_name("written.mod"))
        _write_requirements(beside)
        beside.requirements.replace(release.requirements)
        beside.checksums.replace(release.checksums)


def _write_requirements(release: Release) -> None:
    """Write the file that requires a release, and let Go complete it."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("there is no `go` on PATH; install Go 1.26 or newer (https://go.dev/doc/install)")
    release.requirements.unlink(missing_ok=True)
    version, staging = release.version.removeprefix("v"), f"v0.{release.version.partition('.')[2]}"
    downloaded = json.loads(_run_go(release, go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"))
    published = json.loads(_run_go(release, go, "mod", "edit", "-json", downloaded["GoMod"]))
    versions = {module["Path"]: module["Version"] for module in published["Require"]}
    required = {
        **{path: versions[path] for path in ("github.com/spf13/cobra", "go.etcd.io/etcd/server/v3")},
        **dict.fromkeys(("k8s.io/component-base", "k8s.io/kubectl"), staging),
        "k8s.io/kubernetes": f"v{version}",
    }
    # Kubernetes replaces its own modules by folders; they are published with the minor and patch of the release.
    replaced = [each["Old"]["Path"] for each in published["Replace"]]
    release.requirements.write_text(
        f"module tallygate.dev/e2e/controlplane\n\ngo {published['Go']}\n\nrequire (\n"
        + "".join(f"\t{path} {each}\n" for path, each in required.items())
        + ")\n\nreplace (\n"
        + "".join(f"\t{path} => {path} {staging}\n" for path in replaced)
        + ")\n"
    )
    _run_go(release, go, "mod", "tidy", f"-modfile={release.requirements}")


def _run_go(release: Release, *command: str) -> str:
    environment = {**os.environ, **release.go_environment, "GOWORK": "off"}
    done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  Go, no shell
    if done.returncode:
        raise _create_error(release, command, f"{done.stderr}\n{done.stdout}")
    return done.stdout


def _create_error(release: Release, command: Sequence[str], output: str) -> BuildError:
    """Return the error of a Go that failed: one sentence if the proxy does not serve a module."""
    missing = _NOT_SERVED.search(output)
    if missing is None:
        return BuildError(f"`go {' '.join(command[1:])}` in {SOURCE} says:\n{output.strip()}")
    known, module = f"k8s.io/kubernetes {release.version}", f"{missing[1]} {missing[2]}"
    of_release = "" if module == known else f", which {known} requires"
    return BuildError(
        f"{VARIABLE}={release.version.removeprefix('v')}: the module proxy does not serve {module}{of_release}: this "
        "control plane can be built from the day on which it does"
    )


@click.command()
@click.argument("version")
def _main(version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    release = Release(minor, f"v{version}", _OTHERS / f"{minor}.mod")
    try:
        _write_requirements(release)
        click.echo(release.requirements)
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)


if __name__ == "__main__":
    _main()
