"""Documents and `tallygate init` name actions by the commits of the project's own workflows."""

from pathlib import Path

import pytest

from tests.github.pinned_actions import ROOT, enter_commits, list_files, read_commits


@pytest.mark.parametrize("file", list_files(), ids=lambda path: path.name)
def test_an_action_has_the_commit_of_the_workflows(file: Path) -> None:
    """Expect what `python -m tests.github.pinned_actions` writes."""
    text = file.read_text(encoding="utf-8")
    assert text == enter_commits(text, read_commits())


def test_what_init_writes_names_actions() -> None:
    assert ROOT / "webhook/tallygate/cli/init/project_files.py" in list_files()


@pytest.mark.parametrize(
    "text", ["- uses: a/b/c@v1\n", "- uses: a/b/c@main # v1\n", f"- uses: a/b/c@{'f' * 40} # v1.2.3\n"]
)
def test_a_tag_a_branch_and_another_commit_are_replaced(text: str) -> None:
    assert enter_commits(text, {"a/b": "0123 # v1.4.0"}) == "- uses: a/b/c@0123 # v1.4.0\n"


def test_an_action_whose_repository_the_reader_enters_stays() -> None:
    text = "- uses: <where tallygate's repository is>/.github/actions/check@v0.1.0\n"
    assert enter_commits(text, {}) == text
