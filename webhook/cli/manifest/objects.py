"""Objects: the things in a document that the API server would store, lists taken apart."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.cli.manifest.documents import Document
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.nodes import Entry, Mapping, Node, Scalar, Sequence

_LIST = "List"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as written: who it is, where it stands, and its node.

    `namespace` is what the manifest says, empty when it says none; `document` counts from 0; `origin` is the file that
    a `# Source:` comment names.
    """

    file: str
    document: int
    origin: str
    api_version: str
    kind: str
    name: str
    namespace: str
    node: Mapping

    @property
    def group(self) -> str:
        """The API group: `apps` of `apps/v1`, empty of `v1`."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class NotAnObject:
    """A document that is no Kubernetes object at all, such as a values file: passed over."""

    document: Document


def objects(file: str, document: Document) -> Iterator[Manifest | NotAnObject]:
    """The objects of a document, those inside `kind: List` and `…List` one by one.

    Raises:
        Fault: it says what kind it is but not of which API, or the reverse, or its list holds what is no object.
    """
    waiting: list[tuple[Node, str, str]] = [(document.root, "", "")]
    while waiting:
        node, api_version, kind = waiting.pop()
        if not isinstance(node, Mapping) or not (node.get("kind") or node.get("apiVersion") or kind):
            if kind:
                raise Fault("TG403", node.place, f"an item of a {kind}List must be an object")
            yield NotAnObject(document)
            continue
        manifest = _manifest(file, document, node, api_version, kind)
        items = _items(manifest)
        if items is None:
            yield manifest
        else:
            inner = manifest.kind.removesuffix(_LIST)
            of = (manifest.api_version, inner) if inner else ("", "")
            waiting.extend((item, *of) for item in reversed(items))


def _items(manifest: Manifest) -> list[Node] | None:
    """The items when this is a list. A custom kind that merely ends in List and has no items is an object."""
    items = manifest.node.get("items")
    if not manifest.kind.endswith(_LIST) or (items is None and manifest.kind != _LIST):
        return None
    if isinstance(items, Sequence):
        return items.items
    if items is None or (isinstance(items, Scalar) and items.value is None):
        return []
    raise Fault("TG403", items.place, f"the items of a {manifest.kind} must be a list")


def _manifest(file: str, document: Document, node: Mapping, api_version: str, kind: str) -> Manifest:
    metadata = node.get("metadata")
    return Manifest(
        file,
        document.index,
        document.origin,
        _required(node, "apiVersion", api_version),
        _required(node, "kind", kind),
        _text(metadata, "name") or _text(metadata, "generateName"),
        _text(metadata, "namespace"),
        node,
    )


def _required(node: Mapping, name: str, otherwise: str) -> str:
    """A field that says what an object is; an item of a typed list has it from the list."""
    if node.get(name) is None and otherwise:
        return otherwise
    text = _text(node, name)
    if not text:
        example = "v1" if name == "apiVersion" else "Pod"
        raise Fault(
            "TG403",
            node.place,
            f"the object has no {name}, so nothing tells what it is: write `{name}: {example}`, say",
        )
    return text


def _text(node: Node | None, name: str) -> str:
    value = node.get(name) if isinstance(node, Mapping) else None
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else ""


def duplicates(node: Node) -> Iterator[Entry]:
    """Every key that stands in its mapping a second time: kubectl keeps the last and says nothing."""
    waiting, seen = [node], {id(node)}
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            yield from _repeated(current)
            children = [entry.value for entry in current.entries]
        else:
            children = current.items if isinstance(current, Sequence) else []
        waiting.extend(child for child in children if id(child) not in seen and not isinstance(child, Scalar))
        seen.update(map(id, children))


def _repeated(mapping: Mapping) -> Iterator[Entry]:
    names: set[str] = set()
    for entry in mapping.entries:
        if entry.name in names and entry.name != "<<":
            yield entry
        names.add(entry.name)
