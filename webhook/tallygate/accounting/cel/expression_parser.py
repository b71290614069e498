"""Text to a syntax tree in which macros are expanded (parser/gen/CEL.g4, parser/parser.go of cel-go).

Macros: calls that the parser replaces (parser/macro.go, ext/comprehensions.go, ext/bindings.go, cel/library.go).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from tallygate.accounting.cel import syntax
from tallygate.accounting.cel.runtime_values import Uint
from tallygate.accounting.cel.tokens import (
    Token,
    read_bytes,
    read_double,
    read_int,
    read_string,
    read_uint,
    scan_tokens,
)

MAX_BYTES: Final = 10 * 1024
"""The length of an expression that the API server allows."""
_MAX_LEVELS: Final = 40
_MAX_DEPTH: Final = 100

_RANKS = {"||": 0, "&&": 1, **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 2), "+": 3, "-": 3}
_RANKS |= dict.fromkeys("*/%", 4)
_LOGICAL = {"||", "&&"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_RESERVED = {
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
    *("namespace", "return", "var", "void", "while"),
}


def parse_expression(text: str) -> syntax.SyntaxNode:
    """Parse an expression.

    Raises:
        ExpressionError: if the text is no expression, is too long, or has more levels than are supported.
    """
    if len(text.encode()) > MAX_BYTES:
        raise syntax.ExpressionError(f"the expression is longer than {MAX_BYTES} bytes", syntax.TextPosition(1, 1))
    return _Parser(list(scan_tokens(text))).parse()


class _Parser:
    """A parser by recursive descent; `_next` is the token that comes next."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._levels = 0
        self._next = tokens[0]

    def parse(self) -> syntax.SyntaxNode:
        node = self._parse_expression()
        if self._next.form != "end":
            raise self._describe_unexpected()
        _check_depth(node)
        return node

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        self._next = self._tokens[min(self._place, len(self._tokens) - 1)]
        return token

    def _is_sign(self, *texts: str) -> bool:
        return self._next.form == "sign" and self._next.text in texts

    def _skip(self, text: str) -> bool:
        if self._is_sign(text):
            self._take()
            return True
        return False

    def _expect(self, text: str) -> Token:
        if not self._is_sign(text):
            raise self._describe_unexpected(text)
        return self._take()

    def _expect_name(self) -> Token:
        if self._next.form != "name":
            raise self._describe_unexpected("a name")
        return self._take()

    def _describe_unexpected(self, expected: str = "") -> syntax.ExpressionError:
        found = "the end" if self._next.form == "end" else repr(self._next.text)
        wanted = f", expected {expected}" if expected else ""
        return syntax.ExpressionError(f"syntax error: unexpected {found}{wanted}", self._next.position)

    def _parse_expression(self) -> syntax.SyntaxNode:
        self._levels += 1
        if self._levels > _MAX_LEVELS:
            message = f"more than {_MAX_LEVELS} levels of brackets are not supported"
            raise syntax.ExpressionError(message, self._next.position, is_unsupported=True)
        node = self._parse_operation(0)
        if self._is_sign("?"):
            position = self._take().position
            accepted = self._parse_operation(0)
            self._expect(":")
            node = syntax.Call(position, "_?_:_", [node, accepted, self._parse_expression()])
        self._levels -= 1
        return node

    def _parse_operation(self, rank: int) -> syntax.SyntaxNode:
        """Parse operands that are joined by operators of this rank or a higher one, from left to right."""
        node = self._parse_unary()
        joined: syntax.Call | None = None  # a logical operator with as many terms as follow each other
        while self._next.form == "sign" and (found := _RANKS.get(self._next.text, -1)) >= rank:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            operand = self._parse_operation(found + 1)
            if joined is not None and joined.function == name and operator.text in _LOGICAL:
                joined.arguments.append(operand)
            else:
                node = joined = syntax.Call(operator.position, name, [node, operand])
        return node

    def _parse_unary(self) -> syntax.SyntaxNode:
        if not self._is_sign("!", "-"):
            return self._parse_member()
        sign = self._next
        count = 0
        while self._is_sign(sign.text) and not self._is_negative_number(count):
            self._take()
            count += 1
        node = self._parse_member()
        if count % 2 == 0:
            return node
        return syntax.Call(sign.position, "!_" if sign.text == "!" else "-_", [node])

    def _is_negative_number(self, count: int) -> bool:
        """Return whether the next sign belongs to a number: only one without further signs before it does."""
        following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        is_first = count == 0 or self._tokens[self._place - 1].text == "!"
        return self._next.text == "-" and is_first and following.form in {"int", "double"}

    def _parse_member(self) -> syntax.SyntaxNode:
        node = self._parse_primary()
        while True:
            if self._is_sign("."):
                node = self._parse_select(node)
            elif self._is_sign("["):
                position = self._take().position
                operator = "_[?_]" if self._skip("?") else "_[_]"
                node = syntax.Call(position, operator, [node, self._parse_expression()])
                self._expect("]")
            elif self._is_sign("{"):
                message = "values of message types are not supported"
                raise syntax.ExpressionError(message, self._next.position, is_unsupported=True)
            else:
                return node

    def _parse_select(self, operand: syntax.SyntaxNode) -> syntax.SyntaxNode:
        dot = self._take()
        if self._skip("?"):
            name = self._expect_name()
            return syntax.Call(dot.position, "_?._", [operand, syntax.Literal(name.position, name.text)])
        name = self._expect_name()
        if not self._is_sign("("):
            return syntax.Select(dot.position, operand, name.text)
        position = self._next.position
        return expand_method(position, operand, name.text, self._parse_arguments())

    def _parse_arguments(self) -> list[syntax.SyntaxNode]:
        self._expect("(")
        arguments: list[syntax.SyntaxNode] = []
        if not self._is_sign(")"):
            arguments.append(self._parse_expression())
            while self._skip(","):
                arguments.append(self._parse_expression())
        self._expect(")")
        return arguments

    def _parse_primary(self) -> syntax.SyntaxNode:
        token = self._next
        if token.form in {"name", "sign"} and (token.form == "name" or token.text == "."):
            return self._parse_name()
        if token.form == "sign":
            return self._parse_group()
        return self._parse_literal()

    def _parse_name(self) -> syntax.SyntaxNode:
        prefix = "." if self._skip(".") else ""
        name = self._expect_name()
        if name.text in _RESERVED:
            raise syntax.ExpressionError(f"reserved identifier: {name.text}", name.position)
        if not self._is_sign("("):
            return syntax.Name(name.position, prefix + name.text)
        position = self._next.position
        arguments = self._parse_arguments()
        if prefix + name.text == "has" and len(arguments) == 1:
            return expand_has(position, arguments[0])
        return syntax.Call(position, prefix + name.text, arguments)

    def _parse_group(self) -> syntax.SyntaxNode:
        if self._is_sign(*_CONSTANTS):
            token = self._take()
            return syntax.Literal(token.position, _CONSTANTS[token.text])
        if self._is_sign("-"):
            return self._parse_literal()
        if self._skip("("):
            node = self._parse_expression()
            self._expect(")")
            return node
        if self._is_sign("["):
            return self._parse_list()
        if self._is_sign("{"):
            return self._parse_map()
        raise self._describe_unexpected()

    def _parse_literal(self) -> syntax.SyntaxNode:
        position = self._next.position
        sign = self._take().text if self._is_sign("-") else ""
        token = self._next
        if token.form == "end" or (sign and token.form not in {"int", "double"}):
            raise self._describe_unexpected()
        self._take()
        if token.form == "int":
            return syntax.Literal(position, read_int(sign + token.text, position))
        if token.form == "double":
            return syntax.Literal(position, read_double(sign + token.text, position))
        if token.form == "uint":
            return syntax.Literal(position, Uint(read_uint(token.text, position)))
        return syntax.Literal(position, read_string(token) if token.form == "string" else read_bytes(token))

    def _parse_list(self) -> syntax.SyntaxNode:
        position = self._take().position
        elements: list[syntax.SyntaxNode] = []
        optional: set[int] = set()
        while not self._is_end_of_literal("]", len(elements)):
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self._parse_expression())
            if not self._skip(","):
                break
        self._expect("]")
        return syntax.ListLiteral(position, elements, frozenset(optional))

    def _parse_map(self) -> syntax.SyntaxNode:
        position = self._take().position
        entries: list[syntax.MapEntry] = []
        while not self._is_end_of_literal("}", len(entries)):
            is_optional = self._skip("?")
            key = self._parse_expression()
            self._expect(":")
            entries.append(syntax.MapEntry(key, self._parse_expression(), is_optional))
            if not self._skip(","):
                break
        self._expect("}")
        return syntax.MapLiteral(position, entries)

    def _is_end_of_literal(self, end: str, count: int) -> bool:
        """Return whether a list or a map ends here; an empty one can have a comma."""
        return self._is_sign(end) or (count == 0 and self._skip(","))


