"""From text to documents: YAML, JSON, and invalid text."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import ErrorKind, Limits
from tests.documents.reading import describe_error, find_error, read_values
from tests.effort import examples

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
JSON_OBJECTS = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4)


@given(JSON_OBJECTS, st.sampled_from([None, 1, "\t"]))
@settings(max_examples=examples(150))
def test_json_is_read_as_the_json_module_writes_it(value: dict[str, Any], indent: int | str | None) -> None:
    """Read JSON with any indentation and with every escape."""
    assert read_values(json.dumps(value, indent=indent)) == [value]
    assert read_values(json.dumps(value, indent=indent, ensure_ascii=False)) == [value]


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), JSON_VALUES, min_size=1, max_size=4))
@settings(max_examples=examples(100))
def test_yaml_is_read_as_pyyaml_writes_it(value: dict[str, Any]) -> None:
    """Read YAML with quoted values: a plain `y` is true to kubectl, but text to other writers of YAML."""
    assert read_values(yaml.safe_dump(value, allow_unicode=True, default_style='"')) == [value]


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
@settings(max_examples=examples(300))
def test_any_text_is_read_or_rejected(text: str) -> None:
    """Expect an error at a position of the text, never a crash."""
    error = find_error(text, Limits(depth=20, nodes=1000, documents=10, expanded=1000))
    assert error is None or error.kind in {ErrorKind.SYNTAX, ErrorKind.TOO_LARGE, ErrorKind.CONTENT}
    assert error is None or 1 <= error.position.line <= text.count("\n") + 2


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        pytest.param("", [], id="an empty text has no documents"),
        pytest.param("---\n---\n# nothing\n---\n", [], id="nor have separators and comments"),
        pytest.param("\ufeffa: 1\n", [{"a": 1}], id="a byte order mark is passed over"),
        pytest.param("\ufeffa: 1\n---\n\ufeffb: 2\n", [{"a": 1}, {"b": 2}], id="one at each document too"),
        pytest.param("\ufeff--- {a: 1}\n", [{"a": 1}], id="a separator behind one separates nothing"),
        pytest.param("--- # text\na: 1\n---  \r\nb: 2\n---\t\nc: 3\n", [{"a": 1}, {"b": 2}, {"c": 3}], id="comments"),
        pytest.param("a: 1\n...\n# the end\n", [{"a": 1}], id="a document may have an end"),
        pytest.param("a: |\n  b\n  ---\n  c\n", [{"a": "b\n---\nc\n"}], id="a separator in a text separates nothing"),
        pytest.param("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}], id="lines may end as on Windows"),
        pytest.param(
            "a: 1\n---\nb: 2\n...\n---\nc: 3", [{"a": 1}, {"b": 2}, {"c": 3}], id="documents follow each other"
        ),
        pytest.param(
            '{"a": 1}\n{"b": 2} {"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}], id="JSON objects follow each other"
        ),
        pytest.param("{a: b}", [{"a": "b"}], id="a brace may begin YAML"),
        pytest.param("{a: b}\n---\n{c: d}", [{"a": "b"}, {"c": "d"}], id="several times"),
        pytest.param("a: 1\na: 2", [{"a": 2}], id="the last of two keys counts"),
        pytest.param("1: a\ntrue: b\n1.5: c", [{"1": "a", "true": "b", "1.5": "c"}], id="keys become text"),
        pytest.param("a: !!str 3\nb: !!int '4'\nc: !!float 5", [{"a": "3", "b": 4, "c": 5}], id="tags are honoured"),
        pytest.param("a: ! 3\nb: !mine 4", [{"a": "3", "b": "4"}], id="unknown tags make text"),
        pytest.param('a: "\\u00e9"', [{"a": "é"}], id="escapes are undone"),
        pytest.param("x: &x {a: 1}\nz: *x", [{"x": {"a": 1}, "z": {"a": 1}}], id="aliases are written out"),
        pytest.param(
            "a: &a {k: 1, l: 1}\nb: {<<: *a, k: 2}",
            [{"a": {"k": 1, "l": 1}, "b": {"k": 2, "l": 1}}],
            id="merge keys too",
        ),
        pytest.param(
            "a: &a {k: 1}\nb: &b {k: 2}\nc: {<<: [*a, *b]}",
            [{"a": {"k": 1}, "b": {"k": 2}, "c": {"k": 1}}],
            id="the first of several merged mappings wins",
        ),
        pytest.param("y: n", [{"true": False}], id="a letter may be a word"),
        pytest.param('a: {"<<": {k: 1}}', [{"a": {"<<": {"k": 1}}}], id="a quoted merge key is a key"),
    ],
)
def test_a_text_is_read_into_documents(text: str, documents: list[Any]) -> None:
    """Read the documents of a text."""
    assert read_values(text) == documents


@pytest.mark.parametrize(
    ("text", "kind", "line", "column", "part"),
    [
        pytest.param("a: [1\nb: 2", ErrorKind.SYNTAX, 2, 2, "flow sequence", id="a bracket that is not closed"),
        pytest.param("\ta: 1", ErrorKind.SYNTAX, 1, 1, "cannot start any token", id="a tab that indents"),
        pytest.param("%YAML 1.2\n---\na: 1\n", ErrorKind.SYNTAX, 1, 1, "no directives", id="a version of YAML"),
        pytest.param("a: 1\n---\n# b\n\n%TAG ! x\n", ErrorKind.SYNTAX, 5, 1, "no directives", id="a later directive"),
        pytest.param("--- {a: 1}\n", ErrorKind.SYNTAX, 1, 4, "no {a: 1}", id="a mapping behind a separator"),
        pytest.param("a: 1\n--- !!map\nb: 2\n", ErrorKind.SYNTAX, 2, 4, "no !!map", id="a tag behind a separator"),
        pytest.param("a: 1\n--- &x\nb: 2\n", ErrorKind.SYNTAX, 2, 4, "no &x", id="an anchor behind a separator"),
        pytest.param("----\na: 1\n", ErrorKind.SYNTAX, 1, 4, "no -", id="a separator that is too long"),
        pytest.param("a: 1\n...\nb: 2\n", ErrorKind.SYNTAX, 3, 1, "document start", id="a document without one"),
        pytest.param("---\n# c\n\ufeffa: 1\n", ErrorKind.CONTENT, 3, 1, "U+FEFF", id="a byte order mark in between"),
        pytest.param("a: 1\n---\nb: [\n", ErrorKind.SYNTAX, 4, 1, "flow node", id="an error in a later document"),
        pytest.param("a: *x", ErrorKind.SYNTAX, 1, 4, "*x names no anchor", id="an alias of nothing"),
        pytest.param("a: &a [*a]", ErrorKind.SYNTAX, 1, 8, "inside what it names", id="an alias of its own parent"),
        pytest.param("a:\n  b: .inf", ErrorKind.SYNTAX, 2, 6, "no JSON form", id="infinity"),
        pytest.param("? [a]\n: b", ErrorKind.SYNTAX, 1, 3, "not a list or a mapping", id="a list as a key"),
        pytest.param("~: a", ErrorKind.SYNTAX, 1, 1, "is null", id="null as a key"),
        pytest.param("a: !!int b", ErrorKind.SYNTAX, 1, 4, "!!int", id="a tag that does not fit"),
        pytest.param("a: {<<: 3}", ErrorKind.SYNTAX, 1, 5, "merge key", id="a merge of no mapping"),
        pytest.param('{"a": 1 "b": 2}', ErrorKind.SYNTAX, 1, 9, "',' or '}'", id="a comma too few in JSON"),
        pytest.param('{"a": "b', ErrorKind.SYNTAX, 1, 7, "a value", id="a text that does not end in JSON"),
        pytest.param('{"a": 1}\n[]', ErrorKind.SYNTAX, 2, 1, "'{'", id="a list after an object in JSON"),
        pytest.param(
            "a: {{ .Values.x }}\n",
            ErrorKind.SYNTAX,
            1,
            5,
            "helm template",
            id="the message for a template has the render command",
        ),
        pytest.param(
            "{{- if .x }}\na: 1\n", ErrorKind.SYNTAX, 1, 2, "helm template", id="also when it begins with one"
        ),
    ],
)
def test_an_error_has_kind_position_and_message(text: str, kind: ErrorKind, line: int, column: int, part: str) -> None:
    """Expect one error with its position and a part of its message."""
    error = describe_error(text)
    assert error[:3] == (kind, line, column)
    assert part in error[3]


SMALL = Limits(depth=5, documents=3, nodes=40, expanded=100)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 10, id="YAML too deep"),
        pytest.param('{"a":' * 10, id="JSON too deep"),
        pytest.param("---\n{}\n" * 4, id="too many YAML documents"),
        pytest.param("{}" * 4, id="too many JSON documents"),
        pytest.param("[" + "1, " * 60 + "]", id="too many YAML values"),
        pytest.param('{"a": [' + "1, " * 60 + "1]}", id="too many JSON values"),
        pytest.param(
            "a: &a [1, 2, 3, 4]\nb: &b [*a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b, *b]", id="aliases that explode"
        ),
    ],
)
def test_text_beyond_the_limits_is_too_large(text: str) -> None:
    """Expect the error `TOO_LARGE`, not a syntax error."""
    assert describe_error(text, SMALL)[0] == ErrorKind.TOO_LARGE


def test_a_million_brackets_are_rejected_at_once() -> None:
    """Exceed the default limit of depth, or that of libyaml 0.2.6, long before the end of the text."""
    kind, line, column, message = describe_error("[" * 1_000_000)
    assert (kind, line, column) in {(ErrorKind.TOO_LARGE, 1, 201), (ErrorKind.TOO_LARGE, 1, 1001)}
    assert message == "nested more than 200 levels deep"
    assert describe_error('{"a":' * 1_000_000)[0] == ErrorKind.TOO_LARGE


def test_origins_are_read_from_comments() -> None:
    """Read the comments that Helm writes between the separator and the object."""
    text = "---\n# Source: a/b.yaml\nx: 1\n---\nx: 2\n---\n# a note\n# Source: c.yaml \nx: 3\n"
    assert [(found.index, found.origin) for found in read_documents(text, SMALL)] == [
        (0, "a/b.yaml"),
        (1, ""),
        (2, "c.yaml"),
    ]
    assert next(read_documents("# Source: first.yaml\nx: 1\n", SMALL)).origin == "first.yaml"
