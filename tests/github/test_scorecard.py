"""OpenSSF Scorecard on the files of the repository: those of its checks that need no service.

The others read what only GitHub has (branches, reviews, releases, contributors), or ask OSV for vulnerabilities; the
workflow *Scorecard* runs all of them.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.github.scorecard import CheckResult, run_checks
from tests.pages.page import DOCS, Page

_ROOT = Path(__file__).parents[2]
_GO_MOD = (_ROOT / "e2e" / "scorecard" / "go.mod").read_text(encoding="utf-8")
_FULL = (
    "Binary-Artifacts",
    "Dangerous-Workflow",
    "Dependency-Update-Tool",
    "Fuzzing",
    "Packaging",
    "SAST",
    "Security-Policy",
    "Token-Permissions",
)
_WITH_WARNINGS: Mapping[str, set[str]] = {
    # Without GitHub, Scorecard reads the licence from the name of the file alone.
    "License": {"project license file does not contain an FSF or OSI license."},
    # .github/scorecard.yml has the reasons.
    "Pinned-Dependencies": {
        "containerImage not pinned by hash: .clusterfuzzlite/Dockerfile",
        "containerImage not pinned by hash: deploy/Dockerfile",
        "pipCommand not pinned by hash: .clusterfuzzlite/build.sh",
    },
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CheckResult]:
    """Return the results for a copy of the files that Git has or would take."""
    if not (_ROOT / ".git").exists():
        pytest.skip("this is no Git repository, and without one other files would be checked too")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607  the Git on PATH
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
    )
    folder = tmp_path_factory.mktemp("repository")
    for name in filter(None, listed.stdout.split("\0")):
        if (_ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, folder / name)
    return run_checks(folder, (*_FULL, *_WITH_WARNINGS))


@pytest.mark.parametrize("check", _FULL)
def test_a_check_gives_its_full_score(results: Mapping[str, CheckResult], check: str) -> None:
    assert results[check].score == 10, results[check]


@pytest.mark.parametrize("check", _WITH_WARNINGS)
def test_a_check_warns_of_what_is_known_alone(results: Mapping[str, CheckResult], check: str) -> None:
    warnings = {re.sub(r":\d+$", "", each.removeprefix("Warn: ")) for each in results[check].warnings}
    assert warnings == _WITH_WARNINGS[check]


def test_the_reasons_stand_beside_the_warnings(results: Mapping[str, CheckResult]) -> None:
    assert len(results["Pinned-Dependencies"].annotations) == 2


def test_the_page_names_the_version_and_the_scores(results: Mapping[str, CheckResult]) -> None:
    page = (_ROOT / "docs" / "operate" / "verify.md").read_text(encoding="utf-8")
    (version,) = re.findall(r"github.com/ossf/scorecard/v5 v(.+)", _GO_MOD)
    assert f"own Go module, {version}:" in page
    assert f"| {', '.join(_FULL)} | 10 of 10 |" in page
    for check in _WITH_WARNINGS:
        assert f"| {check} | {results[check].score} |" in page


def write_workflows(folder: Path) -> None:
    """Write the workflows that `tallygate init` and a page give to users."""
    done = CliRunner().invoke(root, ["init", "--for", "gpus", str(folder)])
    assert done.exit_code == 0, done.output
    page = Page(DOCS / "start" / "forty-teams.md")
    (block,) = (each[2] for each in page.list_blocks("yaml") if each[2].startswith("# .github/workflows/"))
    (folder / ".github" / "workflows" / "page.yaml").write_text(block, encoding="utf-8")


def test_workflows_for_users_have_pinned_actions_and_few_rights(tmp_path: Path) -> None:
    """Expect one warning: pip installs tallygate by its version, since users choose the version, and not by hashes."""
    write_workflows(tmp_path)
    found = run_checks(tmp_path, ("Pinned-Dependencies", "Token-Permissions", "Dangerous-Workflow"))
    (warning,) = found["Pinned-Dependencies"].warnings
    assert warning.startswith("Warn: pipCommand not pinned by hash: .github/workflows/tallygate.yml:")
    assert (found["Token-Permissions"].score, found["Dangerous-Workflow"].score) == (10, 10)


def test_an_action_by_tag_and_missing_rights_would_be_found(tmp_path: Path) -> None:
    write_workflows(tmp_path)
    for file in (tmp_path / ".github" / "workflows").iterdir():
        text = re.sub(r"@[0-9a-f]{40} # (v\d).*", r"@\1", file.read_text(encoding="utf-8"))
        file.write_text(re.sub(r"^permissions:.*\n(?:  .*\n)*", "", text, flags=re.MULTILINE), encoding="utf-8")
    found = run_checks(tmp_path, ("Pinned-Dependencies", "Token-Permissions"))
    unpinned = [each for each in found["Pinned-Dependencies"].warnings if "GitHubAction not pinned" in each]
    assert (len(unpinned), found["Token-Permissions"].score) == (3, 0)