def _check_depth(root: syntax.SyntaxNode) -> None:
    """Check that no part of an expression is nested so deeply that its evaluation could exhaust the stack."""
    nodes = [(root, 1)]
    while nodes:
        node, depth = nodes.pop()
        if depth > _MAX_DEPTH:
            message = f"the expression nests more than {_MAX_DEPTH} operations, which is not supported"
            raise syntax.ExpressionError(message, node.position, is_unsupported=True)
        nodes.extend((child, depth + 1) for child in syntax.list_children(node))


RESULT: Final = "@result"
"""The name of the result of a loop, which no expression can mention."""
_INPUT: Final = "@sorted"
_UNUSED: Final = "#unused"
_MAX_COPIED_NODES = 100


def expand_has(position: syntax.TextPosition, argument: syntax.SyntaxNode) -> syntax.SyntaxNode:
    """Return the test of `has(operand.field)`."""
    if not isinstance(argument, syntax.Select):
        raise syntax.ExpressionError("invalid argument to has() macro", argument.position)
    return syntax.Select(position, argument.operand, argument.field, is_test=True)


def expand_method(
    position: syntax.TextPosition, target: syntax.SyntaxNode, name: str, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    """Return a method call, expanded if it is a macro."""
    if name == "bind" and len(arguments) == 3 and isinstance(target, syntax.Name) and target.text == "cel":  # noqa: PLR2004
        return _expand_bind(position, arguments)
    expand = _MACROS.get((name, len(arguments)))
    if expand is None:
        return syntax.Call(position, name, arguments, target)
    return expand(position, target, arguments)


def _make_result(position: syntax.TextPosition) -> syntax.SyntaxNode:
    return syntax.Name(position, RESULT)


def _read_variable(node: syntax.SyntaxNode) -> str:
    if not isinstance(node, syntax.Name) or "." in node.text:
        raise syntax.ExpressionError("argument must be a simple name", node.position)
    if node.text == "__result__":
        raise syntax.ExpressionError("iteration variable overwrites accumulator variable", node.position)
    return node.text


def _read_pair(arguments: list[syntax.SyntaxNode]) -> tuple[str, str]:
    first, second = _read_variable(arguments[0]), _read_variable(arguments[1])
    if first == second:
        raise syntax.ExpressionError(f"duplicate variable name: {first}", arguments[1].position)
    return first, second


def _make_loop(  # noqa: PLR0913, PLR0917 - the parts of a loop
    form: str,
    position: syntax.TextPosition,
    items: syntax.SyntaxNode,
    variables: tuple[str, ...],
    initial: syntax.SyntaxNode,
    condition: syntax.SyntaxNode,
    step: syntax.SyntaxNode,
) -> syntax.Loop:
    return syntax.Loop(position, form, items, variables, RESULT, initial, condition, step, _make_result(position))


def _make_binding(
    position: syntax.TextPosition, name: str, value: syntax.SyntaxNode, body: syntax.SyntaxNode
) -> syntax.Loop:
    return syntax.Loop(
        position,
        "bind",
        syntax.ListLiteral(position, []),
        (_UNUSED,),
        name,
        value,
        syntax.Literal(position, False),  # noqa: FBT003
        syntax.Name(position, name),
        body,
    )


def _expand_bind(position: syntax.TextPosition, arguments: list[syntax.SyntaxNode]) -> syntax.SyntaxNode:
    name = arguments[0]
    if not isinstance(name, syntax.Name) or "." in name.text:
        raise syntax.ExpressionError("cel.bind() variable names must be simple identifiers", name.position)
    return _make_binding(position, name.text, arguments[1], arguments[2])


def _build_quantifier(
    position: syntax.TextPosition,
    items: syntax.SyntaxNode,
    names: tuple[str, ...],
    predicate: syntax.SyntaxNode,
    *,
    is_all: bool,
) -> syntax.SyntaxNode:
    result = _make_result(position)
    tested = result if is_all else syntax.Call(position, "!_", [result])
    condition = syntax.Call(position, "@not_strictly_false", [tested])
    step = syntax.Call(position, "_&&_" if is_all else "_||_", [_make_result(position), predicate])
    form = "all" if is_all else "exists"
    loop = _make_loop(form, position, items, names, syntax.Literal(position, is_all), condition, step)
    loop.predicates = [predicate]
    return loop


def _build_exists_one(
    position: syntax.TextPosition, items: syntax.SyntaxNode, names: tuple[str, ...], predicate: syntax.SyntaxNode
) -> syntax.SyntaxNode:
    one_more = syntax.Call(position, "_+_", [_make_result(position), syntax.Literal(position, 1)])
    step = syntax.Call(position, "_?_:_", [predicate, one_more, _make_result(position)])
    loop = _make_loop("one", position, items, names, syntax.Literal(position, 0), _make_true(position), step)
    loop.predicates = [predicate]
    loop.outcome = syntax.Call(position, "_==_", [_make_result(position), syntax.Literal(position, 1)])
    return loop


def _make_true(position: syntax.TextPosition) -> syntax.SyntaxNode:
    return syntax.Literal(position, True)  # noqa: FBT003


def _filter_step(
    position: syntax.TextPosition, step: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    """Return a step that is done only where the one argument, if there is one, is true."""
    return syntax.Call(position, "_?_:_", [arguments[0], step, _make_result(position)]) if arguments else step


def _build_list(
    position: syntax.TextPosition,
    items: syntax.SyntaxNode,
    names: tuple[str, ...],
    transform: syntax.SyntaxNode,
    predicates: list[syntax.SyntaxNode],
) -> syntax.SyntaxNode:
    added = syntax.Call(position, "_+_", [_make_result(position), syntax.ListLiteral(position, [transform])])
    step = _filter_step(position, added, predicates)
    loop = _make_loop("list", position, items, names, syntax.ListLiteral(position, []), _make_true(position), step)
    loop.predicates = predicates
    loop.parts = [transform]
    return loop


def _expand_all(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_quantifier(position, target, (_read_variable(arguments[0]),), arguments[1], is_all=True)


def _expand_exists(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_quantifier(position, target, (_read_variable(arguments[0]),), arguments[1], is_all=False)


def _expand_exists_one(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_exists_one(position, target, (_read_variable(arguments[0]),), arguments[1])


def _expand_map(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    name, *predicates, transform = arguments
    return _build_list(position, target, (_read_variable(name),), transform, predicates)


def _expand_filter(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    name, predicate = arguments
    return _build_list(position, target, (_read_variable(name),), copy.deepcopy(name), [predicate])


def _expand_all_pairs(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_quantifier(position, target, _read_pair(arguments), arguments[2], is_all=True)


def _expand_exists_pairs(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_quantifier(position, target, _read_pair(arguments), arguments[2], is_all=False)


def _expand_exists_one_pair(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_exists_one(position, target, _read_pair(arguments), arguments[2])


def _expand_transform_list(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    *predicates, transform = arguments[2:]
    return _build_list(position, target, _read_pair(arguments), transform, predicates)


def _expand_transform_map(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    names = _read_pair(arguments)
    return _build_map(position, target, names, [syntax.Name(position, names[0]), arguments[-1]], arguments[2:-1])


def _expand_transform_entry(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    return _build_map(position, target, _read_pair(arguments), [arguments[-1]], arguments[2:-1])


def _build_map(
    position: syntax.TextPosition,
    items: syntax.SyntaxNode,
    names: tuple[str, ...],
    parts: list[syntax.SyntaxNode],
    predicates: list[syntax.SyntaxNode],
) -> syntax.SyntaxNode:
    inserted = syntax.Call(position, "cel.@mapInsert", [_make_result(position), *parts])
    step = _filter_step(position, inserted, predicates)
    loop = _make_loop("map", position, items, names, syntax.MapLiteral(position, []), _make_true(position), step)
    loop.predicates = predicates
    loop.parts = parts
    return loop


def _build_optional(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode], *, is_flat: bool
) -> syntax.SyntaxNode:
    """Return the expansion of `optMap` and `optFlatMap`: the body for the value, if the target has one."""
    name, body = arguments
    if not isinstance(name, syntax.Name) or "." in name.text:
        raise syntax.ExpressionError("variable name must be a simple identifier", name.position)
    value = syntax.Call(position, "value", [], _copy(target))
    mapped: syntax.SyntaxNode = _make_binding(position, name.text, value, body)
    if not is_flat:
        mapped = syntax.Call(position, "optional.of", [mapped])
    nothing = syntax.Call(position, "optional.none", [])
    return syntax.Call(position, "_?_:_", [syntax.Call(position, "hasValue", [], target), mapped, nothing])


def _copy(root: syntax.SyntaxNode) -> syntax.SyntaxNode:
    """Return a copy of a node; expansions within expansions must not double it without end."""
    nodes = [root]
    count = 0
    while nodes:
        nodes.extend(syntax.list_children(nodes.pop()))
        count += 1
        if count > _MAX_COPIED_NODES:
            message = f"a macro for an operand of more than {_MAX_COPIED_NODES} operations is not supported"
            raise syntax.ExpressionError(message, root.position, is_unsupported=True)
    return copy.deepcopy(root)


def _expand_sort_by(
    position: syntax.TextPosition, target: syntax.SyntaxNode, arguments: list[syntax.SyntaxNode]
) -> syntax.SyntaxNode:
    if isinstance(target, syntax.Literal | syntax.MapLiteral):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise syntax.ExpressionError(message, target.position)
    keys = _expand_map(position, syntax.Name(position, _INPUT), arguments)
    body = syntax.Call(position, "@sortByAssociatedKeys", [keys], syntax.Name(position, _INPUT))
    return _make_binding(position, _INPUT, target, body)


_MACROS: Mapping[
    tuple[str, int], Callable[[syntax.TextPosition, syntax.SyntaxNode, list[syntax.SyntaxNode]], syntax.SyntaxNode]
] = {
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
    ("optFlatMap", 2): lambda position, target, arguments: _build_optional(position, target, arguments, is_flat=True),
    ("optMap", 2): lambda position, target, arguments: _build_optional(position, target, arguments, is_flat=False),
    ("sortBy", 2): _expand_sort_by,
    ("transformList", 3): _expand_transform_list,
    ("transformList", 4): _expand_transform_list,
    ("transformMap", 3): _expand_transform_map,
    ("transformMap", 4): _expand_transform_map,
    ("transformMapEntry", 3): _expand_transform_entry,
    ("transformMapEntry", 4): _expand_transform_entry,
}
