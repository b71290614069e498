"""The composer: from YAML text to syntax trees, within limits.

PyYAML gives the events, of libyaml where it is built in: kubectl's reader is a port of libyaml, and libyaml reads a
megabyte in a fifth of a second. The composer builds the trees without recursion and checks every limit before the work
that it bounds. One composer is for manifests and stops at the first error; the other is for policies and collects the
errors, and rejects the following: tags that demand a type, merge keys, keys of another type than string, duplicate
keys, and aliases without an anchor.
"""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar

import yaml

from tallygate.documents import syntax_tree
from tallygate.documents.scalars import format_float, parse_core_scalar, parse_kubectl_scalar, parse_number

_TOO_DEEP = "exceeded maximum nesting depth"  # by more than 1,000: libyaml 0.2.6 reads ahead
_TAG = "tag:yaml.org,2002:"
_STRING_TAGS = frozenset({"!", f"{_TAG}str", f"{_TAG}map", f"{_TAG}seq"})
_TAG_TYPES = {"int": int, "float": float, "bool": bool, "null": type(None)}
_MAX_SYNTAX_ERRORS = 20
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as both parsers count lines (YAML 1.1, section 4.2)
_DOCUMENT_START = re.compile("---(?:[ \t\n\r\x85\u2028\u2029]|\\Z)")
_SURROGATES = re.compile("[\ud800-\udfff]")


class _PythonLoader(yaml.SafeLoader):
    """The parser in Python, which rejects escapes of no character and long numbers, as libyaml does."""

    def fetch_more_tokens(self) -> Any:
        base: Any = super()
        try:
            return base.fetch_more_tokens()
        except (ValueError, OverflowError):  # of chr and int
            raise _create_escape_error(base.get_mark()) from None

    def scan_flow_scalar(self, style: str) -> Any:
        base: Any = super()
        begin = base.get_mark()
        token = base.scan_flow_scalar(style)
        if _SURROGATES.search(token.value):
            raise _create_escape_error(begin)
        return token


def _create_escape_error(mark: Any) -> yaml.MarkedYAMLError:
    problem = "this escape is no character, or this number is too long; write the character itself"
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else _PythonLoader


