"""The reader of manifests: from a text, YAML or JSON, to its documents.

The reader of JSON text: one object after another, as `kubectl get -o json` and generators write them.

No JSON library gives the position of a value. This reader accepts exactly RFC 8259, and the limit of depth bounds its
recursion.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.documents import syntax_tree
from tallygate.documents.composer import compose_manifests
from tallygate.documents.scalars import parse_number

_ORIGIN = re.compile(r"# Source: *(\S.*?) *$", re.MULTILINE)
_SEPARATOR = re.compile(r"^---([^\n]*)\n?", re.MULTILINE)
_BYTE_ORDER_MARK = "\ufeff"
_MARKED_LINE = re.compile(f"^{_BYTE_ORDER_MARK}", re.MULTILINE)
_DIRECTIVE = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\r?\n)*+%")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_RENDER = "this looks like a template; render it first: `helm template . | tallygate check -`"


@dataclass(frozen=True, slots=True)
class Document:
    """One document: `index` counts from 0, empty ones included; `origin` is the file in a `# Source:` comment."""

    index: int
    root: syntax_tree.Node
    origin: str = ""


def read_documents(text: str, limits: syntax_tree.Limits) -> Iterator[Document]:
    """Yield the documents of a text that are not empty.

    A text that begins with `{` is JSON if it can be read as such (apimachinery yaml.NewYAMLOrJSONDecoder).

    Raises:
        DocumentError: if the text is neither YAML nor JSON, or exceeds a limit; earlier documents have been yielded.
    """
    unmarked = text.removeprefix(_BYTE_ORDER_MARK)
    is_json = unmarked.lstrip(" \t\r\n").startswith("{")
    try:
        yield from _read_json_or_yaml(unmarked, limits) if is_json else _read_yaml(text, limits)
    except syntax_tree.DocumentError as error:
        if error.kind is syntax_tree.ErrorKind.SYNTAX and _TEMPLATE.search(text):
            raise syntax_tree.DocumentError(error.kind, error.position, f"{error.message}; {_RENDER}") from error
        raise


def _read_json_or_yaml(text: str, limits: syntax_tree.Limits) -> list[Document]:
    """Return the documents of JSON, or of YAML that begins with a brace.

    Raises:
        DocumentError: if the text is neither; it is the error of JSON.
    """
    try:
        return [Document(index, root) for index, root in enumerate(read_json(text, limits))]
    except syntax_tree.DocumentError as not_json:
        if not_json.kind is not syntax_tree.ErrorKind.SYNTAX:
            raise
        try:
            return list(_read_yaml(text, limits))
        except syntax_tree.DocumentError:
            raise not_json from None


def _read_yaml(text: str, limits: syntax_tree.Limits) -> Iterator[Document]:
    origins = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _ORIGIN.finditer(text)]
    for index, (root, start) in enumerate(compose_manifests(_split_documents(text), limits)):
        if root is not None and not (isinstance(root, syntax_tree.Scalar) and root.value is None):
            yield Document(index, root, _find_origin(origins, start, root.position))


def _split_documents(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text between lines that begin with `---`, each with the number of lines before it.

    A part is read by itself, so that a byte order mark may begin each of them. A separator that follows nothing belongs
    to its part. Source: YAMLReader in k8s.io/apimachinery v0.37.2, pkg/util/yaml/decoder.go.

    Raises:
        DocumentError: if a separator has more than a comment behind it, or a part is one that kubectl cannot read.
    """
    begin, line = 0, 0
    for separator in _SEPARATOR.finditer(text):
        if separator.start() > begin:
            yield line, _check_part(text[begin : separator.start()], line)
            line += text.count("\n", begin, separator.end())
            begin = separator.end()
        rest = separator[1].strip()
        if rest and not rest.startswith("#"):
            position = syntax_tree.Position(text.count("\n", 0, separator.start()) + 1, 4)
            message = (
                f"kubectl reads no {syntax_tree.truncate_text(rest)} on the line of ---: write it on the next line"
            )
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
    if text[begin:]:
        yield line, _check_part(text[begin:], line)


def _check_part(text: str, line_offset: int) -> str:
    """Return a part of a text without the byte order mark at its begin.

    Raises:
        DocumentError: if it has a directive, or a line of it begins with a byte order mark.
    """
    part = text.removeprefix(_BYTE_ORDER_MARK)
    if (directive := _DIRECTIVE.match(part)) is not None:
        position = syntax_tree.Position(line_offset + part.count("\n", 0, directive.end()) + 1, 1)
        message = "kubectl reads no directives such as %YAML: remove this line"
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message)
    if (marked := _MARKED_LINE.search(part)) is not None:
        position = syntax_tree.Position(line_offset + part.count("\n", 0, marked.start()) + 1, 1)
        message = (
            "this line begins with a byte order mark (U+FEFF), which kubectl reads as a part of the key: remove it; it "
            "may stand at the begin of a file, and at that of a line that follows ---"
        )
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.CONTENT, position, message)
    return part


