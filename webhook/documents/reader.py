"""The reader of manifests: from a text, YAML or JSON, to its documents."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.webhook.documents.composer import compose_manifests
from tallygate.webhook.documents.json_reader import read_json
from tallygate.webhook.documents.syntax_tree import DocumentError, ErrorKind, Limits, Node, Position, Scalar

_ORIGIN = re.compile(r"# Source: *(\S.*?) *$", re.MULTILINE)
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
    text = text.removeprefix("\ufeff")
    is_json = text.lstrip(" \t\r\n").startswith("{")
    try:
        yield from _read_json_or_yaml(text, limits) if is_json else _read_yaml(text, limits)
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
    for index, (root, start) in enumerate(compose_manifests(text, limits)):
        if root is not None and not (isinstance(root, Scalar) and root.value is None):
            yield Document(index, root, _find_origin(origins, start, root.position))


def _find_origin(origins: list[tuple[int, str]], start: Position, root: Position) -> str:
    """Return the comment between the start of a document and its first value, or an empty text.

    Helm writes these comments after each `---`.
    """
    return next((origin for line, origin in origins if start.line <= line <= root.line), "")
