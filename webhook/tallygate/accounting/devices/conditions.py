"""The conditions of a selector: its parts that `&&` joins, and the comparison that a part makes, by its syntax tree.

A comparison is one of a field of the device with constants: an attribute, a capacity, or its driver. Other conditions
have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tallygate.accounting.cel import syntax
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.semantic_version import SemanticVersion, parse_version
from tallygate.accounting.cel.tokens import Token, scan_tokens
from tallygate.accounting.devices.device_values import AttributeValue, Device
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError

ATTRIBUTES: Final = "attributes"
CAPACITY: Final = "capacity"
DRIVER: Final = "driver"
_MULTIPLE: Final = "allowMultipleAllocations"

_OPERATORS: Final = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_METHODS: Final = {"isGreaterThan": ">", "isLessThan": "<"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class FieldValue(NamedTuple):
    """A constant, or a value of a field: `order` compares it with others of its type."""

    order: object
    text: str


class DeviceField(NamedTuple):
    """A field of the variable `device`: `group` is its first name; an attribute and a capacity have domain and name."""

    group: str
    domain: str = ""
    name: str = ""

    def list_values(self, device: Device) -> Iterator[FieldValue]:
        """Yield the value of a device, or each element of a list.

        Raises:
            QuantityError: if a capacity is no quantity.
        """
        if self.group == DRIVER:
            yield FieldValue(device.driver, device.driver)
        elif self.group == _MULTIPLE:
            yield _create_bool(bool(device.allow_multiple_allocations))
        for name in self._list_spellings(device.driver):
            if self.group == ATTRIBUTES and name in device.attributes:
                yield from _list_attribute_values(device.attributes[name])
            elif self.group == CAPACITY and name in device.capacity:
                quantity = Quantity.from_json(device.capacity[name].value)
                yield FieldValue(quantity, quantity.text)

    def list_names(self, device: Device) -> Iterator[str]:
        """Yield the names of the attributes or capacities that a device has in the domain."""
        names = device.attributes if self.group == ATTRIBUTES else device.capacity if self.group == CAPACITY else ()
        for attribute in names:
            domain, slash, name = attribute.partition("/")
            if (domain if slash else device.driver) == self.domain:
                yield name if slash else attribute

    def _list_spellings(self, driver: str) -> tuple[str, ...]:
        full_name = f"{self.domain}/{self.name}"
        return (full_name, self.name) if self.domain == driver else (full_name,)


class Comparison(NamedTuple):
    """A field, an operator of the language, `in` or `has`, and what the field is compared with."""

    field: DeviceField
    operator: str
    constants: tuple[FieldValue, ...] = ()


def split_conditions(text: str) -> list[str]:
    """Return the parts of an expression that `&&` joins, also those within brackets; itself if there is one part.

    Raises:
        ExpressionError: if the text is no expression.
    """
    root = parse_expression(text)
    if not (isinstance(root, syntax.Call) and root.function == "_&&_"):
        return [text]
    tokens, locate = list(scan_tokens(text))[:-1], _Offsets(text).locate
    places = list(_find_joints(tokens))
    if not places:  # brackets around everything
        return split_conditions(text[locate(tokens[0]) + 1 : locate(tokens[-1])])
    starts = [0, *(locate(place) + len(place.text) for place in places)]
    ends = [*map(locate, places), len(text)]
    parts = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return [condition for part in parts for condition in split_conditions(part)]


def find_comparison(text: str) -> Comparison | None:
    """Return the comparison that an expression makes, None if it makes another one or several.

    Raises:
        ExpressionError: if the text is no expression.
    """
    return _read_comparison(parse_expression(text))


class _Offsets:
    """The offsets of the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def locate(self, token: Token) -> int:
        return self._line_starts[token.position.line - 1] + token.position.column - 1


