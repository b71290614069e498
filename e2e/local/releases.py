"""The releases of Kubernetes of which a control plane can be built: one of each supported minor.

`go.mod` of `e2e/controlplane` requires the default release; `versions/<minor>.mod` beside it requires that of another
minor. `python -m e2e.local.releases 1.37.2` writes such a file, with the requirements of Kubernetes' own `go.mod`.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.errors import BuildError

SOURCE = Path(__file__).parent.parent / "controlplane"
"""The folder with the programs and their requirements."""

VARIABLE = "KUBERNETES"
"""The environment variable that selects a release."""

_DEFAULT = SOURCE / "go.mod"
_OTHERS = SOURCE / "versions"
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

    Raises:
        BuildError: if it names a version without a release here.
    """
    releases = list_releases()
    wanted = environment.get(VARIABLE, "").removeprefix("v")
    if not wanted:
        return releases[0]
    for release in releases:
        if wanted in (release.minor, release.version.removeprefix("v")):
            return release
    known = ", ".join(sorted(release.version.removeprefix("v") for release in releases))
    raise BuildError(
        f"{VARIABLE}={wanted}: no control plane of that version can be built; there are {known}. "
        f"`python -m e2e.local.releases VERSION` adds another release"
    )


def _write_requirements(version: str) -> Path:
    """Write the file that requires a release, and let Go complete it."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("there is no `go` on PATH; install Go 1.26 or newer (https://go.dev/doc/install)")
    minor, staging = version.rpartition(".")[0], f"v0.{version.partition('.')[2]}"
    downloaded = _run_go(go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}")
    published = json.loads(_run_go(go, "mod", "edit", "-json", json.loads(downloaded)["GoMod"]))
    versions = {module["Path"]: module["Version"] for module in published["Require"]}
    required = {
        **{path: versions[path] for path in ("github.com/spf13/cobra", "go.etcd.io/etcd/server/v3")},
        **dict.fromkeys(("k8s.io/component-base", "k8s.io/kubectl"), staging),
        "k8s.io/kubernetes": f"v{version}",
    }
    # Kubernetes replaces its own modules by folders; they are published with the minor and patch of the release.
    replaced = [each["Old"]["Path"] for each in published["Replace"]]
    file = _OTHERS / f"{minor}.mod"
    file.write_text(
        f"module tallygate.dev/e2e/controlplane\n\ngo {published['Go']}\n\nrequire (\n"
        + "".join(f"\t{path} {each}\n" for path, each in required.items())
        + ")\n\nreplace (\n"
        + "".join(f"\t{path} => {path} {staging}\n" for path in replaced)
        + ")\n"
    )
    _run_go(go, "mod", "tidy", f"-modfile={file}")
    return file


def _run_go(*command: str) -> str:
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)  # noqa: S603  Go, no shell
    if done.returncode:
        raise BuildError(f"`go {' '.join(command[1:])}` in {SOURCE} says:\n{done.stderr.strip()}")
    return done.stdout


@click.command()
@click.argument("version")
def _main(version: str) -> None:
    try:
        click.echo(_write_requirements(version))
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)


if __name__ == "__main__":
    _main()
