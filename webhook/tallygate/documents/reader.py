"""The reader of manifests: from a text, YAML or JSON, to its documents."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.documents.composer import compose_manifests
from tallygate.documents.json_reader import read_json
from tallygate.documents.syntax_tree import (
    DocumentError,
    ErrorKind,
    Limits,
    Node,
    Position,
    Scalar,
    truncate_text,
)

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
    root: Node
    origin: str = ""


def read_documents(text: str, limits: Limits) -> Iterator[Document]:
    """Yield the documents of a text that are not empty.

    A text that begins with `{` is JSON if it can be read as such (apimachinery yaml.NewYAMLOrJSONDecoder).

    Raises:
        DocumentError: if the text is neither YAML nor JSON, or exceeds a limit; earlier documents have been yielded.
    """
    unmarked = text.removeprefix(_BYTE_ORDER_MARK)
    is_json = unmarked.lstrip(" \t\r\n").startswith("{")
    try:
        yield from _read_json_or_yaml(unmarked, limits) if is_json else _read_yaml(text, limits)
    except DocumentError as error:
        if error.kind is ErrorKind.SYNTAX and _TEMPLATE.search(text):
            raise DocumentError(error.kind, error.position, f"{error.message}; {_RENDER}") from error
        raise


def _read_json_or_yaml(text: str, limits: Limits) -> list[Document]:
    """Return the documents of JSON, or of YAML that begins with a brace.

    Raises:
        DocumentError: if the text is neither; it is the error of JSON.
    """
    try:
        return [Document(index, root) for index, root in enumerate(read_json(text, limits))]
    except DocumentError as not_json:
        if not_json.kind is not ErrorKind.SYNTAX:
            raise
        try:
            return list(_read_yaml(text, limits))
        except DocumentError:
            raise not_json from None


def _read_yaml(text: str, limits: Limits) -> Iterator[Document]:
    origins = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _ORIGIN.finditer(text)]
    for index, (root, start) in enumerate(compose_manifests(_split_documents(text), limits)):
        if root is not None and not (isinstance(root, Scalar) and root.value is None):
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
            position = Position(text.count("\n", 0, separator.start()) + 1, 4)
            message = f"kubectl reads no {truncate_text(rest)} on the line of ---: write it on the next line"
            raise DocumentError(ErrorKind.SYNTAX, position, message)
    if text[begin:]:
        yield line, _check_part(text[begin:], line)


def _check_part(text: str, line_offset: int) -> str:
    """Return a part of a text without the byte order mark at its begin.

    Raises:
        DocumentError: if it has a directive, or a line of it begins with a byte order mark.
    """
    part = text.removeprefix(_BYTE_ORDER_MARK)
    if (directive := _DIRECTIVE.match(part)) is not None:
        position = Position(line_offset + part.count("\n", 0, directive.end()) + 1, 1)
        message = "kubectl reads no directives such as %YAML: remove this line"
        raise DocumentError(ErrorKind.SYNTAX, position, message)
    if (marked := _MARKED_LINE.search(part)) is not None:
        position = Position(line_offset + part.count("\n", 0, marked.start()) + 1, 1)
        message = (
            "this line begins with a byte order mark (U+FEFF), which kubectl reads as a part of the key: remove it; it "
            "may stand at the begin of a file, and at that of a line that follows ---"
        )
        raise DocumentError(ErrorKind.CONTENT, position, message)
    return part


def _find_origin(origins: list[tuple[int, str]], start: Position, root: Position) -> str:
    """Return the comment between the start of a document and its first value, or an empty text.

    Helm writes these comments after each `---`.
    """
    return next((origin for line, origin in origins if start.line <= line <= root.line), "")
