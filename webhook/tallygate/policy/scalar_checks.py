"""Scalars that say something else than they seem to: numbers with a leading zero, texts that a comment ends."""

import re
from collections.abc import Iterator, Sequence

from tallygate.documents import syntax_tree
from tallygate.documents.scalars import Number
from tallygate.documents.syntax_tree import Sequence as SequenceNode
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import AMBIGUOUS_NUMBER, TEXT_CUT

_ANCHOR = re.compile(r"&\S+")


def check_ambiguous_numbers(name: str, document: syntax_tree.Node) -> Iterator[LintFinding]:
    """Yield a warning for each number that other YAML readers read as a different number."""
    for number in _find_ambiguous_numbers(document):
        message = (
            f"{quote_text(number.text)} is decimal here, but octal to readers of YAML 1.1; write it without the zero"
        )
        yield LintFinding.create(SourceLocation(name, *number.position), AMBIGUOUS_NUMBER, Severity.WARNING, message)


def _find_ambiguous_numbers(node: syntax_tree.Node) -> Iterator[syntax_tree.Scalar]:
    """Numbers that begin with a zero they do not need."""
    if isinstance(node, syntax_tree.Scalar):
        if isinstance(node.value, Number) and re.match(r"[-+]?0[0-9]", node.text):
            yield node
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _find_ambiguous_numbers(item)
    else:
        for entry in node.entries:
            yield from _find_ambiguous_numbers(entry.value)


def check_cut_texts(name: str, document: syntax_tree.Node, lines: Sequence[str]) -> Iterator[LintFinding]:
    """Yield a warning for each annotation without quotes that a comment ends: an author often means one text."""
    annotations = Fields(document).get_fields("metadata").get_node("annotations")
    for entry in annotations.entries if isinstance(annotations, syntax_tree.Mapping) else ():
        value = entry.value
        position = (
            _find_comment(value, lines)
            if isinstance(value, syntax_tree.Scalar) and value.plain and value.text
            else None
        )
        if position is not None:
            comment = syntax_tree.truncate_text(lines[position.line - 1][position.column - 1 :].rstrip())
            field = syntax_tree.join_path("metadata.annotations", entry.name)
            message = (
                f"{field}: the text ends before {quote_text(comment)}, which is a comment of YAML; put the whole text "
                "in quotes, or the comment on a line of its own"
            )
            yield LintFinding.create(SourceLocation(name, *position), TEXT_CUT, Severity.WARNING, message)


def _find_comment(scalar: syntax_tree.Scalar, lines: Sequence[str]) -> syntax_tree.Position | None:
    """Return the position of the comment that ends a plain scalar on its last line, or None."""
    row, column = scalar.position.line - 1, scalar.position.column - 1
    anchor = _ANCHOR.match(lines[row], column)
    column = anchor.end() if anchor else column
    for word in scalar.text.split():
        column = _skip_blanks(lines[row], column)
        while column == len(lines[row]) and row + 1 < len(lines):
            row, column = row + 1, _skip_blanks(lines[row + 1], 0)
        if not lines[row].startswith(word, column):
            return None
        column += len(word)
    after = _skip_blanks(lines[row], column)
    return syntax_tree.Position(row + 1, after + 1) if after > column and lines[row].startswith("#", after) else None


def _skip_blanks(line: str, column: int) -> int:
    while column < len(line) and line[column].isspace():
        column += 1
    return column
