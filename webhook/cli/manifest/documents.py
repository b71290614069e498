"""Documents: the values that one text holds, whichever way it is written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from webhook.cli.manifest import compose, json_text
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Node, Place, Scalar

_ORIGIN = re.compile(r"# Source: *(\S.*?) *$", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_RENDER = "this looks like a template; render it first: `helm template . | tallygate check -`"


@dataclass(frozen=True, slots=True)
class Document:
    """One document. `index` counts from 0, empty ones included; `origin` is what a `# Source:` comment says of it."""

    index: int
    root: Node
    origin: str = ""


def documents(text: str, bounds: Bounds) -> Iterator[Document]:
    """The documents of a text that are not empty.

    What begins with `{` is JSON if it can be read so, as kubectl sees it (apimachinery yaml.NewYAMLOrJSONDecoder).

    Raises:
        Fault: the text is neither YAML nor JSON, or beyond the bounds; what came before has been yielded.
    """
    text = text.removeprefix("\ufeff")
    try:
        yield from _json_or_yaml(text, bounds) if text.lstrip(" \t\r\n").startswith("{") else _yaml(text, bounds)
    except Fault as fault:
        if fault.code == "TG401" and _TEMPLATE.search(text):
            raise Fault(fault.code, fault.place, f"{fault.message}; {_RENDER}") from fault
        raise


def _json_or_yaml(text: str, bounds: Bounds) -> list[Document]:
    """JSON, or YAML that begins with a brace; what is neither is told as broken JSON."""
    try:
        return _json(text, bounds)
    except Fault as not_json:
        if not_json.code != "TG401":
            raise
        try:
            return list(_yaml(text, bounds))
        except Fault:
            raise not_json from None


def _json(text: str, bounds: Bounds) -> list[Document]:
    return [Document(index, root) for index, (root, _) in enumerate(json_text.read(text, bounds))]


def _yaml(text: str, bounds: Bounds) -> Iterator[Document]:
    origins = _Origins(text)
    for index, (root, start) in enumerate(compose.compose(text, bounds)):
        if root is not None and not (isinstance(root, Scalar) and root.value is None):
            yield Document(index, root, origins.between(start, root.place))


class _Origins:
    """The `# Source:` comments of a text, which Helm writes after each `---`."""

    def __init__(self, text: str) -> None:
        self.found = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _ORIGIN.finditer(text)]

    def between(self, start: Place, root: Place) -> str:
        """The comment between the start of a document and its first value; empty when there is none."""
        return next((origin for line, origin in self.found if start.line <= line <= root.line), "")
