"""The fields of the kinds that are read, from a table in the package, and the fields of a manifest that no kind has.

kubectl and client libraries ask the API server for strict decoding by default, and it then rejects an object with an
unknown field (`strict decoding error: unknown field "spec.x"`). Without strict decoding it drops the field. The table
has the fields of Kubernetes 1.34 to 1.37; `tests/manifests/field_table.py` generates it from the official client.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from tallygate.admission.kinds import ReviewTargets
from tallygate.documents import syntax_tree
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.manifests.manifest_objects import Manifest
from tallygate.policy.suggest import find_nearest
from tallygate.policy.workload_kinds import PathStep, PodForm, Wildcard

_CUTOFF = 0.7

_Fields = Mapping[str, str]
"""The fields of a type; a field of another type has the name of that type, any other field an empty text."""


class _FieldTable(msgspec.Struct, frozen=True):
    minor: int
    types: dict[str, dict[str, str]]


@cache
def _load_types() -> Mapping[str, _Fields]:
    data = files("tallygate.manifests").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(data, type=_FieldTable).types


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that its kind does not have: the path as the API server prints it, and the advice."""

    field: str
    position: syntax_tree.Position
    message: str


@dataclass(frozen=True, slots=True)
class _TypedNode:
    """A node, the type that the API has there, its path, and the node around it."""

    node: syntax_tree.Node
    type_name: str
    path: str
    parent: "_TypedNode | None" = None


def find_unknown_fields(manifest: Manifest, targets: ReviewTargets) -> Iterator[UnknownField]:
    """Yield the unknown fields of an object whose kind is one of the targets, each written field once.

    Of an object of another project these are the fields of its pod templates.
    """
    types = _load_types()
    waiting, visited = _list_roots(manifest, targets), set[tuple[int, str]]()
    while waiting:
        typed = waiting.pop()
        if (id(typed.node), typed.type_name) in visited:
            continue  # an alias: its anchor was checked already
        visited.add((id(typed.node), typed.type_name))
        waiting += reversed(_list_children(typed, types))
        for entry in typed.node.entries if isinstance(typed.node, MappingNode) else ():
            if entry.name not in types[typed.type_name] and not entry.is_merge and not _is_directive(typed, entry):
                yield _create_unknown_field(typed, entry, types)


def _is_directive(typed: _TypedNode, entry: syntax_tree.Entry) -> bool:
    """Return whether a field is a directive of a patch, as `$patch: delete`, in a field that has patches."""
    return entry.name.startswith("$") and "patch" in typed.path.lower()


def _list_roots(manifest: Manifest, targets: ReviewTargets) -> list[_TypedNode]:
    definition = targets[manifest.group, manifest.kind].definition
    if definition is None:
        return [_TypedNode(manifest.node, f"V1{manifest.kind}", "")]
    paths = [path for pod_set in definition.pod_sets if pod_set.form is PodForm.TEMPLATE for path in pod_set.templates]
    return [root for path in paths for root in _expand(_TypedNode(manifest.node, "V1PodTemplateSpec", ""), path.steps)]


def _expand(typed: _TypedNode, steps: tuple[PathStep, ...]) -> Iterator[_TypedNode]:
    """Yield the nodes that a path below a node stands for."""
    node = typed.node
    if not steps:
        yield typed
    elif isinstance(node, syntax_tree.Sequence) and steps[0] is Wildcard.ITEMS:
        for index, item in enumerate(node.items):
            yield from _expand(_TypedNode(item, typed.type_name, syntax_tree.join_path(typed.path, index)), steps[1:])
    elif isinstance(node, MappingNode):
        for entry in node.entries:
            if entry.name == steps[0] or steps[0] is Wildcard.VALUES:
                child = _TypedNode(entry.value, typed.type_name, syntax_tree.join_path(typed.path, entry.name))
                yield from _expand(child, steps[1:])


def _list_children(typed: _TypedNode, types: Mapping[str, _Fields]) -> list[_TypedNode]:
    """Return the items of a list, or the values of a mapping that have fields of their own."""
    if isinstance(typed.node, syntax_tree.Sequence):
        return [
            _TypedNode(item, typed.type_name, syntax_tree.join_path(typed.path, index), typed.parent)
            for index, item in enumerate(typed.node.items)
        ]
    children: list[_TypedNode] = []
    for entry in typed.node.entries if isinstance(typed.node, MappingNode) else ():
        child_type = typed.type_name if entry.is_merge else types[typed.type_name].get(entry.name)
        if child_type:
            children.append(_create_child(typed, entry, child_type))
    return children


def _create_child(typed: _TypedNode, entry: syntax_tree.Entry, child_type: str) -> _TypedNode:
    if entry.is_merge:
        return _TypedNode(entry.value, child_type, typed.path, typed.parent)
    return _TypedNode(entry.value, child_type, syntax_tree.join_path(typed.path, entry.name), typed)


def _create_unknown_field(typed: _TypedNode, entry: syntax_tree.Entry, types: Mapping[str, _Fields]) -> UnknownField:
    fields, name = types[typed.type_name], entry.name
    nearest = find_nearest(name, fields, _CUTOFF)
    if nearest:
        advice = f'did you mean "{nearest}"?'
    elif place := _find_place(typed, name, types):
        advice = f"it belongs in {place}"
    else:
        advice = "remove it"
    field = syntax_tree.join_path(typed.path, syntax_tree.truncate_text(name))
    return UnknownField(field, entry.key.position, f"there is no such field here; {advice}")


def _find_place(typed: _TypedNode, name: str, types: Mapping[str, _Fields]) -> str:
    """Return the nearest place that has a field of this name, below the node or around it, or an empty text."""
    below = (field for field, child in types[typed.type_name].items() if child and name in types[child])
    place = next((syntax_tree.join_path(typed.path, field) for field in below), "")
    around = typed.parent
    while not place and around is not None:
        place = (around.path or "the top level") if name in types[around.type_name] else ""
        around = around.parent
    return place
