"""The objects of manifests: those that the API server would store, lists taken apart."""

from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.documents import syntax_tree
from tallygate.documents.reader import Document

_LIST = "List"
_TYPE_FIELDS = frozenset({"apiVersion", "kind"})
_OBJECT_FIELDS = frozenset({"metadata", "spec", "items", "template", "containers"})
"""Fields of objects: a document with one of them is meant as one, even if its apiVersion or kind is missing."""

_DIRECTIVE = "$patch"
_PATCH_FIELD = "patch"
"""A part of the name of a field with a patch in an object, as in `templateRef.patch`: its directives are its own."""


class ManifestError(syntax_tree.DocumentError):
    """A document that can be read, but has a mistake as a manifest; `code` is the code of its finding."""

    def __init__(self, code: str, position: syntax_tree.Position, message: str) -> None:
        super().__init__(syntax_tree.ErrorKind.CONTENT, position, message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as written: its identity, its location, and its node.

    `namespace` is empty if the manifest has none; `document` counts from 0; `origin` is the file in a `# Source:`
    comment.
    """

    file: str
    document: int
    origin: str
    api_version: str
    kind: str
    name: str
    namespace: str
    node: syntax_tree.Mapping

    @property
    def group(self) -> str:
        """The API group: `apps` of `apps/v1`, empty for `v1`."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version in its API group: `v1` of `apps/v1`."""
        return self.api_version.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class NotAnObject:
    """A document that is not a Kubernetes object, such as a values file or a chart, and is ignored."""

    document: Document


def list_objects(file: str, document: Document) -> Iterator[Manifest | NotAnObject]:
    """Yield the objects of a document, those inside `kind: List` and `…List` one by one.

    A document of another tool, such as `Chart.yaml` of Helm, may have one of `apiVersion` and `kind`. A patch with
    directives is no object.

    Raises:
        ManifestError: if an object has a kind but no API version, or the reverse, or a list has an item of another
            type.
    """
    waiting: list[tuple[syntax_tree.Node, str, str]] = [(document.root, "", "")]
    while waiting:
        node, api_version, kind = waiting.pop()
        if not isinstance(node, syntax_tree.Mapping) or not (node.get("kind") or node.get("apiVersion") or kind):
            if kind:
                raise ManifestError("TG403", node.position, f"an item of a {kind}List must be an object")
            yield NotAnObject(document)
            continue
        if not kind and (_is_of_other_tool(node) or _is_patch(node)):
            yield NotAnObject(document)
            continue
        manifest = _create_manifest(file, document, node, api_version, kind)
        items = _get_items(manifest)
        if items is None:
            yield manifest
        else:
            inner = manifest.kind.removesuffix(_LIST)
            defaults = (manifest.api_version, inner) if inner else ("", "")
            waiting.extend((item, *defaults) for item in reversed(items))


def _is_of_other_tool(node: syntax_tree.Mapping) -> bool:
    """Return whether a document has one of apiVersion and kind, further fields, and none of those of objects."""
    names = {entry.name for entry in node.entries}
    return len(names & _TYPE_FIELDS) == 1 and not names <= _TYPE_FIELDS and not names & _OBJECT_FIELDS


def _is_patch(root: syntax_tree.Node) -> bool:
    """Return whether a value at any depth has a directive of a strategic merge patch."""
    waiting, visited = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax_tree.Mapping):
            if node.get(_DIRECTIVE) is not None:
                return True
            children = [entry.value for entry in node.entries if _PATCH_FIELD not in entry.name.lower()]
        else:
            children = node.items if isinstance(node, syntax_tree.Sequence) else []
        waiting.extend(
            child for child in children if id(child) not in visited and not isinstance(child, syntax_tree.Scalar)
        )
        visited.update(map(id, children))
    return False


def _get_items(manifest: Manifest) -> list[syntax_tree.Node] | None:
    """Return the items of a list, or None; a custom kind that only ends in List and has no items is an object."""
    items = manifest.node.get("items")
    if not manifest.kind.endswith(_LIST) or (items is None and manifest.kind != _LIST):
        return None
    if isinstance(items, syntax_tree.Sequence):
        return items.items
    if items is None or (isinstance(items, syntax_tree.Scalar) and items.value is None):
        return []
    raise ManifestError("TG403", items.position, f"the items of a {manifest.kind} must be a list")


def _create_manifest(file: str, document: Document, node: syntax_tree.Mapping, api_version: str, kind: str) -> Manifest:
    metadata = node.get("metadata")
    return Manifest(
        file,
        document.index,
        document.origin,
        _get_required(node, "apiVersion", api_version),
        _get_required(node, "kind", kind),
        _get_text(metadata, "name") or _get_text(metadata, "generateName"),
        _get_text(metadata, "namespace"),
        node,
    )


def _get_required(node: syntax_tree.Mapping, name: str, default: str) -> str:
    """Return the API version or kind of an object; an item of a typed list has the default of the list."""
    if node.get(name) is None and default:
        return default
    text = _get_text(node, name)
    if not text:
        example = "v1" if name == "apiVersion" else "Pod"
        raise ManifestError(
            "TG403",
            node.position,
            f"the object has no {name}, so nothing tells what it is: write `{name}: {example}`, say",
        )
    return text


def _get_text(node: syntax_tree.Node | None, name: str) -> str:
    value = node.get(name) if isinstance(node, syntax_tree.Mapping) else None
    return value.value if isinstance(value, syntax_tree.Scalar) and isinstance(value.value, str) else ""


def find_duplicates(node: syntax_tree.Node) -> Iterator[syntax_tree.Entry]:
    """Yield every entry whose key its mapping has already: kubectl keeps the last and does not report it."""
    waiting, visited = [node], {id(node)}
    while waiting:
        current = waiting.pop()
        if isinstance(current, syntax_tree.Mapping):
            yield from _find_repeated(current)
            children = [entry.value for entry in current.entries]
        else:
            children = current.items if isinstance(current, syntax_tree.Sequence) else []
        waiting.extend(
            child for child in children if id(child) not in visited and not isinstance(child, syntax_tree.Scalar)
        )
        visited.update(map(id, children))


def _find_repeated(mapping: syntax_tree.Mapping) -> Iterator[syntax_tree.Entry]:
    names: set[str] = set()
    for entry in mapping.entries:
        if entry.name in names and entry.name != "<<":
            yield entry
        names.add(entry.name)
