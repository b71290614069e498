"""Types of expressions, and the assignment of one type to another (checker/types.go of cel-go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CelType:
    """A type by name, with the types of its elements; the name of a type parameter begins with `$`."""

    name: str
    parameters: tuple[CelType, ...] = ()

    @property
    def is_parameter(self) -> bool:
        return self.name[0] == "$"

    def __str__(self) -> str:
        if not self.parameters:
            return "dyn" if self.is_parameter else self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


BOOL: Final = CelType("bool")
BYTES: Final = CelType("bytes")
DOUBLE: Final = CelType("double")
DYN: Final = CelType("dyn")
INT: Final = CelType("int")
NULL: Final = CelType("null_type")
STRING: Final = CelType("string")
UINT: Final = CelType("uint")

QUANTITY: Final = CelType("kubernetes.Quantity")
SEMVER: Final = CelType("kubernetes.Semver")

_STRUCTS = {"kubernetes.DRADevice", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"}
_OPAQUE = {"optional_type", "net.IP", "net.CIDR", "function", "kubernetes.NamedFormat"}
_NULLABLE = _STRUCTS | _OPAQUE | {"google.protobuf.Duration", "google.protobuf.Timestamp", "null_type"}
_WITH_PARAMETERS = _OPAQUE | {"list", "map"}

Substitutions = dict[CelType, CelType]
"""The types that stand for type parameters."""


def make_list(element: CelType) -> CelType:
    return CelType("list", (element,))


def make_map(key: CelType, value: CelType) -> CelType:
    """Return the type of a map."""
    return CelType("map", (key, value))


def make_optional(value: CelType) -> CelType:
    return CelType("optional_type", (value,))


def is_struct(kind: CelType) -> bool:
    """Return whether a type has named fields, or none that can be selected."""
    return kind.name in _STRUCTS


def are_equivalent(left: CelType, right: CelType) -> bool:
    """Return whether two types are the same, but for the names of type parameters."""
    if left.is_parameter and right.is_parameter:
        return True
    return (
        left.name == right.name
        and len(left.parameters) == len(right.parameters)
        and all(map(are_equivalent, left.parameters, right.parameters))
    )


def choose_most_general(left: CelType, right: CelType) -> CelType:
    """Return the more general of two types that agree."""
    return left if _is_less_specific(left, right) else right


def assign_all(
    substitutions: Substitutions, sources: tuple[CelType, ...], targets: tuple[CelType, ...]
) -> Substitutions | None:
    """Return the substitutions with which every type can be assigned to the one at its place, or None."""
    changed = dict(substitutions)
    return changed if _assign_each(changed, sources, targets) else None


def substitute(substitutions: Substitutions, kind: CelType, *, is_final: bool) -> CelType:
    """Replace type parameters by the types that stand for them, and if it is final, the others by dyn."""
    found = substitutions.get(kind)
    if found is not None:
        return substitute(substitutions, found, is_final=is_final)
    if kind.is_parameter:
        return DYN if is_final else kind
    if not kind.parameters:
        return kind
    return CelType(
        kind.name, tuple(substitute(substitutions, parameter, is_final=is_final) for parameter in kind.parameters)
    )


def _is_less_specific(left: CelType, right: CelType) -> bool:
    if left == DYN or left.is_parameter:
        return True
    if right == DYN or right.is_parameter or left.name != right.name:
        return False
    if left.name == "type":
        return True
    return len(left.parameters) == len(right.parameters) and all(
        map(_is_less_specific, left.parameters, right.parameters)
    )


def _assign_each(substitutions: Substitutions, sources: tuple[CelType, ...], targets: tuple[CelType, ...]) -> bool:
    """Assign each type to the one at its place, as far as that is possible; the substitutions are changed."""
    return len(sources) == len(targets) and all(
        _assign(substitutions, source, target) for source, target in zip(sources, targets, strict=True)
    )


def _assign(substitutions: Substitutions, source: CelType, target: CelType) -> bool:
    """Return whether a type can be assigned to another one (internalIsAssignable)."""
    if target.is_parameter:
        is_valid, has_substitute = _stand_for(substitutions, source, target)
        if is_valid or has_substitute:
            return is_valid
    if source.is_parameter:
        return _stand_for(substitutions, target, source)[0]
    if DYN in (source, target):
        return True
    if source == NULL:
        return target.name in _NULLABLE
    if target == NULL:
        return source.name in _NULLABLE
    if source.name == "type":
        return target.name == "type"
    if source.name in _WITH_PARAMETERS:
        return source.name == target.name and _assign_each(substitutions, source.parameters, target.parameters)
    return source == target


def _stand_for(substitutions: Substitutions, kind: CelType, parameter: CelType) -> tuple[bool, bool]:
    """Return whether a type can stand for a parameter, and whether another one does (isValidTypeSubstitution)."""
    if kind == parameter:
        return True, True
    found = substitutions.get(parameter)
    if found is not None:
        if kind == found:
            return True, True
        if _assign(substitutions, kind, found):
            general = choose_most_general(kind, found)
            if _is_absent_from(substitutions, parameter, general):
                substitutions[parameter] = general
            return True, True
        return False, True
    if _is_absent_from(substitutions, parameter, kind):
        substitutions[parameter] = kind
        return True, False
    return False, False


def _is_absent_from(substitutions: Substitutions, parameter: CelType, kind: CelType) -> bool:
    """Return whether a parameter is no part of a type (notReferencedIn)."""
    if parameter == kind:
        return False
    if kind.is_parameter:
        found = substitutions.get(kind)
        return found is None or _is_absent_from(substitutions, parameter, found)
    return all(_is_absent_from(substitutions, parameter, part) for part in kind.parameters)
