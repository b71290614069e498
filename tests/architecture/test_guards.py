"""The guards, each on the product and on a small tree that breaks its rule."""

import gc
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.architecture import structure, words
from tests.architecture.source_tree import Module, read_tree

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]

_COMMENTED = {".yaml", ".tpl", ".cfg"}

Guard = Callable[[Sequence[Module]], list[str]]

_WORD_GUARDS: dict[str, Guard] = {
    "a-function-named-by-a-participle-or-preposition": words.find_nameless_verbs,
    "a-docstring-that-begins-without-a-verb": words.find_docstrings_without_verb,
    "a-word-of-no-glossary-in-prose": words.find_words_in_prose,
    "a-word-of-no-glossary-in-a-name": words.find_words_in_names,
}

_GUARDS: dict[str, Guard] = {
    "two-public-classes-of-one-name-in-a-package": structure.find_shared_classes,
    "a-function-of-another-package-without-a-docstring": structure.find_undocumented_functions,
    "a-small-module-with-one-importer": structure.find_small_modules,
    "a-module-over-800-lines": structure.find_long_modules,
    "a-function-over-50-lines": structure.find_long_functions,
    "a-package-of-one-module": structure.find_small_packages,
    "an-import-that-is-not-at-the-top": structure.find_lazy_imports,
    **_WORD_GUARDS,
}


def test_the_product_breaks_no_rule() -> None:
    """Parse the product once for all guards; the garbage collector would go through its trees while they are made."""
    gc.disable()
    try:
        product = list(read_tree(_ROOT, ["webhook", "certs"]))
        found = {name: guard(product) for name, guard in _GUARDS.items()}
    finally:
        gc.enable()
    assert found == {name: [] for name in _GUARDS}


def test_the_tests_use_the_words_of_the_glossary() -> None:
    """Parse each module once for all guards. The guards themselves quote the words that are not used."""
    found: dict[str, list[str]] = {name: [] for name in _WORD_GUARDS}
    for module in read_tree(_ROOT, ["tests", "e2e"]):
        for name, guard in _WORD_GUARDS.items() if "tests/architecture/" not in module.path else ():
            found[name] += guard([module])
    assert found == {name: [] for name in _WORD_GUARDS}


@pytest.mark.parametrize("name", _GUARDS)
def test_a_tree_that_breaks_a_rule_is_found(name: str) -> None:
    sections = (_HERE / "cases" / f"{name}.txt").read_text("utf-8").split("== ")[1:]
    texts = dict(section.split("\n", 1) for section in sections)
    expected = texts.pop("expected").splitlines()
    assert expected
    assert _GUARDS[name]([Module(path, text) for path, text in texts.items()]) == expected


def test_the_glossary_lists_the_words_that_are_not_used() -> None:
    assert {"promise", "sight", "in force"} <= set(words.read_forbidden_words())
    assert words.find_words("The cap in  force promised 3; `promise` is code.") == ["in  force", "promised"]


def test_the_pages_use_the_words_of_the_glossary() -> None:
    """Fences and code spans quote; the glossary lists the words themselves."""
    pages = [*(_ROOT / "docs").rglob("*.md"), _ROOT / "README.md", *(_ROOT / "policies").glob("*.md")]
    places = []
    for page in pages:
        prose = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        places += [f"{page.name}: {word}" for word in words.find_words(prose) if page.name != "glossary.md"]
    assert places == []


def test_the_comments_of_policies_and_manifests_use_the_words_of_the_glossary() -> None:
    paths = [
        path for folder in ("deploy", "policies") for path in (_ROOT / folder).rglob("*.*") if path.suffix in _COMMENTED
    ]
    comments = [
        (path, comment)
        for path in paths
        for comment in re.findall(r"(?:^|\s)# (.*)", path.read_text("utf-8"))
        if "grafana" not in path.parts
    ]
    assert len(comments) > 300
    assert [f"{path.name}: {word}" for path, comment in comments for word in words.find_words(comment)] == []
