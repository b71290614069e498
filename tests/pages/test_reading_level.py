"""The sentences of the pages are short enough to be read once."""

import re

import pytest

from tests.pages.page import DOCS, Page, list_pages

_MOST_WORDS = 20
"""The most words that a sentence of a page has on average, outside the reference."""

_NO_PROSE = re.compile(r"^ *```.*?^ *```|^ *\|.*?$|^    .*?$|^#.*?$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_PARAGRAPH = re.compile(r"\n\s*(?:[-*>]|\d+\.) |\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*]*\s+")

_PAGES = [
    *(page for page in list_pages() if not page.name.startswith(("reference/", "changelog"))),
    Page(DOCS.parent / "README.md"),
]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.path.name)
def test_a_sentence_has_at_most_twenty_words_on_average(page: Page) -> None:
    lengths = _count_words(page.read())
    assert sum(lengths) <= _MOST_WORDS * len(lengths)


def test_long_sentences_are_found() -> None:
    assert _count_words("# Title\n\nOne two three. [Four five](six.md)\n\n- `a b` seven\n") == [3, 2, 2]


def _count_words(text: str) -> list[int]:
    """Return the number of words of each sentence; code counts as one word."""
    prose = re.sub(r"`[^`]*`", "code", _LINK.sub(r"\1", _NO_PROSE.sub("", text)))
    sentences = (sentence for paragraph in _PARAGRAPH.split(prose) for sentence in _SENTENCE.split(paragraph.strip()))
    return [len(sentence.split()) for sentence in sentences if sentence.split()]