def _find_joints(tokens: list[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        if token.form == "sign":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if token.text == "&&" and not depth:
                yield token


def _read_comparison(node: syntax.SyntaxNode) -> Comparison | None:
    match node:
        case syntax.Select(is_test=True):
            field = _read_field(syntax.Select(node.position, node.operand, node.field))
            return None if field is None else Comparison(field, "has")
        case syntax.Call(function="!_", arguments=[negated]):
            if (field := _read_field(negated)) is not None:
                return Comparison(field, "==", (_create_bool(value=False),))
            found = _read_comparison(negated)
            operator = _NEGATED.get(found.operator) if found is not None else None
            return None if found is None or operator is None else found._replace(operator=operator)
        case syntax.Call(function="@in", arguments=[item, syntax.ListLiteral() as listed]) if (
            not listed.optional_places
        ):
            field, constants = _read_field(item), [_read_constant(element) for element in listed.elements]
            known = tuple(constant for constant in constants if constant is not None)
            complete = field is not None and known and len(known) == len(constants)
            return Comparison(field, "in", known) if field is not None and complete else None
        case syntax.Call(target=syntax.SyntaxNode() as target, arguments=[argument]) if node.function in _METHODS:
            return _compare(target, _METHODS[node.function], argument)
        case syntax.Call(arguments=[left, right], target=None) if node.function in _OPERATORS:
            operator = _OPERATORS[node.function]
            return _compare_both(left, operator, right) or _compare_both(right, _FLIPPED.get(operator, operator), left)
    field = _read_field(node)
    return None if field is None else Comparison(field, "==", (_create_bool(value=True),))


def _compare_both(left: syntax.SyntaxNode, operator: str, right: syntax.SyntaxNode) -> Comparison | None:
    """Return the comparison of a field on the left side, which may be `field.compareTo(constant) OPERATOR 0`."""
    match left, right:
        case syntax.Call(
            function="compareTo", target=syntax.SyntaxNode() as target, arguments=[argument]
        ), syntax.Literal(value=0):
            return _compare(target, operator, argument)
    return _compare(left, operator, right)


def _compare(left: syntax.SyntaxNode, operator: str, right: syntax.SyntaxNode) -> Comparison | None:
    field, constant = _read_field(left), _read_constant(right)
    return None if field is None or constant is None else Comparison(field, operator, (constant,))


def _read_field(node: syntax.SyntaxNode) -> DeviceField | None:
    """Return the field that a node reads; a default for a missing one, by `.?` and `orValue`, is left out."""
    match node:
        case syntax.Select(
            operand=syntax.Name(text="device"), field="driver" | "allowMultipleAllocations", is_test=False
        ):
            return DeviceField(node.field)
        case syntax.Call(
            function="orValue", target=syntax.Call(function="_?._" | "_[?_]") as optional, arguments=[syntax.Literal()]
        ):
            return _read_field(optional)
        case syntax.Select(is_test=False):
            return _read_member(node.operand, node.field)
        case syntax.Call(function="_[_]" | "_?._" | "_[?_]", arguments=[operand, syntax.Literal(value=str() as name)]):
            return _read_member(operand, name)
    return None


def _read_member(operand: syntax.SyntaxNode, name: str) -> DeviceField | None:
    match operand:
        case syntax.Call(
            function="_[_]" | "_[?_]",
            arguments=[
                syntax.Select(
                    operand=syntax.Name(text="device"), field="attributes" | "capacity" as group, is_test=False
                ),
                syntax.Literal(value=str() as domain),
            ],
        ):
            return DeviceField(group, domain, name)
    return None


def _read_constant(node: syntax.SyntaxNode) -> FieldValue | None:
    match node:
        case syntax.Literal(value=bool() as truth):
            return _create_bool(truth)
        case syntax.Literal(value=int() | str() as value):
            return FieldValue(value, str(value))
        case syntax.Call(function="quantity", arguments=[syntax.Literal(value=str() as text)], target=None):
            try:
                return FieldValue(Quantity.parse(text), text)
            except QuantityError:
                return None
        case syntax.Call(function="semver", arguments=[syntax.Literal(value=str() as text)], target=None):
            return _create_version(text)
    return None


def _list_attribute_values(attribute: AttributeValue) -> Iterator[FieldValue]:
    integers = (attribute.integer,) if attribute.integer is not None else attribute.ints or ()
    yield from (FieldValue(integer, str(integer)) for integer in integers)
    truths = (attribute.boolean,) if attribute.boolean is not None else attribute.bools or ()
    yield from map(_create_bool, truths)
    texts = (attribute.text,) if attribute.text is not None else attribute.strings or ()
    yield from (FieldValue(text, text) for text in texts)
    versions = (attribute.version,) if attribute.version is not None else attribute.versions or ()
    yield from filter(None, map(_create_version, versions))


def _create_bool(value: bool) -> FieldValue:  # noqa: FBT001  # the value itself
    return FieldValue(value, "true" if value else "false")


def _create_version(text: str) -> FieldValue | None:
    version: SemanticVersion | None = parse_version(text)
    return None if version is None else FieldValue(version, text)