def _find_origin(origins: list[tuple[int, str]], start: syntax_tree.Position, root: syntax_tree.Position) -> str:
    """Return the comment between the start of a document and its first value, or an empty text.

    Helm writes these comments after each `---`.
    """
    return next((origin for line, origin in origins if start.line <= line <= root.line), "")


_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'(?P<mark>[{}\[\],:])|(?P<text>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(?P<word>true|false|null)",
    re.ASCII,
)
_HALVES = re.compile("[\ud800-\udfff]")
"""Single halves of a character: Go reads each as U+FFFD (encoding/json, unquoteBytes)."""
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class _Reader:
    """The next token (`kind`, `lexeme`, `position`); `kind` is empty at the end of the text."""

    def __init__(self, text: str, limits: syntax_tree.Limits) -> None:
        self.text, self.limits = text, limits
        self.offset = self.line_start = self.nodes = 0
        self.line = 1
        self.kind = self.lexeme = ""
        self.position = syntax_tree.START
        self.advance()

    def advance(self) -> None:
        """Read the next token."""
        blanks = _BLANKS.match(self.text, self.offset)
        start = blanks.end() if blanks else self.offset
        self._count_lines(start)
        self.position = syntax_tree.Position(self.line, start - self.line_start + 1)
        match = _TOKEN.match(self.text, start)
        self.kind = (match.lastgroup or "") if match else ""
        self.lexeme = match[0] if match else self.text[start : start + 1]
        self.offset = start + len(self.lexeme)

    def _count_lines(self, start: int) -> None:
        newlines = self.text.count("\n", self.offset, start)
        if newlines:
            self.line += newlines
            self.line_start = self.text.rfind("\n", self.offset, start) + 1

    def take(self, *marks: str) -> str:
        """Return one of these marks and go to the next token."""
        if self.kind != "mark" or self.lexeme not in marks:
            raise self.create_error(" or ".join(f"'{mark}'" for mark in marks))
        token = self.lexeme
        self.advance()
        return token

    def create_error(self, expected: str) -> syntax_tree.DocumentError:
        """Return the error of a token that differs from the expected one."""
        found = repr(self.lexeme) if self.lexeme else "the end of the text"
        return syntax_tree.DocumentError(
            syntax_tree.ErrorKind.SYNTAX, self.position, f"this is not JSON: expected {expected}, found {found}"
        )

    def read_value(self, depth: int) -> syntax_tree.Node:
        """Return the value that begins with the next token."""
        self.nodes += 1
        if depth > self.limits.depth:
            raise syntax_tree.DocumentError(
                syntax_tree.ErrorKind.TOO_LARGE, self.position, f"nested more than {self.limits.depth} levels deep"
            )
        if self.nodes > self.limits.nodes:
            raise syntax_tree.DocumentError(
                syntax_tree.ErrorKind.TOO_LARGE, self.position, f"more than {self.limits.nodes} values in one file"
            )
        if self.kind == "mark" and self.lexeme == "{":
            return self._read_object(depth)
        if self.kind == "mark" and self.lexeme == "[":
            return self._read_array(depth)
        return self._read_scalar()

    def _read_object(self, depth: int) -> syntax_tree.Mapping:
        mapping = syntax_tree.Mapping(self.position)
        self.take("{")
        if self.kind == "mark" and self.lexeme == "}":
            self.take("}")
            return mapping
        mark = ","
        while mark == ",":
            if self.kind != "text":
                raise self.create_error("a key in double quotes")
            key = self._read_scalar()
            self.take(":")
            mapping.entries.append(syntax_tree.Entry(str(key.value), key, self.read_value(depth + 1)))
            mark = self.take(",", "}")
        return mapping

    def _read_array(self, depth: int) -> syntax_tree.Sequence:
        sequence = syntax_tree.Sequence(self.position)
        self.take("[")
        if self.kind == "mark" and self.lexeme == "]":
            self.take("]")
            return sequence
        mark = ","
        while mark == ",":
            sequence.items.append(self.read_value(depth + 1))
            mark = self.take(",", "]")
        return sequence

    def _read_scalar(self) -> syntax_tree.Scalar:
        kind, token, position = self.kind, self.lexeme, self.position
        if kind not in ("text", "number", "word"):
            raise self.create_error("a value")
        self.advance()
        if kind == "text":
            text = _HALVES.sub("\ufffd", json.loads(token))
            return syntax_tree.Scalar(position, text, text, plain=False)
        if kind == "word":
            return syntax_tree.Scalar(position, token, _WORDS[token], plain=True)
        return syntax_tree.Scalar(position, token, parse_number(token, token), plain=True)


def read_json(text: str, limits: syntax_tree.Limits) -> Iterator[syntax_tree.Node]:
    """Yield each object of the text.

    Raises:
        DocumentError: if the text is not JSON, or exceeds a limit; earlier objects have been yielded.
    """
    reader, count = _Reader(text, limits), 0
    while reader.lexeme:
        count += 1
        if count > limits.documents:
            message = f"more than {limits.documents} documents in one file"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.TOO_LARGE, reader.position, message)
        if reader.lexeme != "{":
            raise reader.create_error("'{'")
        yield reader.read_value(1)
