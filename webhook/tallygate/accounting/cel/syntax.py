"""Nodes of the syntax tree, with their positions; macros are expanded in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tallygate.accounting.cel.cel_types import DYN, CelType
from tallygate.errors import TallygateError


class TextPosition(NamedTuple):
    """A place in an expression: line and column, both from 1; columns count characters."""

    line: int
    column: int


class ExpressionError(TallygateError):
    """An expression cannot be compiled; `position` is the place of the mistake.

    `is_unsupported` is true where Kubernetes knows the function or the form, and this package does not.
    """

    def __init__(self, message: str, position: TextPosition, *, is_unsupported: bool = False) -> None:
        super().__init__(f"{position.line}:{position.column}: {message}")
        self.message = message
        self.position = position
        self.is_unsupported = is_unsupported


@dataclass(slots=True, eq=False)
class SyntaxNode:
    """A part of an expression; `kind` is its type, set by the type checker."""

    position: TextPosition
    kind: CelType = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(SyntaxNode):
    """A constant."""

    value: object


@dataclass(slots=True, eq=False)
class Name(SyntaxNode):
    """A variable, or a type."""

    text: str


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    """A field of an operand; `is_test` asks only whether it is present, as `has` does."""

    operand: SyntaxNode
    field: str
    is_test: bool = False


@dataclass(slots=True, eq=False)
class Call(SyntaxNode):
    """A function, an operator or a method with its arguments; only a method has a target."""

    function: str
    arguments: list[SyntaxNode]
    target: SyntaxNode | None = None
    overload: tuple[CelType, ...] | None = field(default=None, init=False)
    """The types of the parameters, if one form of the function alone matches; set by the type checker."""


@dataclass(slots=True, eq=False)
class ListLiteral(SyntaxNode):
    """A list; the elements at `optional_places` are left out if they have no value."""

    elements: list[SyntaxNode]
    optional_places: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapEntry:
    """A key of a map with its value; an optional entry is left out without a value."""

    key: SyntaxNode
    value: SyntaxNode
    is_optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(SyntaxNode):
    """A map."""

    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class Loop(SyntaxNode):
    """A comprehension: each item of a range changes a result, which begins with `initial`.

    The type checker reads the nodes that cel-go has. `form` is the meaning for the evaluation: `bind`, `all`, `exists`,
    `one`, `list` or `map`; `predicates` and `parts` are the parts of the step that were written.
    """

    form: str

    items: SyntaxNode
    variables: tuple[str, ...]
    result_name: str
    initial: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    outcome: SyntaxNode
    predicates: list[SyntaxNode] = field(default_factory=list)
    parts: list[SyntaxNode] = field(default_factory=list)


def list_children(node: SyntaxNode) -> list[SyntaxNode]:
    """Return the nodes directly below a node."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*node.arguments] if node.target is None else [node.target, *node.arguments]
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Loop():
            return [node.items, node.initial, node.condition, node.step, node.outcome]
        case _:
            return []
