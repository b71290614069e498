"""The body of an ask: the objects of files as JSON, and the places of findings in the body back to those in the files.

Each key and each value of the body has a line of its own, so that the line of a finding tells the place in the file.
The objects are sent as kubectl would send them, so that mistakes of the text alone are found by `check`. Documents that
are no objects are not sent, and Secrets neither: no policy is about them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from tallygate.cli.framework import UsageError
from tallygate.documents import syntax_tree
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Position
from tallygate.documents.to_json import list_merged, to_json
from tallygate.manifests.manifest_objects import Manifest

_NEVER_SENT: Final = frozenset({("", "Secret")})


def is_sent(manifest: Manifest) -> bool:
    """Return whether an object may leave this machine."""
    return (manifest.group, manifest.kind) not in _NEVER_SENT


class AskedObjects:
    """Objects as the body of an ask.

    Raises:
        UsageError: if the aliases of an object expand to too many values, or a merge key is invalid.
    """

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self.manifests = manifests
        self._positions: list[Position] = []
        self._owners: list[Manifest] = []
        lines: list[str] = []
        for manifest in manifests:
            for position, line in _write_lines(manifest):
                self._positions.append(position)
                self._owners.append(manifest)
                lines.append(line)
        self.body = "\n".join(lines).encode()

    def restore_places(self, content: Any) -> None:
        """Give the findings of an answer, as plain data, their places in the files."""
        for manifest, answer in zip(self.manifests, content["objects"], strict=False):
            for finding in answer["findings"]:
                index = finding["line"] - 1
                known = 0 <= index < len(self._positions) and self._owners[index] is manifest
                position = self._positions[index] if known else manifest.node.position
                finding |= {
                    "file": manifest.file,
                    "line": position.line,
                    "column": position.column,
                    "document": manifest.document,
                    "source": manifest.origin,
                }


def _write_lines(manifest: Manifest) -> Iterator[tuple[Position, str]]:
    try:
        yield from _LineWriter(DEFAULT_LIMITS.expanded).write(_complete(manifest))
    except DocumentError as error:
        place = f"{manifest.file}:{error.position.line}:{error.position.column}"
        raise UsageError(f"{place}: {error.message}") from error


def _complete(manifest: Manifest) -> syntax_tree.Mapping:
    """Return an object with the type that an item of a typed list has from its list."""
    node, start = manifest.node, manifest.node.position
    added = [
        syntax_tree.Entry(name, _create_scalar(name, start), _create_scalar(text, start))
        for name, text in (("apiVersion", manifest.api_version), ("kind", manifest.kind))
        if node.get(name) is None
    ]
    if not added:
        return node
    whole = syntax_tree.Mapping(start)
    whole.entries.extend([*added, *node.entries])
    return whole


def _create_scalar(text: str, position: Position) -> syntax_tree.Scalar:
    return syntax_tree.Scalar(position, text, text, plain=False)


class _LineWriter:
    """The lines of one object as JSON, each with its place; keys that are written twice are in it twice."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._count = 0

    def write(self, node: syntax_tree.Node) -> Iterator[tuple[Position, str]]:
        """Yield the lines of a value; its last line has nothing behind it."""
        self._count_values(1, node)
        match node:
            case syntax_tree.Mapping():
                yield node.position, "{"
                for number, entry in enumerate(self._list_entries(node)):
                    yield entry.key.position, f"{',' * (number > 0)}{_encode(entry.name)}:"
                    yield from self.write(entry.value)
                yield node.position, "}"
            case syntax_tree.Sequence():
                yield node.position, "["
                for number, item in enumerate(node.items):
                    if number:
                        yield item.position, ","
                    yield from self.write(item)
                yield node.position, "]"
            case syntax_tree.Scalar():
                yield node.position, to_json(node, 1).decode()

    def _count_values(self, number: int, node: syntax_tree.Node) -> None:
        self._count += number
        if self._count > self._max_values:
            message = f"its aliases expand to more than {self._max_values} values"
            raise DocumentError(syntax_tree.ErrorKind.TOO_LARGE, node.position, message)

    def _list_entries(self, node: syntax_tree.Mapping) -> Iterable[syntax_tree.Entry]:
        """Return the entries of a mapping, with those of merge keys in their place as `to_json` has them."""
        if not any(entry.is_merge for entry in node.entries):
            return node.entries
        merged: dict[str, syntax_tree.Entry] = {}
        for entry in node.entries:
            sources = list_merged(entry) if entry.is_merge else ()
            added = [inner for source in sources for inner in self._list_entries(source)] if entry.is_merge else [entry]
            self._count_values(len(added), node)
            merged.update((each.name, each) for each in added)
        return merged.values()


def _encode(text: str) -> str:
    return msgspec.json.encode(text).decode()
