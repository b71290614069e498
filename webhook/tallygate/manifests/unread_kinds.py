"""What is not read: objects whose kind is written wrongly, those of other kinds that have pods, and parts of others.

An object has pods if it has containers, or requests or limits of resources, at any depth.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tallygate.accounting.names import is_native
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.kinds import BUILT_IN_TARGETS, ReviewTargets
from tallygate.documents import syntax_tree
from tallygate.manifests.manifest_objects import Manifest, ManifestError
from tallygate.policy.model import POLICY_GROUP

_VERSION = "v1"
_READ_KINDS = {kind.lower(): (group, kind) for group, kind in BUILT_IN_TARGETS}
_GROUPS_OF_KUBERNETES = frozenset(group for group, _ in BUILT_IN_TARGETS) | {"extensions"}
"""The groups that have, or once had, the kinds that are read."""

_OLD_VERSION = "resource.k8s.io/v1beta1"
"""A version that API servers may still have, with other fields than v1. The fields of v1beta2 are those of v1."""

_OLDER_VERSIONS = frozenset({_OLD_VERSION, "resource.k8s.io/v1beta2"})

_GROUPS_WITHOUT_PODS = ("kyverno.io", "gatekeeper.sh", "karpenter.sh", POLICY_GROUP)
"""Groups whose objects have patterns of pods or amounts of nodes, not pods."""

_TEMPLATE_REFERENCES = {("extensions.agents.x-k8s.io", "SandboxWarmPool"): "spec.sandboxTemplateRef"}
"""Group and kind of objects that make pods of a template in another object, and the field that names it.

