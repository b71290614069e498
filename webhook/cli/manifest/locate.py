"""Field paths to places: `spec.containers[0].resources.requests[nvidia.com/gpu]` to the line where it is written.

Paths are Kubernetes' own (apimachinery field.Path): names after dots, indexes and map keys in brackets. A few are not
exact there, and are met half-way: node resources stand after a dot (`status.capacity.nvidia.com/gpu`), and overhead
has a step that no manifest has (`spec.overhead.limits[cpu]`).
"""

import re
from dataclasses import dataclass, replace

from webhook.cli.manifest.nodes import Entry, Mapping, Node, Place, Sequence
from webhook.cli.manifest.to_json import is_merge

_STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<key>[^\]]*)\]")
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a field is written and what stands there. `exact` is false when only something around it is there."""

    place: Place
    node: Node
    exact: bool


def locate(root: Node, path: str) -> Spot:
    """The place of a field, or of the nearest thing around it that is written."""
    spot, offset = Spot(root.place, root, exact=True), 0
    while offset < len(path):
        whole = _whole_rest(spot.node, path[offset:])
        if whole is not None:
            return Spot(whole.key.place, whole.value, exact=True)
        step = _STEP.match(path, offset)
        if step is None:
            return replace(spot, exact=False)
        offset = step.end()
        following = _child(spot.node, step["name"] if step["name"] is not None else step["key"])
        if following is not None:
            spot = following
        elif not _is_skipped(spot.node, path, offset):
            return replace(spot, exact=False)
    return spot


def _whole_rest(node: Node, rest: str) -> Entry | None:
    """The entry whose key is all that is left of the path, dots and slashes included."""
    return _entry(node, rest[1:]) if isinstance(node, Mapping) and rest.startswith(".") else None


def _child(node: Node, name: str) -> Spot | None:
    """One step down: the node there, and the place of its key, or of the item itself in a list."""
    if isinstance(node, Mapping):
        entry = _entry(node, name)
        return Spot(entry.key.place, entry.value, exact=True) if entry else None
    if isinstance(node, Sequence) and _INDEX.fullmatch(name) and int(name) < len(node.items):
        item = node.items[int(name)]
        return Spot(item.place, item, exact=True)
    return None


def _is_skipped(node: Node, path: str, offset: int) -> bool:
    """Whether the step after a missing one is found where the missing one should be."""
    step = _STEP.match(path, offset)
    return step is not None and step["key"] is not None and _child(node, step["key"]) is not None


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