class _ManifestComposer:
    """The state of one text of manifests; every error is raised."""

    depth_advice: ClassVar = "nested more than {} levels deep"
    nodes_advice: ClassVar = "more than {} values in one file"

    def __init__(self, limits: syntax_tree.Limits) -> None:
        self.root: syntax_tree.Node | None = None
        self.line_offset = 0
        self.anchors: dict[str, syntax_tree.Node] = {}
        self.open: list[syntax_tree.Mapping | syntax_tree.Sequence] = []
        self._limits = limits
        self._keys: list[syntax_tree.Scalar | None] = []
        self._nodes = 0
        self._documents = 0

    def start(self, line_offset: int) -> None:
        """Begin a part of the text, whose first line follows this number of lines."""
        self.line_offset = line_offset
        self.root = None
        self.open.clear()
        self._keys.clear()

    def get_position(self, mark: Any) -> syntax_tree.Position:
        """Return the position of a mark of PyYAML."""
        return (
            syntax_tree.Position(self.line_offset + mark.line + 1, mark.column + 1)
            if mark is not None
            else syntax_tree.START
        )

    def take(self, event: Any) -> None:
        """Add one event to the tree."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            node = self.read_scalar(event)
            self.put(node, node.position)
            if event.anchor:
                self.anchors[event.anchor] = node
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.close()
        elif kind is yaml.MappingStartEvent:
            self._enter(event, syntax_tree.Mapping(self.get_position(event.start_mark)))
        elif kind is yaml.SequenceStartEvent:
            self._enter(event, syntax_tree.Sequence(self.get_position(event.start_mark)))
        elif kind is yaml.AliasEvent:
            position = self.get_position(event.start_mark)
            self.put(self.resolve_alias(event.anchor, position), position)
        elif kind is yaml.DocumentStartEvent:
            self._start_document(event)

    def _start_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > self._limits.documents:
            message = f"more than {self._limits.documents} documents in one file"
            raise syntax_tree.DocumentError(
                syntax_tree.ErrorKind.TOO_LARGE, self.get_position(event.start_mark), message
            )
        self.root = None
        self.anchors = {}

    def _enter(self, event: Any, container: syntax_tree.Mapping | syntax_tree.Sequence) -> None:
        self.check_container(event.tag, container.position)
        self.put(container, container.position)
        if len(self.open) >= self._limits.depth:
            message = self.depth_advice.format(self._limits.depth)
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.TOO_LARGE, container.position, message)
        self.open.append(container)
        self._keys.append(None)
        if event.anchor:
            self.anchors[event.anchor] = container

    def put(self, node: syntax_tree.Node, position: syntax_tree.Position) -> None:
        """Add a node, or an alias at another position, as the root, an item, a key or the value of the last key."""
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            message = self.nodes_advice.format(self._limits.nodes)
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.TOO_LARGE, position, message)
        if not self.open:
            self.root = node
            return
        parent, key = self.open[-1], self._keys[-1]
        if isinstance(parent, syntax_tree.Sequence):
            parent.items.append(node)
        elif key is None:
            self._keys[-1] = self.read_key(node, position)
        else:
            self.add_entry(parent, key, node)
            self._keys[-1] = None

    def close(self) -> None:
        """End the innermost list or mapping."""
        self.open.pop()
        self._keys.pop()

    def check_container(self, tag: str | None, position: syntax_tree.Position) -> None:
        """Check the tag of a list or mapping; kubectl ignores it."""

    def resolve_alias(self, anchor: str, position: syntax_tree.Position) -> syntax_tree.Node:
        node = self.anchors.get(anchor)
        if node is None:
            message = f"the alias *{anchor} names no anchor written before it"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
        if any(node is container for container in self.open):
            raise syntax_tree.DocumentError(
                syntax_tree.ErrorKind.SYNTAX, position, f"the alias *{anchor} stands inside what it names"
            )
        return node

    def read_scalar(self, event: Any) -> syntax_tree.Scalar:
        """Return the scalar of an event: a plain one has the value of its text, a tagged one that of its tag."""
        position, text, tag = self.get_position(event.start_mark), event.value, event.tag
        if tag is None:
            plain = not event.style
            value = parse_kubectl_scalar(text) if plain else text
        else:
            plain = False
            value = _parse_tagged(text, tag.removeprefix(_TAG), position)
        if isinstance(value, float) and not math.isfinite(value):
            message = f"{text} has no JSON form, so kubectl cannot send it; write a finite number"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
        return syntax_tree.Scalar(position, text, value, plain)

    def read_key(self, node: syntax_tree.Node, position: syntax_tree.Position) -> syntax_tree.Scalar:
        if not isinstance(node, syntax_tree.Scalar):
            message = "a key must be a single value, not a list or a mapping: JSON has no such keys"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
        if node.value is None:
            message = "a key is missing before this colon, or is null: JSON has no such keys"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
        return node

    def add_entry(self, parent: syntax_tree.Mapping, key: syntax_tree.Scalar, value: syntax_tree.Node) -> None:
        """Add a key and its value to a mapping; `true`, `1` and `1.5` become strings (convertToJSONableObject)."""
        name = key.value
        if not isinstance(name, str):
            name = format_float(name) if isinstance(name, float) else str(name).lower()
        parent.entries.append(syntax_tree.Entry(name, key, value))


def compose_manifests(
    parts: Iterable[tuple[int, str]], limits: syntax_tree.Limits
) -> Iterator[tuple[syntax_tree.Node | None, syntax_tree.Position]]:
    """Yield the root of each document, None for an empty text, and the position where the document begins.

    Each part of the text is given with the number of lines before it.

    Raises:
        DocumentError: if the text is not YAML, or exceeds a limit; earlier documents have been yielded.
    """
    composer = _ManifestComposer(limits)
    for line_offset, text in parts:
        composer.start(line_offset)
        yield from _compose_part(composer, text, syntax_tree.Position(max(line_offset, 1), 1), limits)


def _compose_part(
    composer: _ManifestComposer, text: str, start: syntax_tree.Position, limits: syntax_tree.Limits
) -> Iterator[tuple[syntax_tree.Node | None, syntax_tree.Position]]:
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
            if isinstance(event, yaml.DocumentEndEvent):
                yield composer.root, start
    except yaml.MarkedYAMLError as error:
        message = f"this is not YAML: {error.problem}" + (f" {error.context}" if error.context else "")
        position, kind = composer.get_position(error.problem_mark or error.context_mark), syntax_tree.ErrorKind.SYNTAX
        if str(error.problem).startswith(_TOO_DEEP):
            kind, message = syntax_tree.ErrorKind.TOO_LARGE, composer.depth_advice.format(limits.depth)
        raise syntax_tree.DocumentError(kind, position, message) from error
    except yaml.YAMLError as error:
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, start, f"this is not YAML: {error}") from error


def _parse_tagged(text: str, tag: str, position: syntax_tree.Position) -> Any:
    if tag not in _TAG_TYPES:
        return text
    value = parse_kubectl_scalar(text)
    if tag == "float" and type(value) is int:
        return float(parse_number(text, None) or 0)
    if type(value) is not _TAG_TYPES[tag]:
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, f"{text} cannot be read as !!{tag}")
    return value


class _PolicyComposer(_ManifestComposer):
    """The state of one text of policies; only exceeded limits are raised, other errors are collected."""

    depth_advice = "lists and mappings nest more than {} deep, which is all that is read"
    nodes_advice = "more than {:,} values in one file; split it into several files"

    def __init__(self, limits: syntax_tree.Limits) -> None:
        super().__init__(limits)
        self.errors: list[syntax_tree.DocumentError] = []
        self.documents: list[syntax_tree.Node] = []
        self._first_keys: dict[int, dict[str, syntax_tree.Scalar]] = {}

    def add_error(self, kind: syntax_tree.ErrorKind, position: syntax_tree.Position, message: str) -> None:
        self.errors.append(syntax_tree.DocumentError(kind, position, message))

    def read(self, text: str, line_offset: int) -> None:
        """Add the documents of a text whose first line follows a number of lines.

        Raises:
            YAMLError: if the text is not YAML.
            DocumentError: if the text exceeds a limit.
        """
        self.start(line_offset)
        self._first_keys.clear()
        try:
            for event in _parse_exactly(text):
                self.take(event)
                if isinstance(event, yaml.DocumentEndEvent):
                    self._end_document()
        finally:
            self._end_document()

    def _end_document(self) -> None:
        """Add the document if it is complete, even if an error follows it."""
        if self.root is not None and not self.open:
            self.documents.append(self.root)
            self.root = None

    def put(self, node: syntax_tree.Node, position: syntax_tree.Position) -> None:
        super().put(node, position)
        if self.open:
            self._add_weight(self.open[-1], node.weight)

    def close(self) -> None:
        container = self.open[-1]
        self._first_keys.pop(id(container), None)
        super().close()
        if self.open:
            self._add_weight(self.open[-1], container.weight - 1)

    def _add_weight(self, parent: syntax_tree.Mapping | syntax_tree.Sequence, weight: int) -> None:
        parent.weight += weight
        if parent.weight > self._limits.expanded:
            message = f"a document of more than {self._limits.expanded:,} values once its aliases are written out"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.TOO_LARGE, parent.position, message)

    def check_container(self, tag: str | None, position: syntax_tree.Position) -> None:
        if tag is not None and tag not in _STRING_TAGS:
            name = syntax_tree.truncate_text(tag.replace(_TAG, "!!"))
            message = f"tag {name} is refused: nothing is constructed here; remove the tag"
            self.add_error(syntax_tree.ErrorKind.FEATURE, position, message)

    def resolve_alias(self, anchor: str, position: syntax_tree.Position) -> syntax_tree.Node:
        node = self.anchors.get(anchor)
        if node is not None and not any(node is container for container in self.open):
            return node
        reason = "no anchor of that name stands complete before it in this document"
        self.add_error(
            syntax_tree.ErrorKind.FEATURE,
            position,
            f"alias *{syntax_tree.truncate_text(anchor)}: {reason}; write the value out",
        )
        return syntax_tree.Scalar(position, "~", None, plain=True)

    def read_scalar(self, event: Any) -> syntax_tree.Scalar:
        position, text, tag = self.get_position(event.start_mark), event.value, event.tag
        if tag is not None:
            self.check_container(tag, position)
        plain = not event.style and tag is None
        return syntax_tree.Scalar(position, text, parse_core_scalar(text) if plain else text, plain)

    def read_key(self, node: syntax_tree.Node, position: syntax_tree.Position) -> syntax_tree.Scalar:
        """Return the key, or a null scalar if the node cannot be a key; its entry is left out."""
        del position  # the error of an aliased key belongs to the anchored node
        if not isinstance(node, syntax_tree.Scalar):
            message = "a key must be a text, not a list or mapping"
        elif node.plain and node.text == "<<":
            message = "merge keys are not part of YAML 1.2; write the fields out, or alias a whole value"
        elif isinstance(node.value, str):
            return node
        elif node.text:
            message = f'a key must be a text: write "{syntax_tree.truncate_text(node.text)}" in quotes'
        else:
            message = "a key is missing before the :"
        self.add_error(syntax_tree.ErrorKind.FEATURE, node.position, message)
        return syntax_tree.Scalar(node.position, "", None, plain=True)

    def add_entry(self, parent: syntax_tree.Mapping, key: syntax_tree.Scalar, value: syntax_tree.Node) -> None:
        if key.value is None:
            return
        earlier = self._first_keys.setdefault(id(parent), {}).setdefault(key.text, key)
        if earlier is not key:
            where = (
                f'"{syntax_tree.truncate_text(key.text)}" is written twice here (first at line {earlier.position.line})'
            )
            self.add_error(syntax_tree.ErrorKind.DUPLICATE_KEY, key.position, f"{where}; one hides the other: keep one")
            return
        if isinstance(value, syntax_tree.Scalar) and value.plain and not value.text:
            value = syntax_tree.Scalar(key.position, "", None, plain=True)  # an empty value has no position of its own
        parent.entries.append(syntax_tree.Entry(key.text, key, value))


def compose_policies(
    text: str, limits: syntax_tree.Limits
) -> tuple[list[syntax_tree.Node], list[syntax_tree.DocumentError]]:
    """Return every document of a text and the errors of its YAML.

    After a syntax error the composer continues at the next line that begins with `---`, which no scalar can contain, so
    that one invalid document does not hide the errors of the others.
    """
    composer, offset = _PolicyComposer(limits), 0
    for _ in range(_MAX_SYNTAX_ERRORS):
        try:
            composer.read(text, offset)
        except yaml.YAMLError as raised:
            error = raised if isinstance(raised, yaml.MarkedYAMLError) else yaml.MarkedYAMLError(problem=str(raised))
            position = composer.get_position(error.problem_mark or error.context_mark)
            composer.add_error(syntax_tree.ErrorKind.SYNTAX, position, _describe_syntax_error(error, offset, text))
            skipped = _find_next_document(text, position.line - offset)
            if skipped is None:
                break
            offset, text = offset + skipped[0], skipped[1]
        except syntax_tree.DocumentError as error:
            composer.errors.append(error)
            break
        else:
            break
    return composer.documents, composer.errors


def _describe_syntax_error(error: yaml.MarkedYAMLError, offset: int, text: str) -> str:
    """Return the message of the parser on one line, with the line of the file at which the invalid construct begins.

    The two errors that a person makes most often, a tab and an uneven indentation, have a sentence of their own.
    """
    begin: Any = error.context_mark
    if error.problem_mark is not None:
        lines, number = _LINE_BREAK.split(text), error.problem_mark.line
        line = lines[number] if number < len(lines) else ""
        if "\t" in line[: _measure_indentation(line)]:
            return "not YAML: a tab cannot indent a line: use spaces"
        if begin is not None and "expected <block end>" in str(error.problem):
            uneven = _describe_indentation(lines, begin.line, number, offset)
            if uneven:
                return f"not YAML: {uneven}"
    where = f"{error.context} that began at line {offset + begin.line + 1}: " if error.context and begin else ""
    return f"not YAML: {where}{error.problem}".replace("\n", " ")


def _describe_indentation(lines: list[str], first: int, number: int, offset: int) -> str:
    """Return the sentence on a line that is indented less or more than those beside it, or an empty text.

    The line is compared with the nearest line above it, from line `first` on, that is indented less, and with the one
    that is indented most nearly like it: a key belongs to one of the columns that are open.
    """
    own = _measure_indentation(lines[number])
    widths: dict[int, int] = {}
    lowest = own + 1_000
    for index in range(number - 1, first - 1, -1):
        content = lines[index].strip()
        width = _measure_indentation(lines[index])
        if content and not content.startswith("#") and width < lowest:
            widths[width], lowest = index, width
    if not widths or own in widths:
        return ""
    nearest = min(widths, key=lambda width: (abs(width - own), -width))
    return (
        f"line {offset + number + 1} is indented by {own}, line {offset + widths[nearest] + 1} by {nearest}: "
        "indent keys of one mapping alike"
    )


def _measure_indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _find_next_document(text: str, line: int) -> tuple[int, str] | None:
    """Return the number of lines to skip and the text from the next document on, at or after the invalid line."""
    starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
    for index in range(max(line - 1, 1), len(starts)):
        if _DOCUMENT_START.match(text, starts[index]):
            return index, text[starts[index] :]
    return None


def _parse_exactly(text: str) -> Iterator[Any]:
    """Yield the events of libyaml; if it rejects the text, continue with those of the parser in Python.

    The errors of the Python parser have better positions. An error before the events of libyaml is ignored, as is one
    at a question mark: the Python parser rejects some tabs and question marks that YAML allows.
    """
    count, accepted = 0, (0, 0)
    event: Any
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            count += 1
            if event.start_mark.index < event.end_mark.index:
                accepted = (event.start_mark.line, event.start_mark.column)
            yield event
    except yaml.YAMLError as rejection:
        try:
            yield from islice(yaml.parse(text, Loader=_ExactLoader), count, None)
        except yaml.MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark
            if (mark.line, mark.column) < accepted or str(error.problem).endswith("got '?'"):
                raise rejection from None
            raise


class _ExactLoader(_PythonLoader):
    """The parser in Python, with an empty scalar for a missing key (`{: a}`), so that the error can name the key."""

    def parse_flow_node(self) -> Any:
        base: Any = super()
        if self.check_token(yaml.ValueToken) and self.states[-1] == self.parse_flow_mapping_empty_value:
            self.states.pop()
            self.state = self.parse_flow_mapping_value
            return self.process_empty_scalar(base.peek_token().end_mark)
        return base.parse_flow_node()

    def parse_block_mapping_key(self) -> Any:
        base: Any = super()
        if self.check_token(yaml.ValueToken):
            self.state = self.parse_block_mapping_value
            return self.process_empty_scalar(base.peek_token().start_mark)
        return base.parse_block_mapping_key()
