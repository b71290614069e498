"""The signed files beside those of a release: their digests, their bill of materials, and where they come from."""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from e2e.image import IMAGE_EXTRAS
from tests.release.commands import ROOT, run_program

CHECKSUMS: Final = "SHA256SUMS"
BILL_OF_MATERIALS: Final = "tallygate.cdx.json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PROVENANCE: Final = "https://slsa.dev/provenance/v1"
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def write_checksums(folder: Path) -> Path:
    """Write the digests of the files in a folder, as `sha256sum --check` reads them, and return the path."""
    target = folder / CHECKSUMS
    files = sorted(each for each in folder.iterdir() if each.is_file() and each.name != CHECKSUMS)
    target.write_text("".join(f"{_digest(each)}  {each.name}\n" for each in files), encoding="utf-8")
    return target


def write_bill_of_materials(wheel: Path, python: str, target: Path) -> Path:
    """Write the packages that the image has of PyPI, as CycloneDX 1.6, and return the path.

    Raises:
        ReleaseError: if a package cannot be installed, or a step fails.
    """
    with TemporaryDirectory(prefix="tallygate-bill-") as name:
        environment = Path(name) / "environment"
        run_program(python, "-m", "venv", environment)
        own = environment / "bin" / "python"
        run_program(own, *_PIP, f"{wheel.resolve()}[{IMAGE_EXTRAS}]")
        for record in environment.rglob("direct_url.json"):
            record.unlink()  # a path of this machine
        tools = Path(name) / "tools"
        run_program(python, "-m", "venv", tools)
        run_program(tools / "bin" / "python", *_PIP, "pip>=25.1")  # the first with groups of pyproject.toml
        run_program(tools / "bin" / "python", *_PIP, "--group", f"{ROOT / 'pyproject.toml'}:bill-of-materials")
        options = ("--output-reproducible", "--spec-version=1.6", "--output-format=JSON")
        file = target / BILL_OF_MATERIALS
        main = f"--pyproject={ROOT / 'pyproject.toml'}"
        run_program(tools / "bin" / "cyclonedx-py", "environment", *options, main, f"--output-file={file}", own)
    return file


def describe_provenance(files: Iterable[Path], source: str, commit: str, started: datetime) -> dict[str, Any]:
    """Return where files come from, as an in-toto statement with a provenance of SLSA 1.0.

    A release has that of GitHub in its place, whose builder signs it; this one says that a rehearsal made them.
    """
    return {
        "_type": _STATEMENT,
        "subject": [{"name": each.name, "digest": {"sha256": _digest(each)}} for each in sorted(files)],
        "predicateType": _PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": "https://tallygate.dev/rehearsal/v1",
                "externalParameters": {"source": source, "target": "release-rehearsal"},
                "resolvedDependencies": [{"uri": f"git+{source}", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {
                "builder": {"id": "https://tallygate.dev/rehearsal"},
                "metadata": {
                    "startedOn": started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "finishedOn": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                },
            },
        },
    }


def write_provenance(statement: dict[str, Any], target: Path) -> Path:
    """Write a statement as JSON and return the path."""
    target.write_text(json.dumps(statement, indent=1), encoding="utf-8")
    return target


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
