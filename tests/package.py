"""`python -m tests.package`: builds wheel and sdist into dist/, checks both, and tries them in clean environments.

There is one environment for each Python from 3.11 to 3.14 that is on PATH. It has the wheel, first without extras and
then with those of the gate, and runs the commands that need no cluster. The first one also runs tests of the sdist.
"""

import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

ROOT: Final = Path(__file__).parents[1]
_DIST: Final = ROOT / "dist"
_MINORS: Final = (11, 12, 13, 14)
_CASES: Final = ROOT / "tests" / "cli"
_AUDIT: Final = _CASES / "audit" / "cases" / "stored_objects_are_evaluated_like_new_ones"
_SNAPSHOT: Final = str(_CASES / "cases" / "nodes_of_a_snapshot_are_evaluated" / "snapshot.json")
_PODS: Final = str(ROOT / "e2e" / "manifests" / "one-dongle.yaml")
_SCENARIOS: Final = ROOT / "policies" / "examples" / "tests"
_NEED_NODES: Final = frozenset({"node-shapes.yaml"})  # scenarios with rules that compare pods with nodes, by numpy
_SDIST_TESTS: Final = ("tests/policy", "tests/documents", "tests/architecture", "tests/cli/test_extras.py")

_WITHOUT_EXTRAS: Final = (
    (0, ("--version",)),
    (0, ("check", _PODS)),
    (1, ("check", str(ROOT / "e2e" / "manifests" / "half.yaml"))),
    (0, ("lint", str(ROOT / "policies"))),
    (0, ("test", *(str(each) for each in sorted(_SCENARIOS.glob("*.yaml")) if each.name not in _NEED_NODES))),
    (0, ("explain", "TG101")),
    (0, ("explain", "pod", "-f", _PODS)),
    (0, ("completion", "bash")),
    (0, ("predict", "--help")),
    (2, ("predict", "-f", _PODS, "--snapshot", _SNAPSHOT)),
    (2, ("serve",)),
)
_WITH_EXTRAS: Final = (
    (0, ("test", str(_SCENARIOS))),
    (0, ("headroom", "-f", _PODS, "--snapshot", _SNAPSHOT)),
    (1, ("predict", "-f", _PODS, "--snapshot", _SNAPSHOT)),
    (0, ("usage", "--policies", str(_AUDIT / "policies"), "--snapshot", str(_AUDIT / "snapshot.json"))),
    (1, ("audit", "--policies", str(_AUDIT / "policies"), "--snapshot", str(_AUDIT / "snapshot.json"))),
    (0, ("certs", "--help")),
    (0, ("doctor", "--help")),
    (0, ("serve", "--help")),
)
"""Exit codes, and the arguments that lead to them."""


class PackageError(Exception):
    """A package that must not be published."""


def build_packages() -> tuple[Path, Path]:
    """Build and check wheel and sdist; return their paths.

    Raises:
        PackageError: if a step fails, or the sdist lacks a file of the repository.
    """
    shutil.rmtree(_DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(_DIST), str(ROOT))
    (wheel,), (sdist,) = _DIST.glob("*.whl"), _DIST.glob("*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    _run(sys.executable, "-m", "check_wheel_contents", str(wheel))
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = set(_run("git", "-C", str(ROOT), "ls-files").splitlines()) - packed
    if missing:
        raise PackageError(f"the sdist lacks {len(missing)} files of the repository, for example {min(missing)}")
    return wheel, sdist


def find_pythons() -> list[str]:
    """Return the Pythons on PATH that the project supports; a name may be there without a working program.

    Raises:
        PackageError: if no Python is found.
    """
    found = [program for minor in _MINORS if (program := shutil.which(f"python3.{minor}"))]
    working = [
        each
        for each in found
        if not subprocess.run([each, "-c", ""], capture_output=True, check=False).returncode  # noqa: S603  found on PATH, no shell
    ]
    if not working:
        raise PackageError("no Python from 3.11 to 3.14 is on PATH to try the wheel with")
    return working


def try_wheel(wheel: Path, python: str, folder: Path) -> Path:
    """Install the wheel in a new environment and run the commands; return the environment's Python.

    Raises:
        PackageError: if a step fails, or a command has another exit code.
    """
    _run(python, "-m", "venv", str(folder))
    own = folder / "bin" / "python"
    start = time.monotonic()
    _install(own, str(wheel))
    installed = time.monotonic() - start
    _try_commands(folder, _WITHOUT_EXTRAS)
    _install(own, f"{wheel}[server]")
    _try_commands(folder, _WITH_EXTRAS)
    click.echo(
        f"{_run(str(own), '--version').strip()}: works; the wheel without extras took {installed:.0f} s to install"
    )
    return own


def try_sdist(sdist: Path, python: Path, folder: Path) -> None:
    """Install the sdist with what its tests need, and run some of them in its folder.

    Raises:
        PackageError: if a step fails.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    _install(python, f"{source}[test]")
    tests = (str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    click.echo(_run(*tests, "--collect-only", "tests", folder=source).splitlines()[-1])
    click.echo(_run(*tests, *_SDIST_TESTS, folder=source).splitlines()[-1])


def _install(python: Path, requirement: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)


def _try_commands(folder: Path, commands: Sequence[tuple[int, tuple[str, ...]]]) -> None:
    for code, arguments in commands:
        _run(str(folder / "bin" / "tallygate"), *arguments, folder=folder, code=code)


def _run(*command: str, folder: Path = ROOT, code: int = 0) -> str:
    """Return the output of a command that exits with this code."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)  # noqa: S603  commands of ours, no shell
    if done.returncode != code:
        raise PackageError(f"{' '.join(command)} exits with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build, check and try the packages; exit with 1 if they must not be published."""
    try:
        wheel, sdist = build_packages()
        pythons = find_pythons()
        with TemporaryDirectory(prefix="tallygate-package-") as folder:
            environments = [try_wheel(wheel, each, Path(folder) / Path(each).name) for each in pythons]
            try_sdist(sdist, environments[0], Path(folder) / "sdist")
    except PackageError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(1)
    click.echo("\n".join(str(each.relative_to(ROOT)) for each in (wheel, sdist)))


if __name__ == "__main__":
    main()
