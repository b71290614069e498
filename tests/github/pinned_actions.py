"""The commits of actions in documents and in what `tallygate init` writes: those of the project's own workflows.

Dependabot renews the workflows. `python -m tests.github.pinned_actions` then enters the commits everywhere else.
"""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_USED = re.compile(r"(uses: )([\w.-]+/[\w./-]+)@\S+(?: # v[\d.]+)?")
_PINNED = re.compile(r"uses: ([\w.-]+/[\w.-]+)[\w./-]*@([0-9a-f]{40} # v[\d.]+)")


def read_commits() -> dict[str, str]:
    """Return by action what stands behind its `@` in the workflows: the commit, and the version as a comment."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    return {found[1]: found[2] for file in workflows for found in _PINNED.finditer(file.read_text(encoding="utf-8"))}


def list_files() -> list[Path]:
    """Return the files that show a workflow, and name actions in it."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "webhook").rglob("*.py")]
    return sorted(file for file in files if _USED.search(file.read_text(encoding="utf-8")))


def enter_commits(text: str, commits: Mapping[str, str]) -> str:
    """Return a text whose actions have these commits; our own, of which a reader enters the address, stay."""

    def enter(found: re.Match[str]) -> str:
        action = "/".join(found[2].split("/")[:2])
        return f"{found[1]}{found[2]}@{commits[action]}"

    return _USED.sub(enter, text)


if __name__ == "__main__":
    known = read_commits()
    for path in list_files():
        path.write_text(enter_commits(path.read_text(encoding="utf-8"), known), encoding="utf-8")
