"""Types for the nodes of a syntax tree, and the mistakes that they show (checker/checker.go, cel/validator.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallygate.accounting.cel import cel_types, syntax
from tallygate.accounting.cel.declarations import FUNCTIONS, UNSUPPORTED, Overload
from tallygate.accounting.cel.runtime_values import Uint

_SIGNATURE_TYPES = {
    bool: cel_types.BOOL,
    int: cel_types.INT,
    Uint: cel_types.UINT,
    float: cel_types.DOUBLE,
    str: cel_types.STRING,
    bytes: cel_types.BYTES,
    type(None): cel_types.NULL,
}
TYPE_NAMES: Final = frozenset(
    ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "optional_type")
)
"""The types that an expression can name."""

_PACKAGES = {"google", "kubernetes", "net"}  # their types are not supported as names

Fields = Mapping[str, Mapping[str, cel_types.CelType]]
"""The fields of each type that has fields."""


def check_types(
    root: syntax.SyntaxNode, variables: Mapping[str, cel_types.CelType], fields: Fields
) -> cel_types.CelType:
    """Set the type of every node, and return that of the expression.

    Raises:
        ExpressionError: at the first mistake.
    """
    checker = _Checker(variables, fields)
    checker.check(root)
    nodes = [root]
    while nodes:
        node = nodes.pop()
        node.kind = cel_types.substitute(checker.substitutions, node.kind, is_final=True)
        nodes.extend(syntax.list_children(node))
    _check_literals(root)
    return root.kind


class _Checker:
    """The state of a check: the types of names in scope, and the types that stand for type parameters."""

    def __init__(self, variables: Mapping[str, cel_types.CelType], fields: Fields) -> None:
        self.substitutions: cel_types.Substitutions = {}
        self._scopes = [dict(variables)]
        self._fields = fields
        self._count = 0

    def check(self, node: syntax.SyntaxNode) -> cel_types.CelType:
        match node:
            case syntax.Literal():
                node.kind = _SIGNATURE_TYPES[type(node.value)]
            case syntax.Name():
                node.kind = self._find_name(node)
            case syntax.Select():
                kind = self._check_field(node, node.operand, node.field, is_optional=False)
                node.kind = cel_types.BOOL if node.is_test else self._resolve(kind)
            case syntax.Call():
                node.kind = self._check_call(node)
            case syntax.ListLiteral():
                node.kind = self._check_list(node)
            case syntax.MapLiteral():
                node.kind = self._check_map(node)
            case syntax.Loop():
                node.kind = self._check_loop(node)
        return node.kind

    def _resolve(self, kind: cel_types.CelType) -> cel_types.CelType:
        return cel_types.substitute(self.substitutions, kind, is_final=False)

    def _make_parameter(self) -> cel_types.CelType:
        self._count += 1
        return cel_types.CelType(f"$_{self._count}")

    def _is_assignable(self, source: cel_types.CelType, target: cel_types.CelType) -> bool:
        changed = cel_types.assign_all(self.substitutions, (source,), (target,))
        if changed is None:
            return False
        self.substitutions = changed
        return True

    def _require(self, node: syntax.SyntaxNode, wanted: cel_types.CelType, found: cel_types.CelType) -> None:
        if not self._is_assignable(wanted, found):
            raise _describe_mismatch(node, wanted, found)

    def _find_name(self, node: syntax.Name) -> cel_types.CelType:
        text = node.text.removeprefix(".")
        for scope in reversed(self._scopes):
            if text in scope:
                if text != node.text and scope is not self._scopes[0]:
                    message = f"{node.text}: a leading dot before the name of a local variable is not supported"
                    raise syntax.ExpressionError(message, node.position, is_unsupported=True)
                node.text = text
                return scope[text]
        if text in TYPE_NAMES:
            node.text = text
            return cel_types.CelType("type", (cel_types.CelType(text),))
        message = f"undeclared reference to '{text}' (in container '')"
        raise syntax.ExpressionError(message, node.position, is_unsupported=text in _PACKAGES)

    def _check_field(
        self, node: syntax.SyntaxNode, operand: syntax.SyntaxNode, name: str, *, is_optional: bool
    ) -> cel_types.CelType:
        """Return the type of a field (checkSelectField)."""
        kind = self._resolve(self.check(operand))
        is_wrapped = kind.name == "optional_type"
        target = kind.parameters[0] if is_wrapped else kind
        result = cel_types.DYN
        if target.name == "map":
            result = target.parameters[1]
        elif cel_types.is_struct(target):
            found = self._fields.get(target.name, {}).get(name)
            if found is None:
                raise syntax.ExpressionError(f"undefined field '{name}'", node.position)
            result = found
        elif target.is_parameter:
            self._is_assignable(cel_types.DYN, target)
        elif target != cel_types.DYN:
            raise syntax.ExpressionError(f"type '{target}' does not support field selection", node.position)
        return cel_types.make_optional(result) if is_wrapped or is_optional else result

    def _check_call(self, node: syntax.Call) -> cel_types.CelType:
        if node.function == "_?._":
            operand, name = node.arguments
            self.check(name)
            text = name.value if isinstance(name, syntax.Literal) else ""
            return self._resolve(self._check_field(node, operand, str(text), is_optional=True))
        kinds = [self.check(argument) for argument in node.arguments]
        target = node.target
        if target is not None:
            qualified = f"{target.text}.{node.function}".removeprefix(".") if isinstance(target, syntax.Name) else ""
            if qualified in FUNCTIONS or qualified in UNSUPPORTED:
                node.function, node.target = qualified, None
            else:
                kinds.insert(0, self.check(target))
        node.function = node.function.removeprefix(".")
        overloads = FUNCTIONS.get(node.function, ())
        if node.function in UNSUPPORTED:
            message = f"the function '{node.function}' is not supported"
            raise syntax.ExpressionError(message, node.position, is_unsupported=True)
        if not overloads:
            raise syntax.ExpressionError(f"undeclared reference to '{node.function}' (in container '')", node.position)
        return self._resolve_overload(node, overloads, tuple(kinds))

    def _resolve_overload(
        self, node: syntax.Call, overloads: tuple[Overload, ...], kinds: tuple[cel_types.CelType, ...]
    ) -> cel_types.CelType:
        """Return the type of the result of all overloads that match: dyn if they differ (resolveOverload)."""
        if node.function in {"_&&_", "_||_"}:
            for argument, kind in zip(node.arguments, kinds, strict=True):
                if not self._is_assignable(kind, cel_types.BOOL):
                    raise _describe_mismatch(argument, cel_types.BOOL, kind)
            return cel_types.BOOL
        result: cel_types.CelType | None = None
        matching: list[Overload] = []
        for overload in overloads:
            if overload.is_method != (node.target is not None):
                continue
            fresh = {parameter: self._make_parameter() for parameter in overload.type_parameters}
            parameters = tuple(
                cel_types.substitute(fresh, parameter, is_final=False) for parameter in overload.parameters
            )
            changed = cel_types.assign_all(self.substitutions, kinds, parameters)
            if changed is None:
                continue
            self.substitutions = changed
            matching.append(overload)
            found = self._resolve(cel_types.substitute(fresh, overload.result, is_final=False))
            if result is None:
                result = found
            elif result not in (cel_types.DYN, found):
                result = cel_types.DYN
        if result is None:
            raise self._describe_no_overload(node, kinds)
        node.overload = matching[0].parameters if len(matching) == 1 else None
        return result

    def _describe_no_overload(self, node: syntax.Call, kinds: tuple[cel_types.CelType, ...]) -> syntax.ExpressionError:
        names = [str(cel_types.substitute(self.substitutions, kind, is_final=True)) for kind in kinds]
        form = f"{names[0]}.({', '.join(names[1:])})" if node.target is not None else f"({', '.join(names)})"
        return syntax.ExpressionError(
            f"found no matching overload for '{node.function}' applied to '{form}'", node.position
        )

    def _check_list(self, node: syntax.ListLiteral) -> cel_types.CelType:
        joined: cel_types.CelType | None = None
        for place, element in enumerate(node.elements):
            kind = self.check(element)
            joined = self._join(joined, _unwrap(element, kind) if place in node.optional_places else kind)
        return cel_types.make_list(joined or self._make_parameter())

    def _check_map(self, node: syntax.MapLiteral) -> cel_types.CelType:
        key_kind: cel_types.CelType | None = None
        value_kind: cel_types.CelType | None = None
        for entry in node.entries:
            key_kind = self._join(key_kind, self.check(entry.key))
            kind = self.check(entry.value)
            value_kind = self._join(value_kind, _unwrap(entry.value, kind) if entry.is_optional else kind)
        if key_kind is None or value_kind is None:
            key_kind, value_kind = self._make_parameter(), self._make_parameter()
        return cel_types.make_map(key_kind, value_kind)

    def _join(self, previous: cel_types.CelType | None, current: cel_types.CelType) -> cel_types.CelType:
        """Return the more general of two types of elements, or dyn: then `_check_literals` finds the mistake."""
        if previous is None:
            return current
        return (
            cel_types.choose_most_general(previous, current)
            if self._is_assignable(previous, current)
            else cel_types.DYN
        )

    def _check_loop(self, node: syntax.Loop) -> cel_types.CelType:
        self.check(node.items)
        result_kind = self.check(node.initial)
        items_kind = self._resolve(node.items.kind)
        kinds = self._list_variable_kinds(node, items_kind)
        self._scopes.append({node.result_name: result_kind})
        self._scopes.append(dict(zip(node.variables, kinds, strict=True)))
        self._require(node.condition, cel_types.BOOL, self.check(node.condition))
        self._require(node.step, result_kind, self.check(node.step))
        self._scopes.pop()
        self.check(node.outcome)
        self._scopes.pop()
        return self._resolve(node.outcome.kind)

    def _list_variable_kinds(self, node: syntax.Loop, items_kind: cel_types.CelType) -> list[cel_types.CelType]:
        is_pair = len(node.variables) > 1
        if items_kind.name == "list":
            return [cel_types.INT, items_kind.parameters[0]] if is_pair else [items_kind.parameters[0]]
        if items_kind.name == "map":
            return list(items_kind.parameters[: len(node.variables)])
        if items_kind == cel_types.DYN or items_kind.is_parameter:
            self._is_assignable(cel_types.DYN, items_kind)
            return [cel_types.DYN] * len(node.variables)
        message = (
            f"expression of type '{items_kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
        )
        raise syntax.ExpressionError(message, node.items.position)


def _unwrap(node: syntax.SyntaxNode, kind: cel_types.CelType) -> cel_types.CelType:
    if kind.name == "optional_type":
        return kind.parameters[0]
    if kind != cel_types.DYN:
        raise _describe_mismatch(node, cel_types.make_optional(kind), kind)
    return kind


def _describe_mismatch(
    node: syntax.SyntaxNode, wanted: cel_types.CelType, found: cel_types.CelType
) -> syntax.ExpressionError:
    return syntax.ExpressionError(f"expected type '{wanted}' but found '{found}'", node.position)


def _check_literals(root: syntax.SyntaxNode) -> None:
    """Check that the elements of each list and map have one type: dyn is another one than int (validator.go)."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes.extend(syntax.list_children(node))
        if isinstance(node, syntax.ListLiteral):
            _check_same_kind(node.elements, [place in node.optional_places for place in range(len(node.elements))])
        elif isinstance(node, syntax.MapLiteral):
            _check_same_kind([entry.key for entry in node.entries], [False] * len(node.entries))
            _check_same_kind([entry.value for entry in node.entries], [entry.is_optional for entry in node.entries])


def _check_same_kind(nodes: list[syntax.SyntaxNode], optional: list[bool]) -> None:
    """Check that nodes have one type, where that of an optional one is the type of its value."""
    kinds = []
    for node, is_optional in zip(nodes, optional, strict=True):
        if is_optional and not node.kind.parameters:  # cel-go panics
            raise syntax.ExpressionError(
                f"an optional element of type '{node.kind}' has no type of its value", node.position
            )
        kinds.append(node.kind.parameters[0] if is_optional else node.kind)
    for node, kind in zip(nodes, kinds, strict=True):
        if not cel_types.are_equivalent(kinds[0], kind):
            raise _describe_mismatch(node, kinds[0], kind)
