"""The site: every page is in the navigation once, and begins with a title and a paragraph."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pages.page import DOCS, Page, list_pages
from tests.pages.page_examples import list_played_pages

_FRONT_PAGES = (DOCS.parent / "README.md", DOCS / "index.md")


class _Loader(yaml.SafeLoader):
    """A loader that ignores the tags of mkdocs.yml."""


_Loader.add_multi_constructor("", lambda _loader, _suffix, _node: None)


def list_navigation(items: list[Any]) -> Iterator[str]:
    """Yield the paths of a navigation, section by section."""
    for item in items:
        (target,) = item.values()
        if isinstance(target, list):
            yield from list_navigation(target)
        else:
            yield target


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.load((DOCS / "site" / "mkdocs.yml").read_text(), _Loader)  # noqa: S506 -- a safe loader
    assert sorted(list_navigation(settings["nav"])) == sorted(page.name for page in list_pages())


@pytest.mark.parametrize("page", list(list_pages()), ids=lambda page: page.name)
def test_every_page_begins_with_a_title_and_a_paragraph(page: Page) -> None:
    assert page.first_paragraph


@pytest.mark.parametrize(
    ("text", "paragraph"),
    [
        ("# A title\n\nA paragraph\nof two lines.\n\nAnother.\n", "A paragraph\nof two lines."),
        ("# A title\n\n## A heading\n\nA paragraph.\n", ""),
        ("# A title\n\n| a | table |\n", ""),
        ("A paragraph.\n\nAnother.\n", ""),
        ("# A title\n", ""),
    ],
    ids=["a paragraph", "a heading first", "a table first", "no title", "a title alone"],
)
def test_the_first_paragraph_is_the_text_after_the_title(text: str, paragraph: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    assert Page(path).first_paragraph == paragraph


@pytest.mark.parametrize("path", _FRONT_PAGES, ids=lambda path: path.name)
def test_the_outputs_of_a_front_page_are_those_of_a_played_page(path: Path) -> None:
    """Each command with its output stands in a page whose examples are played."""
    played = "\n".join(block[2] for page in list_played_pages() for block in page.list_blocks("console"))
    parts = [part for block in Page(path).list_blocks("console") for part in f"\n{block[2]}".split("\n$ ")[1:]]
    with_output = [part.rstrip("\n") for part in parts if "\n" in part.rstrip("\n")]
    assert with_output
    assert [part for part in with_output if f"$ {part}\n" not in played] == []
