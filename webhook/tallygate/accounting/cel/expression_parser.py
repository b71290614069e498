"""Text to a syntax tree in which macros are expanded (parser/gen/CEL.g4, parser/parser.go of cel-go)."""

from __future__ import annotations

from typing import Final

from tallygate.accounting.cel.macros import expand_has, expand_method
from tallygate.accounting.cel.runtime_values import Uint
from tallygate.accounting.cel.syntax import (
    Call,
    ExpressionError,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Name,
    Select,
    SyntaxNode,
    TextPosition,
    list_children,
)
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


def parse_expression(text: str) -> SyntaxNode:
    """Parse an expression.

    Raises:
        ExpressionError: if the text is no expression, is too long, or has more levels than are supported.
    """
    if len(text.encode()) > MAX_BYTES:
        raise ExpressionError(f"the expression is longer than {MAX_BYTES} bytes", TextPosition(1, 1))
    return _Parser(list(scan_tokens(text))).parse()


class _Parser:
    """A parser by recursive descent; `_next` is the token that comes next."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._levels = 0
        self._next = tokens[0]

    def parse(self) -> SyntaxNode:
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

    def _describe_unexpected(self, expected: str = "") -> ExpressionError:
        found = "the end" if self._next.form == "end" else repr(self._next.text)
        wanted = f", expected {expected}" if expected else ""
        return ExpressionError(f"syntax error: unexpected {found}{wanted}", self._next.position)

    def _parse_expression(self) -> SyntaxNode:
        self._levels += 1
        if self._levels > _MAX_LEVELS:
            message = f"more than {_MAX_LEVELS} levels of brackets are not supported"
            raise ExpressionError(message, self._next.position, is_unsupported=True)
        node = self._parse_operation(0)
        if self._is_sign("?"):
            position = self._take().position
            accepted = self._parse_operation(0)
            self._expect(":")
            node = Call(position, "_?_:_", [node, accepted, self._parse_expression()])
        self._levels -= 1
        return node

    def _parse_operation(self, rank: int) -> SyntaxNode:
        """Parse operands that are joined by operators of this rank or a higher one, from left to right."""
        node = self._parse_unary()
        joined: Call | None = None  # a logical operator with as many terms as follow each other
        while self._next.form == "sign" and (found := _RANKS.get(self._next.text, -1)) >= rank:
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            operand = self._parse_operation(found + 1)
            if joined is not None and joined.function == name and operator.text in _LOGICAL:
                joined.arguments.append(operand)
            else:
                node = joined = Call(operator.position, name, [node, operand])
        return node

    def _parse_unary(self) -> SyntaxNode:
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
        return Call(sign.position, "!_" if sign.text == "!" else "-_", [node])

    def _is_negative_number(self, count: int) -> bool:
        """Return whether the next sign belongs to a number: only one without further signs before it does."""
        following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        is_first = count == 0 or self._tokens[self._place - 1].text == "!"
        return self._next.text == "-" and is_first and following.form in {"int", "double"}

    def _parse_member(self) -> SyntaxNode:
        node = self._parse_primary()
        while True:
            if self._is_sign("."):
                node = self._parse_select(node)
            elif self._is_sign("["):
                position = self._take().position
                operator = "_[?_]" if self._skip("?") else "_[_]"
                node = Call(position, operator, [node, self._parse_expression()])
                self._expect("]")
            elif self._is_sign("{"):
                message = "values of message types are not supported"
                raise ExpressionError(message, self._next.position, is_unsupported=True)
            else:
                return node

    def _parse_select(self, operand: SyntaxNode) -> SyntaxNode:
        dot = self._take()
        if self._skip("?"):
            name = self._expect_name()
            return Call(dot.position, "_?._", [operand, Literal(name.position, name.text)])
        name = self._expect_name()
        if not self._is_sign("("):
            return Select(dot.position, operand, name.text)
        position = self._next.position
        return expand_method(position, operand, name.text, self._parse_arguments())

    def _parse_arguments(self) -> list[SyntaxNode]:
        self._expect("(")
        arguments: list[SyntaxNode] = []
        if not self._is_sign(")"):
            arguments.append(self._parse_expression())
            while self._skip(","):
                arguments.append(self._parse_expression())
        self._expect(")")
        return arguments

    def _parse_primary(self) -> SyntaxNode:
        token = self._next
        if token.form in {"name", "sign"} and (token.form == "name" or token.text == "."):
            return self._parse_name()
        if token.form == "sign":
            return self._parse_group()
        return self._parse_literal()

    def _parse_name(self) -> SyntaxNode:
        prefix = "." if self._skip(".") else ""
        name = self._expect_name()
        if name.text in _RESERVED:
            raise ExpressionError(f"reserved identifier: {name.text}", name.position)
        if not self._is_sign("("):
            return Name(name.position, prefix + name.text)
        position = self._next.position
        arguments = self._parse_arguments()
        if prefix + name.text == "has" and len(arguments) == 1:
            return expand_has(position, arguments[0])
        return Call(position, prefix + name.text, arguments)

    def _parse_group(self) -> SyntaxNode:
        if self._is_sign(*_CONSTANTS):
            token = self._take()
            return Literal(token.position, _CONSTANTS[token.text])
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

    def _parse_literal(self) -> SyntaxNode:
        position = self._next.position
        sign = self._take().text if self._is_sign("-") else ""
        token = self._next
        if token.form == "end" or (sign and token.form not in {"int", "double"}):
            raise self._describe_unexpected()
        self._take()
        if token.form == "int":
            return Literal(position, read_int(sign + token.text, position))
        if token.form == "double":
            return Literal(position, read_double(sign + token.text, position))
        if token.form == "uint":
            return Literal(position, Uint(read_uint(token.text, position)))
        return Literal(position, read_string(token) if token.form == "string" else read_bytes(token))

    def _parse_list(self) -> SyntaxNode:
        position = self._take().position
        elements: list[SyntaxNode] = []
        optional: set[int] = set()
        while not self._is_end_of_literal("]", len(elements)):
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self._parse_expression())
            if not self._skip(","):
                break
        self._expect("]")
        return ListLiteral(position, elements, frozenset(optional))

    def _parse_map(self) -> SyntaxNode:
        position = self._take().position
        entries: list[MapEntry] = []
        while not self._is_end_of_literal("}", len(entries)):
            is_optional = self._skip("?")
            key = self._parse_expression()
            self._expect(":")
            entries.append(MapEntry(key, self._parse_expression(), is_optional))
            if not self._skip(","):
                break
        self._expect("}")
        return MapLiteral(position, entries)

    def _is_end_of_literal(self, end: str, count: int) -> bool:
        """Return whether a list or a map ends here; an empty one can have a comma."""
        return self._is_sign(end) or (count == 0 and self._skip(","))


def _check_depth(root: SyntaxNode) -> None:
    """Check that no part of an expression is nested so deeply that its evaluation could exhaust the stack."""
    nodes = [(root, 1)]
    while nodes:
        node, depth = nodes.pop()
        if depth > _MAX_DEPTH:
            message = f"the expression nests more than {_MAX_DEPTH} operations, which is not supported"
            raise ExpressionError(message, node.position, is_unsupported=True)
        nodes.extend((child, depth + 1) for child in list_children(node))
