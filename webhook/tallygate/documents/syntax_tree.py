"""The syntax tree of a document: nodes with positions, paths to them, and the errors of readers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, TypeAlias

from tallygate.errors import TallygateError

_MERGE_KEY = "<<"
_STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<key>[^\]]*)\]")
_MAX_SHOWN_LENGTH = 80
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)


class Position(NamedTuple):
    """A position in a text; line and column count from 1."""

    line: int
    column: int


START = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one text.

    `size` is in bytes; `depth` counts nested lists and mappings; `documents` and `nodes` count in the text; `expanded`
    counts the values of one document with its aliases written out, so that a few lines cannot become a billion values.
    The defaults are those of manifests: the types of the API server nest less than 40 deep.
    """

    size: int = 64 * 1024 * 1024
    depth: int = 200
    documents: int = 50_000
    nodes: int = 5_000_000
    expanded: int = 1_000_000


DEFAULT_LIMITS = Limits()


class ErrorKind(StrEnum):
    """The kinds of document errors; policies and manifests have a code for each."""

    SYNTAX = "syntax"
    TOO_LARGE = "too large"
    FEATURE = "feature"
    DUPLICATE_KEY = "duplicate key"
    CONTENT = "content"


class DocumentError(TallygateError):
    """A text that cannot be read; `position` is the place of the error."""

    def __init__(self, kind: ErrorKind, position: Position, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.position = position
        self.message = message


@dataclass(slots=True, eq=False)
class Scalar:
    """A single value: its source text without quotes, and its value in the dialect of the document.

    A `plain` scalar has neither quotes nor a tag, so that its value may be another type than a string.
    """

    position: Position
    text: str
    value: Any
    plain: bool
    weight: ClassVar[int] = 1


@dataclass(slots=True, eq=False)
class Entry:
    """One key of a mapping and its value; `name` is the key in JSON."""

    name: str
    key: Scalar
    value: "Node"

    @property
    def is_merge(self) -> bool:
        """Whether the key is the merge key of YAML 1.1, without quotes."""
        return self.name == _MERGE_KEY and self.key.plain


@dataclass(slots=True, eq=False)
class Mapping:
    """Entries in source order, duplicate keys of manifests included. `weight` counts nodes with aliases expanded."""

    position: Position
    entries: list[Entry] = field(default_factory=list)
    weight: int = 1

    @property
    def value(self) -> dict[str, Any]:
        return {entry.name: entry.value.value for entry in self.entries}

    def get(self, name: str) -> "Node | None":
        """Return the value of a key, or None; the last of duplicate keys counts, as for kubectl."""
        entry = self.get_entry(name)
        return entry.value if entry else None

    def get_entry(self, name: str) -> Entry | None:
        """Return the last entry with a key, or None."""
        return next((entry for entry in reversed(self.entries) if entry.name == name), None)


@dataclass(slots=True, eq=False)
class Sequence:
    """A list of nodes. `weight` counts nodes with aliases expanded."""

    position: Position
    items: list["Node"] = field(default_factory=list)
    weight: int = 1

    @property
    def value(self) -> list[Any]:
        return [item.value for item in self.items]


Node: TypeAlias = Scalar | Mapping | Sequence


def truncate_text(text: str) -> str:
    """Return the text, shortened if it is long."""
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…"


def join_path(path: str, step: str | int) -> str:
    """Return a field path with one more step: `spec.match.kinds[1]`, `spec.hard[nvidia.com/gpu]`."""
    if isinstance(step, int) or "/" in step or "." in step:
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def descend(node: Node, path: Iterable[str | int]) -> Node:
    """Return the node at a path of keys and indices, or the last existing node of the path."""
    for step in path:
        child = node.get(str(step)) if isinstance(node, Mapping) else None
        if isinstance(node, Sequence) and isinstance(step, int):
            child = node.items[step]
        if child is None:
            return node
        node = child
    return node


@dataclass(frozen=True, slots=True)
class FieldLocation:
    """The position and the node of a field; not `exact` if only a node around the field is written."""

    position: Position
    node: Node
    exact: bool = True


def locate(root: Node, path: str) -> FieldLocation:
    """Return the location of a field, or of the nearest written node around it.

    Paths are those of Kubernetes (apimachinery field.Path): names after dots, indices and map keys in brackets. A few
    paths of Kubernetes are inexact: resources of nodes follow a dot (`status.capacity.nvidia.com/gpu`), and overhead
    has a step that no manifest has (`spec.overhead.limits[cpu]`).
    """
    location, offset = FieldLocation(root.position, root), 0
    while offset < len(path):
        entry = _find_rest(location.node, path[offset:])
        if entry is not None:
            return FieldLocation(entry.key.position, entry.value)
        step = _STEP.match(path, offset)
        if step is None:
            return replace(location, exact=False)
        offset = step.end()
        child = _find_child(location.node, step["name"] if step["name"] is not None else step["key"])
        if child is not None:
            location = child
        elif not _is_skipped(location.node, path, offset):
            return replace(location, exact=False)
    return location


def _find_rest(node: Node, rest: str) -> Entry | None:
    """Return the entry whose key is the whole rest of the path, dots and slashes included."""
    return _find_entry(node, rest[1:]) if isinstance(node, Mapping) and rest.startswith(".") else None


def _find_child(node: Node, name: str) -> FieldLocation | None:
    if isinstance(node, Mapping):
        entry = _find_entry(node, name)
        return FieldLocation(entry.key.position, entry.value) if entry else None
    if isinstance(node, Sequence) and _INDEX.fullmatch(name) and int(name) < len(node.items):
        item = node.items[int(name)]
        return FieldLocation(item.position, item)
    return None


def _is_skipped(node: Node, path: str, offset: int) -> bool:
    """Return whether the node has the step after a missing one."""
    step = _STEP.match(path, offset)
    return step is not None and step["key"] is not None and _find_child(node, step["key"]) is not None


def _find_entry(node: Mapping, name: str) -> Entry | None:
    """Return the entry with a key, merged entries included."""
    direct = node.get_entry(name)
    if direct is not None:
        return direct
    for value in [entry.value for entry in node.entries if entry.is_merge]:
        for source in value.items if isinstance(value, Sequence) else [value]:
            merged = _find_entry(source, name) if isinstance(source, Mapping) else None
            if merged is not None:
                return merged
    return None
