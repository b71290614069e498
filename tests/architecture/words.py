"""Guards of the words: names, docstrings, comments and messages in the words of docs/concepts/glossary.md."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.architecture.source_tree import Module

_GLOSSARY = Path(__file__).parents[2] / "docs/concepts/glossary.md"
_HEADING = "## Words that are not used"
_NOT_VERBS = {
    *("a", "an", "all", "any", "anything", "as", "everything", "how", "it", "nobody", "one", "somebody", "something"),
    *("that", "the", "their", "they", "this", "those", "what", "whatever", "when", "where", "whether", "which", "who"),
    *("whoever", "whom", "whose", "why"),
}
_PREPOSITIONS = {
    "about",
    "at",
    "behind",
    "beside",
    "besides",
    "between",
    "beyond",
    "by",
    "for",
    "in",
    "of",
    "on",
    "over",
    "under",
    "upon",
    "within",
    "without",
}
_IRREGULAR = {
    *(
        "begun",
        "bound",
        "broken",
        "built",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fallen",
        "felt",
        "found",
        "given",
        "gone",
        "got",
    ),
    *(
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
    ),
    *(
        "put_back",
        "said",
        "seen",
        "sent",
        "shown",
        "sought",
        "spent",
        "spoken",
        "stood",
        "taken",
        "taught",
        "thought",
        "told",
    ),
    *("understood", "won", "written"),
}
_VERBS_IN_ED = {"bleed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed", "weed"}
_COPIES = re.compile(r"with_\w+|for_user")
"""`with_x` returns a copy with another x, and `for_user` the part for one user, as in many libraries."""


@cache
def read_forbidden_words() -> tuple[str, ...]:
    """Return the words and phrases of the glossary's last table."""
    _, _, table = _GLOSSARY.read_text("utf-8").partition(_HEADING)
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    return tuple(word.strip() for row in rows[1:] if "---" not in row for word in row.split(","))


@cache
def _pattern() -> re.Pattern[str]:
    words = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in read_forbidden_words())
    return re.compile(rf"(?<![\w.`/-])(?:{words})(?![\w`/-])", re.IGNORECASE)


def find_words(text: str) -> list[str]:
    """Return the forbidden words and phrases of a text; what stands between backticks is code, and does not count."""
    return [match[0].lower() for match in _pattern().finditer(re.sub(r"`[^`]*`", "", text))]


def find_words_in_prose(modules: Sequence[Module]) -> list[str]:
    """Return the forbidden words of docstrings, comments, messages and help, each with its place."""
    return [
        f"{module.path}:{line}: {word}"
        for module in modules
        for line, text in _prose(module)
        for word in find_words(text)
    ]


def _prose(module: Module) -> Iterator[tuple[int, str]]:
    yield from module.comments
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def find_words_in_names(modules: Sequence[Module]) -> list[str]:
    """Return the names of modules, classes, functions, parameters and attributes that are made of a forbidden word."""
    single = {word for word in read_forbidden_words() if " " not in word}
    return [
        f"{module.path}:{line}: {name}"
        for module in modules
        for line, name in sorted(_names(module))
        if single & {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)}
    ]


def _names(module: Module) -> set[tuple[int, str]]:
    names = {(1, module.basename)}
    for node in module.nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            names.add((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add((node.lineno, node.attr))
    return names


def find_nameless_verbs(modules: Sequence[Module]) -> list[str]:
    """Return the functions that are named by a participle or a preposition; properties may be."""
    return [
        f"{module.path}:{function.lineno}: {function.name}"
        for module in modules
        for function in module.functions()
        if not _is_property(function) and _is_not_verb(function.name)
    ]


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.dump(decorator) for decorator in function.decorator_list)


def _is_not_verb(name: str) -> bool:
    if name.startswith("__") or _COPIES.fullmatch(name):
        return False
    first = name.lstrip("_").partition("_")[0]
    participle = first in _IRREGULAR or (first.endswith("ed") and first not in _VERBS_IN_ED)
    return participle or first in _PREPOSITIONS


def find_docstrings_without_verb(modules: Sequence[Module]) -> list[str]:
    """Return the functions whose docstring does not begin with a verb in the imperative mood; properties may."""
    return [
        f"{module.path}:{line}: {text.split()[0]}"
        for module in modules
        for line, text, owner in module.docstrings
        if isinstance(owner, ast.FunctionDef) and not _is_property(owner) and text.split()
        if not _begins_with_verb(text.split()[0])
    ]


def _begins_with_verb(word: str) -> bool:
    bare = re.sub(r"\W", "", word).lower()
    return word[:1].isupper() and bare not in _NOT_VERBS and not (bare.endswith("ed") and bare not in _VERBS_IN_ED)
