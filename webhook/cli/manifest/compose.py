"""YAML text to nodes, within bounds.

libyaml parses it (through PyYAML), because kubectl's YAML reader is a port of that very library, and because it reads
a megabyte in a fifth of a second. Its events are taken one by one and put together without recursion, so that depth,
number and aliases are bounded before anything is built.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Entry, Mapping, Node, Place, Scalar, ScalarValue, Sequence
from webhook.cli.manifest.scalars import go_float, number, plain

_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"
_START = Place(1, 1)


@dataclass(slots=True)
class _Composer:
    """The tree as far as it is built: open containers, their waiting keys, and what anchors name."""

    bounds: Bounds
    open: list[Mapping | Sequence] = field(default_factory=list)
    keys: list[Scalar | None] = field(default_factory=list)
    anchors: dict[str, Node] = field(default_factory=dict)
    unfinished: set[int] = field(default_factory=set)
    root: Node | None = None
    nodes: int = 0
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Put one event in its place."""
        match event:
            case yaml.DocumentStartEvent():
                self._new_document(event)
            case yaml.ScalarEvent():
                self._anchor(event, self._put(_scalar(event)))
            case yaml.MappingStartEvent():
                self._enter(event, Mapping(_place(event.start_mark)))
            case yaml.SequenceStartEvent():
                self._enter(event, Sequence(_place(event.start_mark)))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.unfinished.discard(id(self.open.pop()))
                self.keys.pop()
            case yaml.AliasEvent():
                self._put(self._named(event), alias=_place(event.start_mark))

    def _new_document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > self.bounds.documents:
            raise Fault("TG402", _place(event.start_mark), f"more than {self.bounds.documents} documents in one file")
        self.root = None
        self.anchors = {}

    def _enter(self, event: Any, container: Mapping | Sequence) -> None:
        self._put(container)
        if len(self.open) >= self.bounds.depth:
            raise Fault("TG402", container.place, f"nested more than {self.bounds.depth} levels deep")
        self.open.append(container)
        self.keys.append(None)
        self.unfinished.add(id(container))
        self._anchor(event, container)

    def _put(self, node: Node, alias: Place | None = None) -> Node:
        """Hang a node where the next one belongs: the root, the next item, the next key or the last key's value."""
        self.nodes += 1
        if self.nodes > self.bounds.nodes:
            raise Fault("TG402", alias or node.place, f"more than {self.bounds.nodes} values in one file")
        if not self.open:
            self.root = node
            return node
        parent, key = self.open[-1], self.keys[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif key is None:
            self.keys[-1] = _key(node, alias)
        else:
            parent.entries.append(Entry(_key_name(key), key, node))
            self.keys[-1] = None
        return node

    def _anchor(self, event: Any, node: Node) -> None:
        if event.anchor:
            self.anchors[event.anchor] = node

    def _named(self, event: yaml.AliasEvent) -> Node:
        node = self.anchors.get(event.anchor or "")
        if node is None:
            raise Fault(
                "TG401", _place(event.start_mark), f"the alias *{event.anchor} names no anchor written before it"
            )
        if id(node) in self.unfinished:
            raise Fault("TG401", _place(event.start_mark), f"the alias *{event.anchor} stands inside what it names")
        return node


def compose(text: str, bounds: Bounds) -> Iterator[tuple[Node | None, Place]]:
    """Each document's root (None when it is empty) and the place where the document begins.

    Raises:
        Fault: the text is not YAML, or beyond the bounds; what came before it has been yielded.
    """
    composer, start = _Composer(bounds), _START
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
            if isinstance(event, yaml.DocumentStartEvent) and event.explicit:
                start = _place(event.start_mark)
            elif isinstance(event, yaml.DocumentEndEvent):
                yield composer.root, start
                start = _place(event.end_mark)
    except yaml.MarkedYAMLError as error:
        raise Fault("TG401", _place(error.problem_mark or error.context_mark), _sentence(error)) from error
    except yaml.YAMLError as error:
        raise Fault("TG401", start, f"this is not YAML: {error}") from error


def _sentence(error: yaml.MarkedYAMLError) -> str:
    """What libyaml says, in one line."""
    context = f" {error.context}" if error.context else ""
    return f"this is not YAML: {error.problem}{context}"


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else _START


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    place, end = _place(event.start_mark), _place(event.end_mark)
    return Scalar(_value(event, place), event.value, place, end)


def _value(event: yaml.ScalarEvent, place: Place) -> ScalarValue:
    """What a scalar means: an unquoted one by its looks, a quoted one as text, a tagged one as its tag says."""
    tag = (event.tag or "").removeprefix(_TAG)
    if not event.style and event.tag in (None, "!"):
        value = plain(event.value) if event.tag is None else event.value
    elif tag in ("int", "float", "bool", "null"):
        value = _tagged(event.value, tag, place)
    else:
        return str(event.value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Fault("TG401", place, f"{event.value} has no JSON form, so kubectl cannot send it; write a finite number")
    return value


def _tagged(text: str, tag: str, place: Place) -> ScalarValue:
    """A scalar with an explicit `!!int`, `!!float`, `!!bool` or `!!null`."""
    value = plain(text)
    fits = {"int": int, "float": float, "bool": bool, "null": type(None)}[tag]
    if tag == "float" and type(value) is int:
        return float(number(text, None) or 0)
    if type(value) is not fits:
        raise Fault("TG401", place, f"{text} cannot be read as !!{tag}")
    return value


def _key(node: Node, alias: Place | None) -> Scalar:
    if not isinstance(node, Scalar):
        raise Fault(
            "TG401", alias or node.place, "a key must be a single value, not a list or a mapping: JSON has no such keys"
        )
    if node.value is None:
        raise Fault(
            "TG401", alias or node.place, "a key is missing before this colon, or is null: JSON has no such keys"
        )
    return node


def _key_name(key: Scalar) -> str:
    """A key as JSON has it: `true`, `1` and `1.5` become text (sigs.k8s.io/yaml, convertToJSONableObject)."""
    match key.value:
        case bool():
            return "true" if key.value else "false"
        case float():
            return go_float(key.value)
        case _:
            return str(key.value)
