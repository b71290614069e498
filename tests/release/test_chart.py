"""The chart of a release: the image that it names, and what Artifact Hub shows of it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.helm.build import find_built_helm
from tests.release.chart import ChartRelease, add_release, list_changes, package_chart
from tests.release.chart_key import CHART_KEY_FILE, find_gpg, make_chart_key

_IMAGE = "ghcr.io/example/tallygate"
_SOURCE = "https://github.com/example/tallygate"
_CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- What comes **next** ([a page](page.md)). And more of it.

## [1.2.3] - 2026-12-01

### Added

- `one` does a thing,
  on two lines ([page](a.md)). The second sentence is left out.

### Fixed

- Another thing.

### Notes

- This is no kind of Artifact Hub's.
"""


def test_the_changes_are_the_first_sentences_of_the_entries_of_the_version() -> None:
    assert list_changes(_CHANGELOG, "1.2.3") == [
        {"kind": "added", "description": "`one` does a thing, on two lines (page)."},
        {"kind": "fixed", "description": "Another thing."},
    ]


def test_a_version_without_a_date_has_the_changes_that_are_not_released() -> None:
    assert list_changes(_CHANGELOG, "2.0.0") == [{"kind": "added", "description": "What comes next (a page)."}]


def test_the_annotations_name_the_images_and_a_pre_release() -> None:
    chart: dict[str, Any] = {"name": "tallygate", "annotations": {"artifacthub.io/license": "Apache-2.0"}}
    described = add_release(chart, ChartRelease("1.2.3-rc.1", _IMAGE, _SOURCE, _CHANGELOG), None)
    annotations = described["annotations"]
    images = yaml.safe_load(annotations["artifacthub.io/images"])
    assert [each["image"] for each in images] == [f"{_IMAGE}:1.2.3-rc.1", "docker.io/library/haproxy:2.8"]
    assert annotations["artifacthub.io/prerelease"] == "true"
    assert annotations["artifacthub.io/license"] == "Apache-2.0"
    assert "artifacthub.io/signKey" not in annotations
    assert (described["appVersion"], described["sources"]) == ("1.2.3-rc.1", [_SOURCE])


def find_helm() -> str:
    """Return the program, or skip the test if it is missing."""
    program = find_built_helm() or shutil.which("helm")
    if program is None:
        pytest.skip("Helm is neither built here (python -m e2e.build_programs does) nor on PATH")
    return str(program)


def run_helm(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run Helm, whatever it exits with."""
    command = [find_helm(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  built, no shell


@pytest.mark.parametrize("image", [_IMAGE, "127.0.0.1:5000/tallygate"])
def test_the_package_installs_the_released_image(tmp_path: Path, image: str) -> None:
    """Also of a registry whose name begins with a digit, as that of a rehearsal."""
    find_helm()
    package = package_chart(ChartRelease("1.2.3", image, _SOURCE, _CHANGELOG), tmp_path, None)
    done = run_helm("template", "any", package, "--kube-version=1.36.0")
    assert f"image: {image}:1.2.3" in done.stdout
    assert [each.name for each in tmp_path.iterdir()] == [package.name]  # neither a signature nor a key


def test_helm_verifies_the_package_by_the_key_that_it_names(tmp_path: Path) -> None:
    find_helm()
    gpg = find_gpg()
    if gpg is None:
        pytest.skip("gpg is not on PATH")
    with make_chart_key() as key:
        package = package_chart(ChartRelease("1.2.3", _IMAGE, _SOURCE, _CHANGELOG), tmp_path, key)
    keyring = tmp_path / "keyring.gpg"
    subprocess.run(  # noqa: S603  found, no shell
        [gpg, "--batch", f"--output={keyring}", "--dearmor", tmp_path / CHART_KEY_FILE], capture_output=True, check=True
    )
    verified = run_helm("verify", f"--keyring={keyring}", package)
    assert verified.returncode == 0, verified.stderr
    (shown,) = re.findall(r"^Using Key With Fingerprint: (\w+)$", verified.stdout, re.MULTILINE)
    annotations = yaml.safe_load(run_helm("show", "chart", package).stdout)["annotations"]
    assert yaml.safe_load(annotations["artifacthub.io/signKey"]) == {
        "fingerprint": shown,
        "url": f"{_SOURCE}/releases/download/v1.2.3/{CHART_KEY_FILE}",
    }
    package.write_bytes(package.read_bytes() + b" ")
    changed = run_helm("verify", f"--keyring={keyring}", package)
    assert changed.returncode != 0
    assert "sha256 sum does not match" in changed.stderr
