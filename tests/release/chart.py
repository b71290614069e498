"""The chart as a package: with the name of the released image, the address of its source, and what Artifact Hub shows.

The chart of a clone names no registry and no repository. Artifact Hub's annotation `signKey` is left out: it names the
PGP key of a provenance file, and released charts are signed by cosign, which Artifact Hub finds in the registry itself.
"""

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from e2e.helm.build import helm
from tests.release.commands import ROOT, ReleaseError, run_program

CHART: Final = ROOT / "deploy" / "helm" / "tallygate"
_KINDS: Final = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
_SHOWN_CHANGES: Final = 40  # Artifact Hub shows a list, not a document
_PLATFORMS: Final = ("linux/amd64", "linux/arm64")


def package_chart(version: str, image: str, source: str, changelog: str, target: Path) -> Path:
    """Package the chart of a version, and return the path of the package.

    Args:
        version: of the chart and of the image.
        image: the name of the image with its registry, without a tag.
        source: the address of the repository.
        changelog: the text of docs/changelog.md.
        target: the folder of the package.

    Raises:
        ReleaseError: if Helm rejects it, or the values name no image.
    """
    with TemporaryDirectory(prefix="tallygate-chart-") as folder:
        chart = Path(folder) / CHART.name
        shutil.copytree(CHART, chart)
        values = chart / "values.yaml"
        text, found = re.subn(
            r"^(  repository: )tallygate\b",
            rf"\g<1>{image}",
            values.read_text(encoding="utf-8"),
            count=1,
            flags=re.MULTILINE,
        )
        if not found:
            raise ReleaseError(f"{values.name} has no line with the image's repository")
        values.write_text(text, encoding="utf-8")
        described = chart / "Chart.yaml"
        content = add_release(yaml.safe_load(described.read_text(encoding="utf-8")), version, image, source, changelog)
        described.write_text(yaml.safe_dump(content, sort_keys=False, width=120), encoding="utf-8")
        program = shutil.which("helm") or helm()
        run_program(program, "lint", "--strict", chart)
        target.mkdir(parents=True, exist_ok=True)
        run_program(program, "package", chart, f"--destination={target}")
    return target / f"{CHART.name}-{version}.tgz"


def add_release(chart: dict[str, Any], version: str, image: str, source: str, changelog: str) -> dict[str, Any]:
    """Return the content of Chart.yaml with what the release alone knows."""
    relay = _read_relay_image()
    images = [
        {"name": "tallygate", "image": f"{image}:{version}", "platforms": list(_PLATFORMS)},
        {"name": "haproxy", "image": relay, "platforms": list(_PLATFORMS), "whitelisted": True},
    ]
    annotations = {
        **chart["annotations"],
        "artifacthub.io/images": yaml.safe_dump(images, sort_keys=False),
        "artifacthub.io/changes": yaml.safe_dump(list_changes(changelog, version), sort_keys=False, width=120),
        "artifacthub.io/prerelease": str("-" in version).lower(),
    }
    return {**chart, "version": version, "appVersion": version, "sources": [source], "annotations": annotations}


def list_changes(changelog: str, version: str) -> list[dict[str, str]]:
    """Return the entries of a version as Artifact Hub has them, without links; those without a date if it is new."""
    sections = re.split(r"^## \[(.+?)\].*$", changelog, flags=re.MULTILINE)
    named = dict(zip(sections[1::2], sections[2::2], strict=True))
    section = named.get(version, named.get("Unreleased", ""))
    changes = []
    for part in re.split(r"^### ", section, flags=re.MULTILINE)[1:]:
        heading, _, entries = part.partition("\n")
        kind = heading.strip().lower()
        if kind in _KINDS:
            texts = re.split(r"^- ", entries, flags=re.MULTILINE)[1:]
            changes += [{"kind": kind, "description": _read_first_sentence(text)} for text in texts]
    return changes[:_SHOWN_CHANGES]


def _read_first_sentence(entry: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(entry.split())).replace("**", "")
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", text, maxsplit=1)[0]


def _read_relay_image() -> str:
    image = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["relay"]["image"]
    return f"docker.io/library/{image['repository']}:{image['tag']}"
