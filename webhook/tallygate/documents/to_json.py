"""The JSON of a node: the bytes that kubectl would send."""

import re
from typing import Any

import msgspec

from tallygate.documents.scalars import Number, format_float
from tallygate.documents.syntax_tree import DocumentError, Entry, ErrorKind, Mapping, Node, Scalar, Sequence

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def to_json(node: Node, max_values: int) -> bytes:
    """Return the JSON of the root of an object, with aliases and merge keys written out.

    Raises:
        DocumentError: if more than `max_values` values result, or a merge key has another value than mappings.
    """
    return msgspec.json.encode(_Expansion(max_values).convert(node))


class _Expansion:
    """The conversion of one tree, with the number of its values."""

    def __init__(self, max_values: int) -> None:
        self.max_values = max_values
        self.count = 0

    def convert(self, node: Node) -> Any:
        """Return dicts, lists and scalars for msgspec, floats in Go's form."""
        self.count += 1
        if self.count > self.max_values:
            message = f"its aliases expand to more than {self.max_values} values"
            raise DocumentError(ErrorKind.TOO_LARGE, node.position, message)
        match node:
            case Scalar(value=float(value)):
                return msgspec.Raw(format_float(value).encode())
            case Scalar():
                return node.value
            case Sequence():
                return [self.convert(item) for item in node.items]
            case Mapping():
                return self._convert_mapping(node)

    def _convert_mapping(self, node: Mapping) -> dict[str, Any]:
        """Return the entries; the last of duplicate keys wins, a merge key takes effect in its place (decode.go)."""
        converted: dict[str, Any] = {}
        for entry in node.entries:
            if entry.is_merge:
                for source in _list_merged(entry):
                    converted.update(self.convert(source))
            else:
                converted[entry.name] = self.convert(entry.value)
        return converted


def to_plain(node: Node | None) -> Any:
    """Return the plain value of a node of a policy; a number that is not an integer stays text, often a quantity."""
    match node:
        case Mapping():
            return {entry.name: to_plain(entry.value) for entry in node.entries}
        case Sequence():
            return [to_plain(item) for item in node.items]
        case Scalar(value=Number()):
            return int(node.text) if _INTEGER.fullmatch(node.text) else node.text
        case Scalar():
            return node.value
        case None:
            return None


def _list_merged(entry: Entry) -> list[Mapping]:
    """Return the mappings of a merge key, the weakest first."""
    sources = list(reversed(entry.value.items)) if isinstance(entry.value, Sequence) else [entry.value]
    mappings = [source for source in sources if isinstance(source, Mapping)]
    if len(mappings) < len(sources):
        message = "a merge key (<<) takes a mapping or a list of mappings"
        raise DocumentError(ErrorKind.SYNTAX, entry.key.position, message)
    return mappings
