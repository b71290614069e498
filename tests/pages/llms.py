"""`docs/llms.txt`, the list of pages for language models (llmstxt.org): `python -m tests.pages.llms` writes it.

It has the navigation of the site, and of each page the first sentence.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.pages.page import DOCS, Page

PATH = DOCS / "llms.txt"

_SITE = "https://tallygate.dev/"
_HEAD = """\
# tallygate

> An admission gate for the things Kubernetes counts but does not understand: GPUs, FPGAs, licences, IP addresses. It
> rejects malformed requests, limits namespaces by caps in policy files, and says before anything is stored
> whether a pod can run, and why not.

Every command takes `-o json`, and each finding has a code, which `tallygate explain CODE` explains. The skill
[A pod is pending or rejected](https://tallygate.dev/skills/tallygate-pods/SKILL.md) says which command answers which
question.
"""


def create_text() -> str:
    """Return the text of the file."""
    return _HEAD + "".join(f"\n## {title}\n\n" + "".join(_list_entries(pages)) for title, pages in _read_navigation())


def _read_navigation() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the titles of sections with their pages."""
    text = (DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    site: dict[str, Any] = yaml.safe_load(text)
    for section in site["nav"]:
        yield from section.items()


def _list_entries(pages: list[dict[str, str]]) -> Iterator[str]:
    for entry in pages:
        for title, path in entry.items():
            address = _SITE + path.removesuffix(".md") + ".html"
            yield f"- [{title}]({address}): {_find_first_sentence(Page(DOCS / path))}\n"


def _find_first_sentence(page: Page) -> str:
    paragraph = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(page.first_paragraph.split()))
    sentence = re.split(r"(?<=[.?])\s(?=[A-Z`])", paragraph, maxsplit=1)[0]
    return f"{sentence.removesuffix(':')}." if sentence.endswith(":") else sentence


if __name__ == "__main__":
    PATH.write_text(create_text(), encoding="utf-8")