Source: sigs.k8s.io/agent-sandbox v0.5.6, extensions/controllers/sandboxwarmpool_controller.go.
"""

_ARGO, _MANIFEST = "argoproj.io", ".resource.manifest"
_POD_FIELD = re.compile(r"^[ \t\-]*(containers|limits|requests)[\"']?:", re.MULTILINE)

_SCHEMA_FIELD = "openAPIV3Schema"
"""The field of a definition of a kind whose value has the names of fields as keys."""

_VOLUME_SIZE = "storage"
"""The name of the only resource that a claim for a volume requests."""


def find_wrong_kind(manifest: Manifest, targets: ReviewTargets) -> ManifestError | None:
    """Return the error of an object that no API server accepts: its kind or apiVersion differs from one of the targets.

    The difference may be letter case, a removed version, or the group.
    """
    if (error := _find_wrong_case(manifest, targets)) is not None:
        return error
    group, kind = _READ_KINDS.get(manifest.kind.lower(), ("", ""))
    if not kind or manifest.group.lower() not in _GROUPS_OF_KUBERNETES or manifest.api_version in _OLDER_VERSIONS:
        return None
    expected = {"apiVersion": f"{group}/{_VERSION}" if group else _VERSION, "kind": kind}
    written = {"apiVersion": manifest.api_version, "kind": manifest.kind}
    wrong = [name for name in expected if written[name] != expected[name]]
    if not wrong:
        return None
    advice = " and ".join(f"{name}: {expected[name]}" for name in wrong)
    message = f"no API server has the kind {manifest.kind} in {manifest.api_version}: write {advice}"
    return ManifestError("TG411", _find_position(manifest, wrong[0]), message)


def _find_wrong_case(manifest: Manifest, targets: ReviewTargets) -> ManifestError | None:
    """Return the error of a kind of another project that is written in the wrong letter case."""
    key, lower = (manifest.group, manifest.kind), manifest.kind.lower()
    if key in targets or manifest.group in _GROUPS_OF_KUBERNETES:
        return None
    kind = next((kind for group, kind in targets if group == manifest.group and kind.lower() == lower), "")
    if not kind:
        return None
    message = f"no API server has the kind {manifest.kind} in {manifest.api_version}: write kind: {kind}"
    return ManifestError("TG411", _find_position(manifest, "kind"), message)


def _find_position(manifest: Manifest, name: str) -> syntax_tree.Position:
    node = manifest.node.get(name)
    return node.position if node is not None else manifest.node.position


def is_old_claim(manifest: Manifest) -> bool:
    """Return whether an object is a claim for devices, or a template of claims, of a version that is not read."""
    return manifest.api_version == _OLD_VERSION and (manifest.group, manifest.kind) in BUILT_IN_TARGETS


def find_unread_pods(manifest: Manifest, targets: ReviewTargets) -> ManifestError | None:
    """Return the warning on an object whose kind is not read, if it has pods or is a claim for devices.

    `targets` are the kinds that are read: one of them may be written in another version.
    """
    if is_old_claim(manifest):
        message = f"the kind {manifest.kind} of {manifest.api_version} is not read: its devices are not checked"
        return ManifestError("TG410", _find_position(manifest, "kind"), message)
    if any(f".{manifest.group}".endswith(f".{group}") for group in _GROUPS_WITHOUT_PODS):
        return None
    reference = _TEMPLATE_REFERENCES.get((manifest.group, manifest.kind))
    if reference is not None:
        kind = f"the kind {manifest.kind} of {manifest.api_version}"
        message = f"{kind} is not read: its pods, of the template that {reference} names, are not counted"
        return ManifestError("TG410", _find_position(manifest, "kind"), message)
    path = _find_pods(manifest.node)
    if not path:
        return None
    message = f"the kind {manifest.kind} of {manifest.api_version} is not read: its pods ({path}) are not checked"
    target = targets.get((manifest.group, manifest.kind))
    if target is not None and target.definition is not None:
        read = ", ".join(f"{manifest.group}/{version}" for version in target.definition.versions)
        return ManifestError("TG410", _find_position(manifest, "apiVersion"), f"{message}; {read} is read")
    return ManifestError("TG410", _find_position(manifest, "kind"), f"{message}; a WorkloadKind can define the kind")


@dataclass(frozen=True, slots=True)
class _Place:
    node: syntax_tree.Node
    path: str


def find_unread_texts(manifest: Manifest) -> Iterator[ManifestError]:
    """Yield a warning for each object with pods that a Workflow has as a text: Argo makes it, and it is not read."""
    if manifest.group != _ARGO:
        return
    for place, _ in _walk(manifest.node):
        if (
            place.path.endswith(_MANIFEST)
            and isinstance(place.node, syntax_tree.Scalar)
            and _POD_FIELD.search(place.node.text)
        ):
            message = (
                f"{place.path} has an object with pods as a text, which is not read: they are not checked before "
                "Argo creates the object"
            )
            yield ManifestError("TG410", place.node.position, message)


def find_unread_amounts(manifest: Manifest, read_paths: Iterable[str]) -> Iterator[tuple[ManifestError, bool]]:
    """Yield what tells of requests or limits in an object of a kind that is read, beside those at the read paths.

    They may be those of a container that a controller adds to the pods, or of other pods. The second value is whether
    they name an extended resource: amounts of cpu and memory beside the pods stand in examples of many projects.
    """
    read = {id(location.node) for path in read_paths if (location := syntax_tree.locate(manifest.node, path)).exact}
    for place, parent in _walk(manifest.node):
        if id(place.node) not in read and _has_amounts(place, parent) and not place.path.startswith("status."):
            message = (
                f"{place.path} of {manifest.kind} is not read: a controller may give it to pods, in which it is "
                "neither checked nor counted here"
            )
            names = (
                [str(entry.key.value) for entry in place.node.entries]
                if isinstance(place.node, syntax_tree.Mapping)
                else []
            )
            yield ManifestError("TG410", place.node.position, message), not all(map(is_native, names))


def _find_pods(root: syntax_tree.Node) -> str:
    """Return the path of the first containers, requests or limits in an object, at any depth, or an empty text."""
    found = (child.path for child, parent in _walk(root) if _has_containers(child) or _has_resources(child, parent))
    return next(found, "")


def _walk(root: syntax_tree.Node) -> Iterator[tuple[_Place, syntax_tree.Node]]:
    """Yield every place below a node with its parent; what aliases share is visited once."""
    waiting, visited = [_Place(root, "")], {id(root)}
    while waiting:
        place = waiting.pop()
        children = _list_children(place)
        for child in children:
            yield child, place.node
        new = [
            child
            for child in children
            if id(child.node) not in visited and not isinstance(child.node, syntax_tree.Scalar)
        ]
        visited.update(id(child.node) for child in new)
        waiting += reversed(new)


def _list_children(place: _Place) -> list[_Place]:
    if isinstance(place.node, syntax_tree.Mapping):
        entries = (entry for entry in place.node.entries if entry.name != _SCHEMA_FIELD)
        return [_Place(entry.value, syntax_tree.join_path(place.path, entry.name)) for entry in entries]
    if isinstance(place.node, syntax_tree.Sequence):
        return [_Place(item, syntax_tree.join_path(place.path, index)) for index, item in enumerate(place.node.items)]
    return []


def _has_containers(place: _Place) -> bool:
    """Return whether a place is a list of containers, as in a pod, or one container, as in an Argo workflow."""
    name = place.path.rpartition(".")[2]
    if name == "container":
        return isinstance(place.node, syntax_tree.Mapping) and place.node.get("image") is not None
    return (
        name == "containers"
        and isinstance(place.node, syntax_tree.Sequence)
        and any(
            isinstance(item, syntax_tree.Mapping) and (item.get("name") or item.get("image"))
            for item in place.node.items
        )
    )


def _has_resources(place: _Place, parent: syntax_tree.Node) -> bool:
    """Return whether a place has requests or limits, or the resources of a container whose image is beside it."""
    if not isinstance(place.node, syntax_tree.Mapping) or not isinstance(parent, syntax_tree.Mapping):
        return False
    if place.path.rpartition(".")[2] == "resources":
        return parent.get("image") is not None
    return _has_amounts(place, parent)


def _has_amounts(place: _Place, parent: syntax_tree.Node) -> bool:
    """Return whether a place has requests or limits."""
    if not isinstance(place.node, syntax_tree.Mapping) or not isinstance(parent, syntax_tree.Mapping):
        return False
    return place.path.rpartition(".")[2] in {"limits", "requests"} and any(map(_is_amount, place.node.entries))


def _is_amount(entry: syntax_tree.Entry) -> bool:
    """Return whether an entry is the amount of a resource; that of a volume is not one of pods.

    An extended resource is one by its name: its amount may be a parameter.
    """
    node = entry.value
    if (
        entry.name == _VOLUME_SIZE
        or not isinstance(node, syntax_tree.Scalar)
        or node.value is None
        or isinstance(node.value, bool)
    ):
        return False
    try:
        Quantity.parse(node.text)
    except QuantityError:
        return "/" in entry.name
    return True
