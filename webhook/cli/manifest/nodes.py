"""Nodes: a parsed document in which every value still knows where it was written."""

from dataclasses import dataclass, field
from typing import TypeAlias

ScalarValue: TypeAlias = str | int | float | bool | None
"""What a scalar means once it is read as kubectl reads it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in its file; `line` and `column` count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `text` is what was written (without quotes), `value` what it means."""

    value: ScalarValue
    text: str
    place: Place
    end: Place


@dataclass(slots=True)
class Entry:
    """One key of a mapping and its value; `name` is the key as JSON will have it."""

    name: str
    key: Scalar
    value: "Node"


@dataclass(slots=True)
class Mapping:
    """Keys and values in the order written. The same key twice stands here twice."""

    place: Place
    entries: list[Entry] = field(default_factory=list)

    def get(self, name: str) -> "Node | None":
        """The value under a key: the last one written, as kubectl takes it; None when there is none."""
        entry = self.entry(name)
        return entry.value if entry else None

    def entry(self, name: str) -> Entry | None:
        """The last entry with this key."""
        return next((entry for entry in reversed(self.entries) if entry.name == name), None)


@dataclass(slots=True)
class Sequence:
    """A list of values."""

    place: Place
    items: list["Node"] = field(default_factory=list)


Node: TypeAlias = Scalar | Mapping | Sequence
