"""Nodes: what YAML text says, with the place of everything and without a meaning.

Scalars keep their source text, so that `1e3`, `010` and `3.0` are never seen through a float. Which value a scalar
is follows the core schema of YAML 1.2: `yes` and `on` are texts, `true` is not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class Number(int):
    """A number as JSON Schema may see it: that it is one, and its sign. What it is exactly, its source text says."""

    text: str

    @classmethod
    def written(cls, text: str) -> "Number":
        """The number of this text, in constant time and space whatever its digits and exponent are."""
        mantissa = re.split("[eE]", text, maxsplit=1)[0]
        size = 0 if not mantissa.strip("+-0.") else 1
        number = cls(-size if text.startswith("-") else size)
        number.text = text
        return number

    def __str__(self) -> str:
        """As it was written."""
        return self.text

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A scalar; `plain` when it stands without quotes and may therefore be something else than a text."""

    line: int
    column: int
    text: str
    plain: bool
    weight: int = 1

    @property
    def value(self) -> Any:
        """`None`, a bool, a `Number` or a string."""
        if not self.plain:
            return self.text
        if self.text in _NULLS:
            return None
        if self.text in _BOOLEANS:
            return _BOOLEANS[self.text]
        return Number.written(self.text) if _NUMBER.fullmatch(self.text) else self.text


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list."""

    line: int
    column: int
    items: tuple["Node", ...]
    weight: int

    @property
    def value(self) -> list[Any]:
        """The items' values."""
        return [item.value for item in self.items]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A mapping with keys of text, each once, in the order written. `weight` counts nodes, aliases written out."""

    line: int
    column: int
    pairs: tuple[tuple[Scalar, "Node"], ...]
    weight: int

    @property
    def value(self) -> dict[str, Any]:
        """The pairs' values."""
        return {key.text: node.value for key, node in self.pairs}

    def get(self, name: str) -> "Node | None":
        """The node under a key."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def key(self, name: str) -> Scalar | None:
        """The node of the key itself."""
        return next((key for key, _ in self.pairs if key.text == name), None)


Node = Scalar | Sequence | Mapping


def joined(path: str, step: str | int) -> str:
    """A path of fields with one more step, as people write it: `spec.match.kinds[1]`, `spec.hard[nvidia.com/gpu]`."""
    if isinstance(step, int) or "/" in step or "." in step:
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def descend(node: Node, path: Iterator[str | int]) -> Node:
    """The node at a path of keys and indices, or the last one on the way that exists."""
    for step in path:
        below = _child(node, step)
        if below is None:
            return node
        node = below
    return node


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, Mapping):
        return node.get(str(step))
    if isinstance(node, Sequence) and isinstance(step, int):
        return node.items[step]
    return None
