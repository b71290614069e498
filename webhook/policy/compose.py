"""The composer: from YAML text to nodes, with every bound checked on the way, and without constructing objects.

ruamel.yaml gives the events. This module builds the tree without recursion, because the composer of ruamel.yaml
recurses with the text and expands repeated aliases. It rejects the following, each with a finding: tags that demand a
type, merge keys, keys that are not texts, duplicate keys, aliases to a missing anchor, and everything beyond
`webhook.policy.bounds`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from webhook.policy.bounds import MAX_DEPTH, MAX_EXPANDED_NODES, MAX_NODES
from webhook.policy.formats import truncate_text
from webhook.policy.lint_findings import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.nodes import Mapping, Node, Scalar, Sequence
from webhook.policy.policy_codes import DUPLICATE_KEY, SYNTAX, TOO_LARGE, YAML_FEATURE

_PLAIN_TAGS = frozenset({"!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_MAX_SYNTAX_ERRORS = 20


class _StopError(Exception):
    """An error that ends the reading of a file; the finding has the reason."""

    def __init__(self, finding: LintFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


@dataclass(slots=True)
class _Open:
    """A list or mapping before its end event; `pending` is a key without its value."""

    line: int
    column: int
    anchor: str | None
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)
    first: dict[str, Scalar] = field(default_factory=dict)
    pending: Scalar | None = None
    weight: int = 1


def compose(file: str, text: str) -> tuple[list[Node], list[LintFinding]]:
    """Return every document of a file and the findings about its YAML.

    After a syntax error the composer continues at the next line that begins with `---`, which no scalar can contain, so
    that one invalid document does not hide the errors of the others.
    """
    composer = _Composer(file)
    offset = 0
    for _ in range(_MAX_SYNTAX_ERRORS):
        try:
            composer.read(text, offset)
        except YAMLError as raised:
            error = raised if isinstance(raised, MarkedYAMLError) else MarkedYAMLError(problem=str(raised))
            line, column = _place(error)
            composer.say(offset + line, column, SYNTAX, _syntax(error, offset))
            skipped = _next_document(text, line)
            if skipped is None:
                break
            offset, text = offset + skipped[0], skipped[1]
        except _StopError as stop:
            composer.findings.append(stop.finding)
            break
        else:
            break
    return composer.documents, composer.findings


def _place(error: MarkedYAMLError) -> tuple[int, int]:
    mark: Any = error.problem_mark or error.context_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _syntax(error: MarkedYAMLError, offset: int) -> str:
    """Return the message of the parser on one line, with the line of the file at which the invalid construct begins."""
    begun: Any = error.context_mark
    where = f"{error.context} that began at line {offset + begun.line + 1}: " if error.context and begun else ""
    return f"not YAML: {where}{error.problem}".replace("\n", " ")


def _next_document(text: str, line: int) -> tuple[int, str] | None:
    """Return the number of lines to skip and the text from the next document on, at or after the invalid line."""
    lines = text.split("\n")
    for at in range(max(line - 1, 1), len(lines)):
        if lines[at].rstrip("\r") == "---" or lines[at].startswith(("--- ", "---\t")):
            return at, "\n".join(lines[at:])
    return None


class _Composer:
    """The state of one file."""

    def __init__(self, file: str) -> None:
        self.documents: list[Node] = []
        self.findings: list[LintFinding] = []
        self._file = file
        self._nodes = 0
        self._offset = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}

    def say(self, line: int, column: int, code: str, message: str) -> None:
        """Add an error at a position."""
        self.findings.append(
            LintFinding.create(SourceLocation(self._file, line, column), code, Severity.ERROR, message)
        )

    def read(self, text: str, offset: int) -> None:
        """Read documents up to the end of the text.

        Raises:
            YAMLError: if the text is not YAML.
            _StopError: if the file exceeds a bound.
        """
        self._offset = offset
        self._open.clear()
        self._anchors.clear()
        for event in _events(text):
            if isinstance(event, DocumentEndEvent):
                self._anchors.clear()
            elif isinstance(event, CollectionEndEvent):
                self._close()
            elif isinstance(event, NodeEvent):
                self._begin(event)

    def _begin(self, event: NodeEvent) -> None:
        line, column = self._at(event)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._stop(line, column, f"more than {MAX_NODES:,} values in one file; split it into several files")
        if isinstance(event, AliasEvent):
            self._alias(event, line, column)
        elif isinstance(event, ScalarEvent):
            self._check_tag(event, line, column)
            plain = event.style is None and not _is_text(event)
            self._add(Scalar(line, column, str(event.value), plain), event.anchor)
        elif isinstance(event, (SequenceStartEvent, MappingStartEvent)):
            self._check_tag(event, line, column)
            if len(self._open) == MAX_DEPTH:
                raise self._stop(line, column, f"lists and mappings nest more than {MAX_DEPTH} deep; a policy needs 8")
            self._open.append(_Open(line, column, event.anchor, isinstance(event, MappingStartEvent)))

    def _at(self, event: NodeEvent) -> tuple[int, int]:
        return self._offset + event.start_mark.line + 1, event.start_mark.column + 1

    def _stop(self, line: int, column: int, message: str) -> _StopError:
        return _StopError(
            LintFinding.create(SourceLocation(self._file, line, column), TOO_LARGE, Severity.ERROR, message)
        )

    def _check_tag(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent, line: int, column: int) -> None:
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            self.say(
                line,
                column,
                YAML_FEATURE,
                f"tag {truncate_text(tag)} is refused: nothing is constructed here; remove the tag",
            )

    def _alias(self, event: AliasEvent, line: int, column: int) -> None:
        target = self._anchors.get(event.anchor)
        if target is None:
            where = "no anchor of that name stands complete before it in this document"
            self.say(line, column, YAML_FEATURE, f"alias *{truncate_text(event.anchor)}: {where}; write the value out")
            target = Scalar(line, column, "~", plain=True)
        self._add(target, None)

    def _close(self) -> None:
        done = self._open.pop()
        if done.is_mapping:
            self._add(Mapping(done.line, done.column, tuple(done.pairs), done.weight), done.anchor)
        else:
            self._add(Sequence(done.line, done.column, tuple(done.items), done.weight), done.anchor)

    def _add(self, node: Node, anchor: str | None) -> None:
        """Put a finished node into its parent: a document, an item, a key or a value."""
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.documents.append(node)
            return
        parent = self._open[-1]
        parent.weight += node.weight
        if parent.weight > MAX_EXPANDED_NODES:
            message = f"a document of more than {MAX_EXPANDED_NODES:,} values once its aliases are written out"
            raise self._stop(parent.line, parent.column, message)
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.pending is None:
            parent.pending = self._key(node)
        else:
            self._pair(parent, parent.pending, node)
            parent.pending = None

    def _key(self, node: Node) -> Scalar:
        """Return the key, or a substitute that drops the pair if the node cannot be a key."""
        if not isinstance(node, Scalar):
            self.say(node.line, node.column, YAML_FEATURE, "a key must be a text, not a list or mapping")
            return Scalar(node.line, node.column, "", plain=True)
        if node.plain and node.text == "<<":
            said = "merge keys are not part of YAML 1.2; write the fields out, or alias a whole value"
            self.say(node.line, node.column, YAML_FEATURE, said)
            return Scalar(node.line, node.column, "", plain=True)
        if node.plain and not isinstance(node.value, str):
            said = (
                f'a key must be a text: write "{truncate_text(node.text)}" in quotes'
                if node.text
                else "a key is missing before the :"
            )
            self.say(node.line, node.column, YAML_FEATURE, said)
            return Scalar(node.line, node.column, "", plain=True)
        return node

    def _pair(self, parent: _Open, key: Scalar, value: Node) -> None:
        if key.plain and not key.text:
            return
        earlier = parent.first.setdefault(key.text, key)
        if isinstance(value, Scalar) and value.plain and not value.text:
            value = Scalar(key.line, key.column, "", plain=True)  # an empty value has no position of its own
        if earlier is key:
            parent.pairs.append((key, value))
            return
        said = (
            f'"{truncate_text(key.text)}" is written twice here (first at line {earlier.line}); one hides the other: '
            "keep one"
        )
        self.say(key.line, key.column, DUPLICATE_KEY, said)


def _is_text(event: ScalarEvent) -> bool:
    """Return whether `!!str` or `!` marks a plain scalar as a text."""
    return event.tag is not None


def _events(text: str) -> Iterator[Any]:
    """Yield the events of the parser. It is the pure Python parser, so that errors are equal on every platform."""
    events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
    return events
