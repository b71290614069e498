"""The console examples of the pages print what the pages show."""

from pathlib import Path

import pytest

from tests.pages.page import Page
from tests.pages.page_examples import is_offline, list_played_pages, play_offline

_PAGES = list(list_played_pages())


def test_there_are_examples_of_both_kinds() -> None:
    blocks = [block[2] for page in _PAGES for block in page.list_blocks("console")]
    assert {is_offline(block) for block in blocks} == {True, False}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_offline_examples_of_a_page_print_what_it_shows(page: Page, tmp_path: Path) -> None:
    assert play_offline(page, tmp_path) == page.read()


def test_another_output_is_found(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("```yaml\n# a.yaml\nkind: Nothing\n```\n```console\n$ tallygate lint a.yaml\nfine\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    now = play_offline(Page(path), folder)
    assert "fine" not in now
    assert "(exit 1)" in now
