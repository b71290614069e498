"""Nodes to JSON: the bytes that kubectl would send for them."""

from typing import Any

import msgspec

from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Entry, Mapping, Node, Scalar, Sequence
from webhook.cli.manifest.scalars import go_float

_MERGE = "<<"


def to_json(node: Node, expanded: int) -> bytes:
    """The JSON of a node, aliases and merge keys written out.

    Args:
        node: the root of an object.
        expanded: how many values there may be once aliases are written out.

    Raises:
        Fault: there are more, or a merge key merges something that is not a mapping.
    """
    return msgspec.json.encode(_Expansion(expanded).plain(node))


class _Expansion:
    """Writes a tree out, counting."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0

    def plain(self, node: Node) -> Any:
        """What msgspec encodes: dicts, lists and scalars, floats already in Go's form."""
        self.count += 1
        if self.count > self.most:
            raise Fault("TG402", node.place, f"its aliases expand to more than {self.most} values")
        match node:
            case Scalar(value=float(value)):
                return msgspec.Raw(go_float(value).encode())
            case Scalar():
                return node.value
            case Sequence():
                return [self.plain(item) for item in node.items]
            case Mapping():
                return self._mapping(node)

    def _mapping(self, node: Mapping) -> dict[str, Any]:
        """The last of duplicate keys wins; a merge key counts as written where it stands (goyaml.v2 decode.go)."""
        plain: dict[str, Any] = {}
        for entry in node.entries:
            if is_merge(entry):
                for source in _merged(entry):
                    plain.update(self.plain(source))
            else:
                plain[entry.name] = self.plain(entry.value)
        return plain


def is_merge(entry: Entry) -> bool:
    """Whether this is the YAML 1.1 merge key, unquoted."""
    return entry.name == _MERGE and entry.key.end.column - entry.key.place.column == len(_MERGE)


def _merged(entry: Entry) -> list[Mapping]:
    """The mappings that a merge key brings in, weakest first."""
    sources = list(reversed(entry.value.items)) if isinstance(entry.value, Sequence) else [entry.value]
    mappings = [source for source in sources if isinstance(source, Mapping)]
    if len(mappings) < len(sources):
        raise Fault("TG401", entry.key.place, "a merge key (<<) takes a mapping or a list of mappings")
    return mappings
