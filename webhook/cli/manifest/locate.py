"""Field paths to places: `spec.containers[0].resources.requests[nvidia.com/gpu]` to the line where it is written.

Paths are Kubernetes' own (apimachinery field.Path): names after dots, indexes and map keys in brackets. A few are not
exact there, and are met half-way: node resources stand after a dot (`status.capacity.nvidia.com/gpu`), and overhead
has a step that no manifest has (`spec.overhead.limits[cpu]`).
"""

import re
from dataclasses import dataclass

from webhook.cli.manifest.nodes import Entry, Mapping, Node, Place, Sequence
from webhook.cli.manifest.to_json import is_merge

_STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<key>[^\]]*)\]")
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a field is written. `exact` is false when only something around it is there."""

    place: Place
    exact: bool


def locate(root: Node, path: str) -> Spot:
    """The place of a field, or of the nearest thing around it that is written."""
    node, place, offset = root, root.place, 0
    while offset < len(path):
        step = _STEP.match(path, offset)
        found = _whole_rest(node, path[offset:])
        if found is not None:
            return Spot(found.key.place, exact=True)
        if step is None:
            return Spot(place, exact=False)
        following = _child(node, step["name"] if step["name"] is not None else step["key"])
        offset = step.end()
        if following is None:
            following = _skipped(node, path, offset)
            if following is None:
                return Spot(place, exact=False)
            continue
        node, place = following
    return Spot(place, exact=True)


def _whole_rest(node: Node, rest: str) -> Entry | None:
    """The entry whose key is all that is left of the path, dots and slashes included."""
    return _entry(node, rest[1:]) if isinstance(node, Mapping) and rest.startswith(".") else None


def _child(node: Node, name: str) -> tuple[Node, Place] | None:
    """One step down: the node there, and the place of its key, or of the item itself in a list."""
    if isinstance(node, Mapping):
        entry = _entry(node, name)
        return (entry.value, entry.key.place) if entry else None
    if isinstance(node, Sequence) and _INDEX.fullmatch(name) and int(name) < len(node.items):
        item = node.items[int(name)]
        return item, item.place
    return None


def _skipped(node: Node, path: str, offset: int) -> tuple[Node, Place] | None:
    """The node itself, when the step after a missing one is found in it."""
    step = _STEP.match(path, offset)
    if step is None or step["key"] is None or _child(node, step["key"]) is None:
        return None
    return node, node.place


def _entry(node: Mapping, name: str) -> Entry | None:
    """The entry with this key, also when a merge key brings it in."""
    direct = node.entry(name)
    if direct is not None:
        return direct
    merges = [entry.value for entry in node.entries if is_merge(entry)]
    for value in merges:
        for source in value.items if isinstance(value, Sequence) else [value]:
            found = _entry(source, name) if isinstance(source, Mapping) else None
            if found is not None:
                return found
    return None
