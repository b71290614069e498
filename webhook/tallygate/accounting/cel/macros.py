"""Macros: calls that the parser replaces (parser/macro.go, ext/comprehensions.go, ext/bindings.go, cel/library.go)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from tallygate.accounting.cel.syntax import (
    Call,
    ExpressionError,
    ListLiteral,
    Literal,
    Loop,
    MapLiteral,
    Name,
    Select,
    SyntaxNode,
    TextPosition,
    list_children,
)

RESULT: Final = "@result"
"""The name of the result of a loop, which no expression can mention."""
_INPUT: Final = "@sorted"
_UNUSED: Final = "#unused"
_MAX_COPIED_NODES = 100


def expand_has(position: TextPosition, argument: SyntaxNode) -> SyntaxNode:
    """Return the test of `has(operand.field)`."""
    if not isinstance(argument, Select):
        raise ExpressionError("invalid argument to has() macro", argument.position)
    return Select(position, argument.operand, argument.field, is_test=True)


def expand_method(position: TextPosition, target: SyntaxNode, name: str, arguments: list[SyntaxNode]) -> SyntaxNode:
    """Return a method call, expanded if it is a macro."""
    if name == "bind" and len(arguments) == 3 and isinstance(target, Name) and target.text == "cel":  # noqa: PLR2004
        return _expand_bind(position, arguments)
    expand = _MACROS.get((name, len(arguments)))
    if expand is None:
        return Call(position, name, arguments, target)
    return expand(position, target, arguments)


def _make_result(position: TextPosition) -> SyntaxNode:
    return Name(position, RESULT)


def _read_variable(node: SyntaxNode) -> str:
    """Return the name that a macro binds."""
    if not isinstance(node, Name) or "." in node.text:
        raise ExpressionError("argument must be a simple name", node.position)
    if node.text == "__result__":
        raise ExpressionError("iteration variable overwrites accumulator variable", node.position)
    return node.text


def _read_pair(arguments: list[SyntaxNode]) -> tuple[str, str]:
    """Return the two names that a macro binds."""
    first, second = _read_variable(arguments[0]), _read_variable(arguments[1])
    if first == second:
        raise ExpressionError(f"duplicate variable name: {first}", arguments[1].position)
    return first, second


def _make_loop(  # noqa: PLR0913, PLR0917 - the parts of a loop
    form: str,
    position: TextPosition,
    items: SyntaxNode,
    variables: tuple[str, ...],
    initial: SyntaxNode,
    condition: SyntaxNode,
    step: SyntaxNode,
) -> Loop:
    """Return a loop whose outcome is its result."""
    return Loop(position, form, items, variables, RESULT, initial, condition, step, _make_result(position))


def _make_binding(position: TextPosition, name: str, value: SyntaxNode, body: SyntaxNode) -> Loop:
    """Return a body in which a name stands for a value."""
    return Loop(
        position,
        "bind",
        ListLiteral(position, []),
        (_UNUSED,),
        name,
        value,
        Literal(position, False),  # noqa: FBT003
        Name(position, name),
        body,
    )


def _expand_bind(position: TextPosition, arguments: list[SyntaxNode]) -> SyntaxNode:
    name = arguments[0]
    if not isinstance(name, Name) or "." in name.text:
        raise ExpressionError("cel.bind() variable names must be simple identifiers", name.position)
    return _make_binding(position, name.text, arguments[1], arguments[2])


def _build_quantifier(
    position: TextPosition, items: SyntaxNode, names: tuple[str, ...], predicate: SyntaxNode, *, is_all: bool
) -> SyntaxNode:
    result = _make_result(position)
    tested = result if is_all else Call(position, "!_", [result])
    condition = Call(position, "@not_strictly_false", [tested])
    step = Call(position, "_&&_" if is_all else "_||_", [_make_result(position), predicate])
    form = "all" if is_all else "exists"
    loop = _make_loop(form, position, items, names, Literal(position, is_all), condition, step)
    loop.predicates = [predicate]
    return loop


def _build_exists_one(
    position: TextPosition, items: SyntaxNode, names: tuple[str, ...], predicate: SyntaxNode
) -> SyntaxNode:
    one_more = Call(position, "_+_", [_make_result(position), Literal(position, 1)])
    step = Call(position, "_?_:_", [predicate, one_more, _make_result(position)])
    loop = _make_loop("one", position, items, names, Literal(position, 0), _make_true(position), step)
    loop.predicates = [predicate]
    loop.outcome = Call(position, "_==_", [_make_result(position), Literal(position, 1)])
    return loop


def _make_true(position: TextPosition) -> SyntaxNode:
    return Literal(position, True)  # noqa: FBT003


def _filter_step(position: TextPosition, step: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    """Return a step that is done only where the one argument, if there is one, is true."""
    return Call(position, "_?_:_", [arguments[0], step, _make_result(position)]) if arguments else step


def _build_list(
    position: TextPosition,
    items: SyntaxNode,
    names: tuple[str, ...],
    transform: SyntaxNode,
    predicates: list[SyntaxNode],
) -> SyntaxNode:
    added = Call(position, "_+_", [_make_result(position), ListLiteral(position, [transform])])
    step = _filter_step(position, added, predicates)
    loop = _make_loop("list", position, items, names, ListLiteral(position, []), _make_true(position), step)
    loop.predicates = predicates
    loop.parts = [transform]
    return loop


def _expand_all(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_quantifier(position, target, (_read_variable(arguments[0]),), arguments[1], is_all=True)


def _expand_exists(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_quantifier(position, target, (_read_variable(arguments[0]),), arguments[1], is_all=False)


def _expand_exists_one(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_exists_one(position, target, (_read_variable(arguments[0]),), arguments[1])


def _expand_map(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    name, *predicates, transform = arguments
    return _build_list(position, target, (_read_variable(name),), transform, predicates)


def _expand_filter(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    name, predicate = arguments
    return _build_list(position, target, (_read_variable(name),), copy.deepcopy(name), [predicate])


def _expand_all_pairs(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_quantifier(position, target, _read_pair(arguments), arguments[2], is_all=True)


def _expand_exists_pairs(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_quantifier(position, target, _read_pair(arguments), arguments[2], is_all=False)


def _expand_exists_one_pair(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_exists_one(position, target, _read_pair(arguments), arguments[2])


def _expand_transform_list(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    *predicates, transform = arguments[2:]
    return _build_list(position, target, _read_pair(arguments), transform, predicates)


def _expand_transform_map(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    names = _read_pair(arguments)
    return _build_map(position, target, names, [Name(position, names[0]), arguments[-1]], arguments[2:-1])


def _expand_transform_entry(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_map(position, target, _read_pair(arguments), [arguments[-1]], arguments[2:-1])


def _build_map(
    position: TextPosition,
    items: SyntaxNode,
    names: tuple[str, ...],
    parts: list[SyntaxNode],
    predicates: list[SyntaxNode],
) -> SyntaxNode:
    inserted = Call(position, "cel.@mapInsert", [_make_result(position), *parts])
    step = _filter_step(position, inserted, predicates)
    loop = _make_loop("map", position, items, names, MapLiteral(position, []), _make_true(position), step)
    loop.predicates = predicates
    loop.parts = parts
    return loop


def _expand_optional_map(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_optional(position, target, arguments, is_flat=False)


def _expand_optional_flat_map(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    return _build_optional(position, target, arguments, is_flat=True)


def _build_optional(
    position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode], *, is_flat: bool
) -> SyntaxNode:
    """Return the expansion of `optMap` and `optFlatMap`: the body for the value, if the target has one."""
    name, body = arguments
    if not isinstance(name, Name) or "." in name.text:
        raise ExpressionError("variable name must be a simple identifier", name.position)
    value = Call(position, "value", [], _copy(target))
    mapped: SyntaxNode = _make_binding(position, name.text, value, body)
    if not is_flat:
        mapped = Call(position, "optional.of", [mapped])
    nothing = Call(position, "optional.none", [])
    return Call(position, "_?_:_", [Call(position, "hasValue", [], target), mapped, nothing])


def _copy(root: SyntaxNode) -> SyntaxNode:
    """Return a copy of a node; expansions within expansions must not double it without end."""
    nodes = [root]
    count = 0
    while nodes:
        nodes.extend(list_children(nodes.pop()))
        count += 1
        if count > _MAX_COPIED_NODES:
            message = f"a macro for an operand of more than {_MAX_COPIED_NODES} operations is not supported"
            raise ExpressionError(message, root.position, is_unsupported=True)
    return copy.deepcopy(root)


def _expand_sort_by(position: TextPosition, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    if isinstance(target, Literal | MapLiteral):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise ExpressionError(message, target.position)
    keys = _expand_map(position, Name(position, _INPUT), arguments)
    body = Call(position, "@sortByAssociatedKeys", [keys], Name(position, _INPUT))
    return _make_binding(position, _INPUT, target, body)


_MACROS: Mapping[tuple[str, int], Callable[[TextPosition, SyntaxNode, list[SyntaxNode]], SyntaxNode]] = {
    ("all", 2): _expand_all,
    ("all", 3): _expand_all_pairs,
    ("exists", 2): _expand_exists,
    ("exists", 3): _expand_exists_pairs,
    ("exists_one", 2): _expand_exists_one,
    ("exists_one", 3): _expand_exists_one_pair,
    ("existsOne", 2): _expand_exists_one,
    ("existsOne", 3): _expand_exists_one_pair,
    ("filter", 2): _expand_filter,
    ("map", 2): _expand_map,
    ("map", 3): _expand_map,
    ("optFlatMap", 2): _expand_optional_flat_map,
    ("optMap", 2): _expand_optional_map,
    ("sortBy", 2): _expand_sort_by,
    ("transformList", 3): _expand_transform_list,
    ("transformList", 4): _expand_transform_list,
    ("transformMap", 3): _expand_transform_map,
    ("transformMap", 4): _expand_transform_map,
    ("transformMapEntry", 3): _expand_transform_entry,
    ("transformMapEntry", 4): _expand_transform_entry,
}
