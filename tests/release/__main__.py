"""`python -m tests.release STEP`: a step of a release, as release.yml and the rehearsal run it."""

import os
import re
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click

from e2e.engine import engine
from e2e.errors import BuildError
from e2e.image import Python, fetch_wheels, python_of
from tests.release.chart import ChartRelease, package_chart
from tests.release.chart_key import CHART_KEY_VARIABLE, import_chart_key
from tests.release.commands import ROOT, ReleaseError
from tests.release.homebrew_formula import FORMULA_FILE, describe_formula
from tests.release.krew_manifest import FILE_NAME, describe_plugin
from tests.release.rehearsal import rehearse
from tests.release.signed_files import write_bill_of_materials, write_checksums

_DIST: Final = ROOT / "dist"
_ARCHIVES: Final = "tallygate-*-*.tar.gz"
_MACHINES: Final = ("x86_64", "aarch64")
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)


def read_project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def find_wheel(folder: Path) -> Path:
    """Return the one wheel in a folder.

    Raises:
        ReleaseError: unless there is exactly one.
    """
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise ReleaseError(f"{folder} has {len(found)} wheels, and a release is made of one: run `make package`")
    return found[0]


@click.group()
def steps() -> None:
    """Run a step of a release; files are read from and written to dist/."""


@steps.command()
@click.argument("tag")
def version(tag: str) -> None:
    """Compare a tag with pyproject.toml and the change log, and print the version."""
    own: str = read_project()["version"]
    if tag != f"v{own}":
        raise ReleaseError(f"the tag is {tag}, pyproject.toml has {own}")
    changes = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(own)}\] - \d", changes, re.MULTILINE):
        raise ReleaseError(f"docs/changelog.md has no date for {own}")
    click.echo(own)


@steps.command()
@click.option("--base", required=True, help="The base image, with its digest.")
@click.option("--dist", type=_FOLDER, default=_DIST, help="The folder of the wheel.")
def wheels(base: str, dist: Path) -> None:
    """Put the wheels of the image, for both machines, into deploy/wheels."""
    asked = python_of(engine(), base)
    for machine in _MACHINES:
        fetch_wheels(Python(asked.version, machine, asked.glibc), find_wheel(dist), ROOT / "deploy" / "wheels")


@steps.command()
@click.option("--image", required=True, help="The name of the image, without a tag.")
@click.option("--source", required=True, help="The address of the repository.")
def chart(image: str, source: str) -> None:
    """Package the chart for the released image; sign it if $CHART_SIGNING_KEY has a key."""
    changes = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    secret = os.environ.get(CHART_KEY_VARIABLE, "")
    with import_chart_key(secret) if secret else nullcontext() as key:
        click.echo(package_chart(ChartRelease(read_project()["version"], image, source, changes), _DIST, key))


@steps.command(name="krew-manifest")
@click.option("--url", required=True, help="The address from which the archives are downloaded.")
def krew_manifest(url: str) -> None:
    """Write the manifest of the krew plugin for the archives in dist/."""
    project = read_project()
    text = describe_plugin(project["version"], project["urls"]["Homepage"], url, _DIST.glob(_ARCHIVES))
    (_DIST / FILE_NAME).write_text(text, encoding="utf-8")


@steps.command(name="homebrew-formula")
@click.option("--url", required=True, help="The address from which the archives are downloaded.")
def homebrew_formula(url: str) -> None:
    """Write the formula of Homebrew for the archives in dist/."""
    project = read_project()
    text = describe_formula(project["version"], project["urls"]["Homepage"], url, _DIST.glob(_ARCHIVES))
    (_DIST / FORMULA_FILE).write_text(text, encoding="utf-8")


@steps.command(name="bill-of-materials")
def bill_of_materials() -> None:
    """Write the packages of the image as CycloneDX."""
    click.echo(write_bill_of_materials(find_wheel(_DIST), sys.executable, _DIST))


@steps.command()
def checksums() -> None:
    """Write the digests of the files in dist/."""
    click.echo(write_checksums(_DIST))


@steps.command(name="rehearsal")
def rehearsal() -> None:
    """Make, sign and verify a release of dist/ on this machine alone, and install from it."""
    project = read_project()
    rehearse(project["version"], project["urls"]["Homepage"], find_wheel(_DIST))


def main() -> None:
    """Run a step; exit with 1 if it fails."""
    try:
        steps(standalone_mode=False)
    except (ReleaseError, BuildError) as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
