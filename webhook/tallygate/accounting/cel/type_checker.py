"""Types for the nodes of a syntax tree, and the mistakes that they show (checker/checker.go, cel/validator.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallygate.accounting.cel.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    CelType,
    Substitutions,
    are_equivalent,
    assign_all,
    choose_most_general,
    is_struct,
    make_list,
    make_map,
    make_optional,
    substitute,
)
from tallygate.accounting.cel.declarations import FUNCTIONS, UNSUPPORTED, Overload
from tallygate.accounting.cel.runtime_values import Uint
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
    list_children,
)

_SIGNATURE_TYPES = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
TYPE_NAMES: Final = frozenset(
    ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "optional_type")
)
"""The types that an expression can name."""

_PACKAGES = {"google", "kubernetes", "net"}  # their types are not supported as names

Fields = Mapping[str, Mapping[str, CelType]]
"""The fields of each type that has fields."""


def check_types(root: SyntaxNode, variables: Mapping[str, CelType], fields: Fields) -> CelType:
    """Set the type of every node, and return that of the expression.

    Raises:
        ExpressionError: at the first mistake.
    """
    checker = _Checker(variables, fields)
    checker.check(root)
    nodes = [root]
    while nodes:
        node = nodes.pop()
        node.kind = substitute(checker.substitutions, node.kind, is_final=True)
        nodes.extend(list_children(node))
    _check_literals(root)
    return root.kind


class _Checker:
    """The state of a check: the types of names in scope, and the types that stand for type parameters."""

    def __init__(self, variables: Mapping[str, CelType], fields: Fields) -> None:
        self.substitutions: Substitutions = {}
        self._scopes = [dict(variables)]
        self._fields = fields
        self._count = 0

    def check(self, node: SyntaxNode) -> CelType:
        """Set and return the type of a node."""
        match node:
            case Literal():
                node.kind = _SIGNATURE_TYPES[type(node.value)]
            case Name():
                node.kind = self._find_name(node)
            case Select():
                kind = self._check_field(node, node.operand, node.field, is_optional=False)
                node.kind = BOOL if node.is_test else self._resolve(kind)
            case Call():
                node.kind = self._check_call(node)
            case ListLiteral():
                node.kind = self._check_list(node)
            case MapLiteral():
                node.kind = self._check_map(node)
            case Loop():
                node.kind = self._check_loop(node)
        return node.kind

    def _resolve(self, kind: CelType) -> CelType:
        return substitute(self.substitutions, kind, is_final=False)

    def _make_parameter(self) -> CelType:
        self._count += 1
        return CelType(f"$_{self._count}")

    def _is_assignable(self, source: CelType, target: CelType) -> bool:
        changed = assign_all(self.substitutions, (source,), (target,))
        if changed is None:
            return False
        self.substitutions = changed
        return True

    def _require(self, node: SyntaxNode, wanted: CelType, found: CelType) -> None:
        if not self._is_assignable(wanted, found):
            raise _describe_mismatch(node, wanted, found)

    def _find_name(self, node: Name) -> CelType:
        text = node.text.removeprefix(".")
        for scope in reversed(self._scopes):
            if text in scope:
                if text != node.text and scope is not self._scopes[0]:
                    message = f"{node.text}: a leading dot before the name of a local variable is not supported"
                    raise ExpressionError(message, node.position, is_unsupported=True)
                node.text = text
                return scope[text]
        if text in TYPE_NAMES:
            node.text = text
            return CelType("type", (CelType(text),))
        message = f"undeclared reference to '{text}' (in container '')"
        raise ExpressionError(message, node.position, is_unsupported=text in _PACKAGES)

    def _check_field(self, node: SyntaxNode, operand: SyntaxNode, name: str, *, is_optional: bool) -> CelType:
        """Return the type of a field (checkSelectField)."""
        kind = self._resolve(self.check(operand))
        is_wrapped = kind.name == "optional_type"
        target = kind.parameters[0] if is_wrapped else kind
        result = DYN
        if target.name == "map":
            result = target.parameters[1]
        elif is_struct(target):
            found = self._fields.get(target.name, {}).get(name)
            if found is None:
                raise ExpressionError(f"undefined field '{name}'", node.position)
            result = found
        elif target.is_parameter:
            self._is_assignable(DYN, target)
        elif target != DYN:
            raise ExpressionError(f"type '{target}' does not support field selection", node.position)
        return make_optional(result) if is_wrapped or is_optional else result

    def _check_call(self, node: Call) -> CelType:
        if node.function == "_?._":
            operand, name = node.arguments
            self.check(name)
            text = name.value if isinstance(name, Literal) else ""
            return self._resolve(self._check_field(node, operand, str(text), is_optional=True))
        kinds = [self.check(argument) for argument in node.arguments]
        target = node.target
        if target is not None:
            qualified = f"{target.text}.{node.function}".removeprefix(".") if isinstance(target, Name) else ""
            if qualified in FUNCTIONS or qualified in UNSUPPORTED:
                node.function, node.target = qualified, None
            else:
                kinds.insert(0, self.check(target))
        node.function = node.function.removeprefix(".")
        overloads = FUNCTIONS.get(node.function, ())
        if node.function in UNSUPPORTED:
            message = f"the function '{node.function}' is not supported"
            raise ExpressionError(message, node.position, is_unsupported=True)
        if not overloads:
            raise ExpressionError(f"undeclared reference to '{node.function}' (in container '')", node.position)
        return self._resolve_overload(node, overloads, tuple(kinds))

    def _resolve_overload(self, node: Call, overloads: tuple[Overload, ...], kinds: tuple[CelType, ...]) -> CelType:
        """Return the type of the result of all overloads that match: dyn if they differ (resolveOverload)."""
        if node.function in {"_&&_", "_||_"}:
            for argument, kind in zip(node.arguments, kinds, strict=True):
                if not self._is_assignable(kind, BOOL):
                    raise _describe_mismatch(argument, BOOL, kind)
            return BOOL
        result: CelType | None = None
        matching: list[Overload] = []
        for overload in overloads:
            if overload.is_method != (node.target is not None):
                continue
            fresh = {parameter: self._make_parameter() for parameter in overload.type_parameters}
            parameters = tuple(substitute(fresh, parameter, is_final=False) for parameter in overload.parameters)
            changed = assign_all(self.substitutions, kinds, parameters)
            if changed is None:
                continue
            self.substitutions = changed
            matching.append(overload)
            found = self._resolve(substitute(fresh, overload.result, is_final=False))
            if result is None:
                result = found
            elif result not in (DYN, found):
                result = DYN
        if result is None:
            raise self._describe_no_overload(node, kinds)
        node.overload = matching[0].parameters if len(matching) == 1 else None
        return result

    def _describe_no_overload(self, node: Call, kinds: tuple[CelType, ...]) -> ExpressionError:
        names = [str(substitute(self.substitutions, kind, is_final=True)) for kind in kinds]
        form = f"{names[0]}.({', '.join(names[1:])})" if node.target is not None else f"({', '.join(names)})"
        return ExpressionError(f"found no matching overload for '{node.function}' applied to '{form}'", node.position)

    def _check_list(self, node: ListLiteral) -> CelType:
        joined: CelType | None = None
        for place, element in enumerate(node.elements):
            kind = self.check(element)
            joined = self._join(joined, _unwrap(element, kind) if place in node.optional_places else kind)
        return make_list(joined or self._make_parameter())

    def _check_map(self, node: MapLiteral) -> CelType:
        key_kind: CelType | None = None
        value_kind: CelType | None = None
        for entry in node.entries:
            key_kind = self._join(key_kind, self.check(entry.key))
            kind = self.check(entry.value)
            value_kind = self._join(value_kind, _unwrap(entry.value, kind) if entry.is_optional else kind)
        if key_kind is None or value_kind is None:
            key_kind, value_kind = self._make_parameter(), self._make_parameter()
        return make_map(key_kind, value_kind)

    def _join(self, previous: CelType | None, current: CelType) -> CelType:
        """Return the more general of two types of elements, or dyn: then `_check_literals` finds the mistake."""
        if previous is None:
            return current
        return choose_most_general(previous, current) if self._is_assignable(previous, current) else DYN

    def _check_loop(self, node: Loop) -> CelType:
        self.check(node.items)
        result_kind = self.check(node.initial)
        items_kind = self._resolve(node.items.kind)
        kinds = self._list_variable_kinds(node, items_kind)
        self._scopes.append({node.result_name: result_kind})
        self._scopes.append(dict(zip(node.variables, kinds, strict=True)))
        self._require(node.condition, BOOL, self.check(node.condition))
        self._require(node.step, result_kind, self.check(node.step))
        self._scopes.pop()
        self.check(node.outcome)
        self._scopes.pop()
        return self._resolve(node.outcome.kind)

    def _list_variable_kinds(self, node: Loop, items_kind: CelType) -> list[CelType]:
        """Return the types of the variables of a loop."""
        is_pair = len(node.variables) > 1
        if items_kind.name == "list":
            return [INT, items_kind.parameters[0]] if is_pair else [items_kind.parameters[0]]
        if items_kind.name == "map":
            return list(items_kind.parameters[: len(node.variables)])
        if items_kind == DYN or items_kind.is_parameter:
            self._is_assignable(DYN, items_kind)
            return [DYN] * len(node.variables)
        message = (
            f"expression of type '{items_kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )
        raise ExpressionError(message, node.items.position)


def _unwrap(node: SyntaxNode, kind: CelType) -> CelType:
    """Return the type of the value of an optional element."""
    if kind.name == "optional_type":
        return kind.parameters[0]
    if kind != DYN:
        raise _describe_mismatch(node, make_optional(kind), kind)
    return kind


def _describe_mismatch(node: SyntaxNode, wanted: CelType, found: CelType) -> ExpressionError:
    return ExpressionError(f"expected type '{wanted}' but found '{found}'", node.position)


def _check_literals(root: SyntaxNode) -> None:
    """Check that the elements of each list and map have one type: dyn is another one than int (validator.go)."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes.extend(list_children(node))
        if isinstance(node, ListLiteral):
            _check_same_kind(node.elements, [place in node.optional_places for place in range(len(node.elements))])
        elif isinstance(node, MapLiteral):
            _check_same_kind([entry.key for entry in node.entries], [False] * len(node.entries))
            _check_same_kind([entry.value for entry in node.entries], [entry.is_optional for entry in node.entries])


def _check_same_kind(nodes: list[SyntaxNode], optional: list[bool]) -> None:
    """Check that nodes have one type, where that of an optional one is the type of its value."""
    kinds = []
    for node, is_optional in zip(nodes, optional, strict=True):
        if is_optional and not node.kind.parameters:  # cel-go panics
            raise ExpressionError(f"an optional element of type '{node.kind}' has no type of its value", node.position)
        kinds.append(node.kind.parameters[0] if is_optional else node.kind)
    for node, kind in zip(nodes, kinds, strict=True):
        if not are_equivalent(kinds[0], kind):
            raise _describe_mismatch(node, kinds[0], kind)
