"""The workflows are right by actionlint, and release what the project has; the pages for GitHub link to files."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.actionlint.build import ACTIONLINT
from tests.release.__main__ import steps

_ROOT = Path(__file__).parents[2]
_WORKFLOWS = sorted((_ROOT / ".github" / "workflows").glob("*.yml"))
_ACTION_FILES = sorted((_ROOT / ".github" / "actions").glob("*/action.yml"))
_PROJECT = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")


def find_actionlint() -> str:
    """Return the program, or skip the test if it is missing."""
    own = ACTIONLINT.find_built()
    found = shutil.which("actionlint") if own is None else str(own)
    if found is None:
        pytest.skip("actionlint is neither built here (python -m e2e.build_programs does) nor on PATH")
    return found


def test_actionlint_finds_nothing() -> None:
    """Without shellcheck and pyflakes, which some machines have."""
    command = (find_actionlint(), "-shellcheck=", "-pyflakes=", *map(str, _WORKFLOWS))
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)  # noqa: S603  found or built, no shell
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("file", [*_WORKFLOWS, *_ACTION_FILES], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_action_is_a_commit_with_its_version_beside(file: Path) -> None:
    """Find no tag and no branch: both can be moved to other code after it was looked at."""
    used = re.findall(r"^\s*(?:- )?uses: (.+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    pinned = re.compile(r"\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+){0,2}")
    assert [each for each in used if not pinned.fullmatch(each)] == []


def test_an_action_has_one_commit_everywhere() -> None:
    commits: dict[str, set[str]] = {}
    for file in (*_WORKFLOWS, *_ACTION_FILES):
        for action, commit in re.findall(r"uses: ([\w-]+/[\w-]+)[\w/-]*@(.+)", file.read_text(encoding="utf-8")):
            commits.setdefault(action, set()).add(commit)
    assert commits
    assert {action: found for action, found in commits.items() if len(found) > 1} == {}


@pytest.mark.parametrize("file", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_unless_a_job_says_more(file: Path) -> None:
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


def test_the_tests_run_on_every_python_that_the_project_names() -> None:
    workflow = yaml.safe_load((_ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', _PROJECT)
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    (setup,) = [step for step in workflow["jobs"]["gate"]["steps"] if "setup-python" in step.get("uses", "")]
    assert setup["with"]["python-version"].split() == named[::-1]


def test_the_steps_of_a_release_that_workflows_call_exist() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in _WORKFLOWS)
    called = re.findall(r"-m tests\.release ([a-z-]+)", text)
    assert set(called) == set(steps.commands) - {"rehearsal"}


def test_every_schema_is_published_at_its_id() -> None:
    release = (_ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    schemas = [path for path in (_ROOT / "webhook").rglob("*schema.json") if "$id" in json.loads(path.read_bytes())]
    assert schemas
    for schema in schemas:
        assert schema.relative_to(_ROOT).as_posix() in release
        assert json.loads(schema.read_bytes())["$id"].startswith("https://tallygate.dev/schemas/")


@pytest.mark.parametrize("page", sorted((_ROOT / ".github").glob("*.md")), ids=lambda path: path.name)
def test_a_page_for_github_links_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https://)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
