"""A page of docs/: its title, its first paragraph, and its fenced blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w./-]+\.ya?ml)\n")
_LINKED_FILE = re.compile(r"\]\(([\w./-]+\.ya?ml)\)")
_POLICY_KINDS = frozenset({"ResourceRule", "NamespaceCap", "WorkloadKind", "NodeShape"})


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        """Its path in docs/."""
        return self.path.relative_to(DOCS).as_posix()

    def read(self) -> str:
        """Return its text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def first_paragraph(self) -> str:
        """The text between the title and the next blank line; empty where another element follows the title."""
        blocks = [block for block in re.split(r"\n\s*\n", self.read()) if block.strip()]
        first = blocks[1].strip() if len(blocks) > 1 and blocks[0].startswith("# ") else ""
        return "" if first.startswith(("#", "|", "```", "- ", "1. ", "<", "!")) else first

    def list_blocks(self, language: str) -> list[re.Match[str]]:
        """Return the fenced blocks of a language; group 2 is the text."""
        return [found for found in _FENCE.finditer(self.read()) if found[1] == language]

    def list_files(self) -> dict[str, str]:
        """Return the files that a reader saves: blocks of YAML whose first line is `# PATH.yaml`, and linked files."""
        files = {
            Path(link).name: (self.path.parent / link).read_text(encoding="utf-8")
            for link in _LINKED_FILE.findall(self.read())
        }
        for block in self.list_blocks("yaml"):
            if named := _FILE_NAME.match(block[2]):
                files[named[1]] = block[2]
        return files

    def list_policies(self) -> dict[str, str]:
        """Return those of its files that are policies."""
        return {name: text for name, text in self.list_files().items() if _is_policy(text)}


def _is_policy(text: str) -> bool:
    return any(
        isinstance(document, dict) and document.get("kind") in _POLICY_KINDS for document in yaml.safe_load_all(text)
    )


def list_pages() -> Iterator[Page]:
    """Yield every page of docs/, sorted by path; skills are for agents, and no pages."""
    for path in sorted(DOCS.rglob("*.md")):
        if not path.is_relative_to(DOCS / "skills"):
            yield Page(path)
