"""OpenSSF Scorecard on a folder of files: the scores of its checks, and what lowers them."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.scorecard.build import SCORECARD


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The score of a check, from 0 to 10, its warnings, and the reasons for them in `.github/scorecard.yml`."""

    score: int
    warnings: tuple[str, ...]
    annotations: tuple[str, ...]


def run_checks(folder: Path, checks: Sequence[str]) -> dict[str, CheckResult]:
    """Return the result of each check; skip the test if the program is missing."""
    program = SCORECARD.find_built()
    if program is None:
        pytest.skip(f"{SCORECARD.title} is not built here (python -m e2e.build_programs does)")
    done = subprocess.run([program, folder, *checks], capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode == 0, done.stderr
    return {
        each["name"]: CheckResult(
            each["score"],
            tuple(detail for detail in each["details"] or () if detail.startswith("Warn: ")),
            tuple(each.get("annotations", ())),
        )
        for each in json.loads(done.stdout)["checks"]
    }
