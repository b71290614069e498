"""The chart as a package: with the name of the released image, the address of its source, and what Artifact Hub shows.

The chart of a clone names no registry and no repository. Artifact Hub's annotation `signKey` names the PGP key of
Helm's provenance file, which a release has if it has a key (`tests.release.chart_key`).
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from e2e.helm.build import helm
from tests.release.chart_key import CHART_KEY_FILE, ChartKey
from tests.release.commands import ROOT, ReleaseError, run_program

CHART: Final = ROOT / "deploy" / "helm" / "tallygate"
_KINDS: Final = frozenset({"added", "changed", "deprecated", "removed", "fixed", "security"})
_SHOWN_CHANGES: Final = 40  # Artifact Hub shows a list, not a document
_PLATFORMS: Final = ("linux/amd64", "linux/arm64")


@dataclass(frozen=True, slots=True)
class ChartRelease:
    """What a release knows of its chart.

    `version` is that of chart and image, `image` the name of the image with its registry and without a tag, `source`
    the address of the repository, and `changelog` the text of docs/changelog.md.
    """

    version: str
    image: str
    source: str
    changelog: str


def package_chart(release: ChartRelease, target: Path, key: ChartKey | None) -> Path:
    """Package the chart of a release in a folder, and return the path of the package.

    With a key, its provenance file (`.prov`) and the public key are beside it.

    Raises:
        ReleaseError: if Helm rejects it, or the values name no image.
    """
    with TemporaryDirectory(prefix="tallygate-chart-") as folder:
        chart = Path(folder) / CHART.name
        shutil.copytree(CHART, chart)
        values = chart / "values.yaml"
        text, found = re.subn(
            r"^(  repository: )tallygate\b",
            rf"\g<1>{release.image}",
            values.read_text(encoding="utf-8"),
            count=1,
            flags=re.MULTILINE,
        )
        if not found:
            raise ReleaseError(f"{values.name} has no line with the image's repository")
        values.write_text(text, encoding="utf-8")
        described = chart / "Chart.yaml"
        content = add_release(yaml.safe_load(described.read_text(encoding="utf-8")), release, key)
        described.write_text(yaml.safe_dump(content, sort_keys=False, width=120), encoding="utf-8")
        program = shutil.which("helm") or helm()
        run_program(program, "lint", "--strict", chart)
        target.mkdir(parents=True, exist_ok=True)
        signed = [] if key is None else ["--sign", f"--key={key.user}", f"--keyring={key.keyring}"]
        run_program(program, "package", chart, f"--destination={target}", *signed)
    if key is not None:
        (target / CHART_KEY_FILE).write_text(key.public, encoding="utf-8")
    return target / f"{CHART.name}-{release.version}.tgz"


def add_release(chart: dict[str, Any], release: ChartRelease, key: ChartKey | None) -> dict[str, Any]:
    """Return the content of Chart.yaml with what the release alone knows."""
    version, image = release.version, release.image
    relay = _read_relay_image()
    images = [
        {"name": "tallygate", "image": f"{image}:{version}", "platforms": list(_PLATFORMS)},
        {"name": "haproxy", "image": relay, "platforms": list(_PLATFORMS), "whitelisted": True},
    ]
    annotations = {
        **chart["annotations"],
        "artifacthub.io/images": yaml.safe_dump(images, sort_keys=False),
        "artifacthub.io/changes": yaml.safe_dump(list_changes(release.changelog, version), sort_keys=False, width=120),
        "artifacthub.io/prerelease": str("-" in version).lower(),
    }
    if key is not None:
        url = f"{release.source.rstrip('/')}/releases/download/v{version}/{CHART_KEY_FILE}"
        signed = {"fingerprint": key.fingerprint, "url": url}
        annotations["artifacthub.io/signKey"] = yaml.safe_dump(signed, sort_keys=False, width=200)
    return {**chart, "version": version, "appVersion": version, "sources": [release.source], "annotations": annotations}


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
