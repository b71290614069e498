"""Policies as nodes: positions, values of scalars, and rejected YAML."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.documents.composer import compose_policies
from tallygate.documents.scalars import Number
from tallygate.documents.syntax_tree import (
    DocumentError,
    ErrorKind,
    Limits,
    Mapping,
    Node,
    Scalar,
    Sequence,
    descend,
    join_path,
)
from tests.effort import examples

LIMITS = Limits(depth=32, nodes=50_000, expanded=10_000)


def _compose(text: str) -> tuple[list[Node], list[DocumentError]]:
    return compose_policies(text, LIMITS)


def _compose_one(text: str) -> Node:
    documents, errors = _compose(text)
    assert errors == []
    (document,) = documents
    return document


def _value(text: str) -> Any:
    return _compose_one(text).value


def _list_positions(node: Node) -> list[tuple[str, int, int]]:
    """Return every scalar, keys included, with its position."""
    if isinstance(node, Scalar):
        return [(node.text, *node.position)]
    if isinstance(node, Sequence):
        return [position for item in node.items for position in _list_positions(item)]
    return [
        position for entry in node.entries for each in (entry.key, entry.value) for position in _list_positions(each)
    ]


def test_lines_and_columns_count_from_one() -> None:
    assert _list_positions(_compose_one("a: b\nc:\n  - d\n  - {e: f}\n")) == [
        ("a", 1, 1),
        ("b", 1, 4),
        ("c", 2, 1),
        ("d", 3, 5),
        ("e", 4, 6),
        ("f", 4, 9),
    ]


WORDS = st.text("abcxyz", min_size=1, max_size=6)
TREES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(WORDS, inner, min_size=1, max_size=3),
    max_leaves=12,
)


def _block(tree: Any, indent: str = "") -> str:
    """Return a tree as block YAML, scalars on the line of their key or dash."""
    if isinstance(tree, str):
        return f" {tree}\n"
    below = indent + "  "
    if isinstance(tree, list):
        return "\n" + "".join(f"{below}-{_block(item, below)}" for item in tree)
    return "\n" + "".join(f"{below}{key}:{_block(value, below)}" for key, value in tree.items())


@given(TREES)
@settings(max_examples=examples(100))
def test_every_scalar_is_at_its_position(tree: Any) -> None:
    text = _block({"top": tree})
    lines = text.splitlines()
    node = _compose_one(text)
    for word, line, column in _list_positions(node):
        assert lines[line - 1][column - 1 :].startswith(word)
    assert node.value == {"top": tree}


def test_positions_count_from_the_start_of_the_file() -> None:
    documents, _ = _compose("a: 1\n---\nb: 2\n--- {c: 3}\n")
    assert [_list_positions(document)[0] for document in documents] == [("a", 1, 1), ("b", 3, 1), ("c", 4, 6)]


def test_positions_after_a_syntax_error_count_from_the_start_of_the_file() -> None:
    documents, findings = _compose("a: 1\n---\nb: [\n---\nc: 3\n---\nd: ]\n---\ne: 5\n")
    assert [_list_positions(document)[0] for document in documents] == [("a", 1, 1), ("c", 5, 1), ("e", 9, 1)]
    assert [finding.position for finding in findings] == [(4, 1), (7, 4)]


VALUES: dict[str, tuple[str, Any]] = {
    "nothing is null": ("", None),
    "a tilde is null": ("~", None),
    "null is null": ("null", None),
    "quoted null is a text": ("'null'", "null"),
    "true is true": ("true", True),
    "TRUE is true": ("TRUE", True),
    "False is false": ("False", False),
    "yes is a text": ("yes", "yes"),
    "on is a text": ("on", "on"),
    "y is a text": ("y", "y"),
    "tRue is a text": ("tRue", "tRue"),
    "quoted true is a text": ('"true"', "true"),
    "a date is a text": ("2026-01-01", "2026-01-01"),
    "a time is a text": ("1:30", "1:30"),
    "hexadecimal is a text": ("0x10", "0x10"),
    "octal of YAML 1.2 is a text": ("0o10", "0o10"),
    "underscores make a text": ("1_000", "1_000"),
    "infinity is a text": (".inf", ".inf"),
    "a quantity is a text": ("64Gi", "64Gi"),
    "a tagged number is a text": ("!!str 8", "8"),
    "a number tagged with nothing is a text": ("! 8", "8"),
    "a block is a text": ("|\n  x\n", "x\n"),
    "a folded block is a text": (">-\n  x\n  y\n", "x y"),
    "a question mark is part of a text": ("team-?", "team-?"),
    "escapes are read": (r'"\u0061\n"', "a\n"),
}


@pytest.mark.parametrize(("written", "value"), VALUES.values(), ids=VALUES)
def test_a_scalar_has_its_value_of_yaml_1_2(written: str, value: Any) -> None:
    read = _value(f"a: {written}\n")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


@pytest.mark.parametrize(
    ("written", "sign"),
    [
        ("8", 1),
        ("0", 0),
        ("-1", -1),
        ("-0", 0),
        ("1e3", 1),
        ("-1.5E-3", -1),
        (".5", 1),
        ("8.", 1),
        ("0.0e9", 0),
        ("+2", 1),
        ("010", 1),
        ("1e999999999999", 1),
        ("9" * 5_000, 1),
    ],
)
def test_a_number_keeps_its_text_and_its_sign(written: str, sign: int) -> None:
    number = _value(f"a: {written}\n")["a"]
    assert isinstance(number, Number)
    assert (str(number), int(number)) == (written, sign)


REJECTED: dict[str, tuple[str, ErrorKind, tuple[int, int]]] = {
    "a tag of one's own": ("a: !own b\n", ErrorKind.FEATURE, (1, 4)),
    "a tag on a list": ("a: !!set [b]\n", ErrorKind.FEATURE, (1, 4)),
    "a tag for a number": ("a: !!int 8\n", ErrorKind.FEATURE, (1, 4)),
    "a merge key": ("a: &a {b: c}\nd: {<<: *a}\n", ErrorKind.FEATURE, (2, 5)),
    "an unknown alias": ("a: *b\n", ErrorKind.FEATURE, (1, 4)),
    "an alias of another document": ("a: &a b\n---\nc: *a\n", ErrorKind.FEATURE, (3, 4)),
    "a list as a key": ("? [a]\n: b\n", ErrorKind.FEATURE, (1, 3)),
    "a number as a key": ("1: b\n", ErrorKind.FEATURE, (1, 1)),
    "a bool as a key": ("a: {true: b}\n", ErrorKind.FEATURE, (1, 5)),
    "no key": ("a: {: b}\n", ErrorKind.FEATURE, (1, 6)),
    "a key twice": ("a: 1\nb: 2\n'a': 3\n", ErrorKind.DUPLICATE_KEY, (3, 1)),
    "an open list": ("a: [b\n", ErrorKind.SYNTAX, (2, 1)),
    "an open quote": ('a: "b\n', ErrorKind.SYNTAX, (2, 1)),
    "a tab for indentation": ("a:\n\tb: c\n", ErrorKind.SYNTAX, (2, 1)),
    "an item without a space": ("a:\n- b\n-c", ErrorKind.SYNTAX, (3, 3)),
    "an error after a tab": ('{"a":\t1}\n}\n', ErrorKind.SYNTAX, (2, 1)),
    "an error after a question mark": ("a: [b-?]\nc: ]\n", ErrorKind.SYNTAX, (2, 4)),
    "a list that is open after a question mark": ("a: [b-?\n", ErrorKind.SYNTAX, (2, 1)),
    "no key in a block": (": b\n", ErrorKind.FEATURE, (1, 1)),
    "two colons": ("a: b: c\n", ErrorKind.SYNTAX, (1, 5)),
    "an unknown escape": ('a: "\\q"\n', ErrorKind.SYNTAX, (1, 6)),
    "an escape of half a character": ('a: "b\\udfff"\n', ErrorKind.SYNTAX, (1, 4)),
    "an escape beyond Unicode": ('a: "b\\Uffffffff"\n', ErrorKind.SYNTAX, (1, 8)),
    "an error after other line breaks": ("a: b\r\u2028\x85]\n", ErrorKind.SYNTAX, (4, 1)),
    "an indentation after other line breaks": ("a:\r\u2028\x85  b: 1\n c: 2\n", ErrorKind.SYNTAX, (5, 2)),
    "another version of YAML": ("%YAML 3.0\n---\na: b\n", ErrorKind.SYNTAX, (1, 1)),
}


@pytest.mark.parametrize(("text", "kind", "position"), REJECTED.values(), ids=REJECTED)
def test_an_error_has_kind_and_position(text: str, kind: ErrorKind, position: tuple[int, int]) -> None:
    _, findings = _compose(text)
    assert [(finding.kind, finding.position) for finding in findings] == [(kind, position)]


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_the_document_after_an_error_is_read_whatever_ends_a_line(line_break: str) -> None:
    documents, findings = _compose(line_break.join(["# x", "a:", "  b: 1", " c: 2", "---", "d: [", "---", "e: f", ""]))
    assert [each.value for each in documents] == [{"e": "f"}]
    assert [finding.position for finding in findings] == [(4, 2), (7, 1)]
    assert "line 4 is indented by 1, line 3 by 2" in findings[0].message


def test_a_quoted_merge_key_is_a_key() -> None:
    assert _compose_one("a: {'<<': b}\n").value == {"a": {"<<": "b"}}


def test_the_first_of_two_keys_is_kept() -> None:
    documents, _ = _compose("a: x\na: y\n")
    assert [[entry.value.value for entry in each.entries] for each in documents if isinstance(each, Mapping)] == [["x"]]


def test_aliases_share_a_node_and_count_its_whole_weight() -> None:
    node = _compose_one("a: &a [x, y]\nb: *a\nc: [*a, *a]\n")
    assert node.value == {"a": ["x", "y"], "b": ["x", "y"], "c": [["x", "y"], ["x", "y"]]}
    keys, a, b, c = 3, 3, 3, 1 + 3 + 3
    assert node.weight == 1 + keys + a + b + c


def test_an_anchor_may_be_redefined() -> None:
    assert _compose_one("a: &a x\nb: &a y\nc: *a\n").value == {"a": "x", "b": "y", "c": "y"}


def test_a_path_leads_to_a_node_or_to_its_nearest_parent() -> None:
    node = _compose_one("a: {b: [x, y]}\n")
    assert descend(node, ["a", "b", 1]).value == "y"
    assert descend(node, ["a", "missing", "c"]) is descend(node, ["a"])
    assert descend(node, ["a", "b", 0, "deeper"]).value == "x"


@pytest.mark.parametrize(
    ("path", "step", "written"),
    [
        ("", "spec", "spec"),
        ("spec", "hard", "spec.hard"),
        ("spec.hard", "nvidia.com/gpu", "spec.hard[nvidia.com/gpu]"),
        ("spec.kinds", 1, "spec.kinds[1]"),
        ("a", "b.c", "a[b.c]"),
    ],
)
def test_paths_are_written_as_kubernetes_writes_them(path: str, step: str | int, written: str) -> None:
    assert join_path(path, step) == written


def test_a_mapping_returns_entries_and_values_by_key() -> None:
    node = _compose_one("a: x\nb: y\n")
    assert isinstance(node, Mapping)
    entry = node.get_entry("b")
    assert entry is not None
    assert (entry.key.position, entry.value.value) == ((2, 1), "y")
    assert entry.value is node.get("b")
    assert node.get_entry("c") is None
    assert node.get("c") is None
