"""The nodes of YAML text: values with their positions, without a meaning.

Scalars keep their source text, so that `1e3`, `010` and `3.0` never become a float. The value of a scalar follows the
core schema of YAML 1.2: `yes` and `on` are texts, `true` is not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


class Number(int):
    """A number for JSON Schema, which needs its type and sign only; `text` has the exact value."""

    text: str

    @classmethod
    def written(cls, text: str) -> "Number":
        """Return the number of a source text, in constant time and space for any number of digits and any exponent."""
        mantissa = re.split("[eE]", text, maxsplit=1)[0]
        size = 0 if not mantissa.strip("+-0.") else 1
        number = cls(-size if text.startswith("-") else size)
        number.text = text
        return number

    def __str__(self) -> str:
        """Return the source text."""
        return self.text

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A scalar; a `plain` one has no quotes and may therefore be another type than a text."""

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
        """The values of the items."""
        return [item.value for item in self.items]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """A mapping with unique text keys in source order. `weight` counts nodes with all aliases expanded."""

    line: int
    column: int
    pairs: tuple[tuple[Scalar, "Node"], ...]
    weight: int

    @property
    def value(self) -> dict[str, Any]:
        """The values of the pairs."""
        return {key.text: node.value for key, node in self.pairs}

    def get(self, name: str) -> "Node | None":
        """Return the node under a key, or None."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def key(self, name: str) -> Scalar | None:
        """Return the node of the key itself, or None."""
        return next((key for key, _ in self.pairs if key.text == name), None)


Node = Scalar | Sequence | Mapping


def joined(path: str, step: str | int) -> str:
    """Return a field path with one more step: `spec.match.kinds[1]`, `spec.hard[nvidia.com/gpu]`."""
    if isinstance(step, int) or "/" in step or "." in step:
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def descend(node: Node, path: Iterator[str | int]) -> Node:
    """Return the node at a path of keys and indices, or the last existing node of the path."""
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
