"""The JSON of a node: the bytes that kubectl would send."""

import re
from typing import Any

import msgspec

from tallygate.documents import syntax_tree
from tallygate.documents.scalars import Number, format_float

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def to_json(node: syntax_tree.Node, max_values: int) -> bytes:
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

    def convert(self, node: syntax_tree.Node) -> Any:
        """Return dicts, lists and scalars for msgspec, floats in Go's form."""
        self.count += 1
        if self.count > self.max_values:
            message = f"its aliases expand to more than {self.max_values} values"
            raise syntax_tree.DocumentError(syntax_tree.ErrorKind.TOO_LARGE, node.position, message)
        match node:
            case syntax_tree.Scalar(value=float(value)):
                return msgspec.Raw(format_float(value).encode())
            case syntax_tree.Scalar():
                return node.value
            case syntax_tree.Sequence():
                return [self.convert(item) for item in node.items]
            case syntax_tree.Mapping():
                return self._convert_mapping(node)

    def _convert_mapping(self, node: syntax_tree.Mapping) -> dict[str, Any]:
        """Return the entries; the last of duplicate keys wins, a merge key takes effect in its place (decode.go)."""
        converted: dict[str, Any] = {}
        for entry in node.entries:
            if entry.is_merge:
                for source in list_merged(entry):
                    converted.update(self.convert(source))
            else:
                converted[entry.name] = self.convert(entry.value)
        return converted


def to_plain(node: syntax_tree.Node | None) -> Any:
    """Return the plain value of a node of a policy; a number that is not an integer stays text, often a quantity."""
    match node:
        case syntax_tree.Mapping():
            return {entry.name: to_plain(entry.value) for entry in node.entries}
        case syntax_tree.Sequence():
            return [to_plain(item) for item in node.items]
        case syntax_tree.Scalar(value=Number()):
            return int(node.text) if _INTEGER.fullmatch(node.text) else node.text
        case syntax_tree.Scalar():
            return node.value
        case None:
            return None


def list_merged(entry: syntax_tree.Entry) -> list[syntax_tree.Mapping]:
    """Return the mappings of a merge key, the weakest first.

    Raises:
        DocumentError: if its value is another one than a mapping or a list of mappings.
    """
    sources = list(reversed(entry.value.items)) if isinstance(entry.value, syntax_tree.Sequence) else [entry.value]
    mappings = [source for source in sources if isinstance(source, syntax_tree.Mapping)]
    if len(mappings) < len(sources):
        message = "a merge key (<<) takes a mapping or a list of mappings"
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, entry.key.position, message)
    return mappings
