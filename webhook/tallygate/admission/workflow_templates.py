"""The pods of Argo Workflows, put together from a template and the spec of its Workflow as the controller does.

A template is merged into the defaults of its spec. The pod has the claims for devices and the constraints of its
template, or else those of the spec, and is changed by the patch of the spec and then by that of the template.

Source: mergedTemplateDefaultsInto in workflow/controller/operator.go, addSchedulingConstraints and build in
workflow/controller/workflowpod.go, and ApplyPodSpecPatch in workflow/util/util.go, v4.1.2. Versions before 4.1 know
claims in patches only, and drop the fields.

Strategic merge patches of pods: mappings are merged by key, and lists of named items by their names.

Source: strategicpatch in k8s.io/apimachinery/pkg/util/strategicpatch, and the patch strategies of PodSpec in
k8s.io/api/core/v1, v1.36. A patch with directives, such as `$patch: delete`, is not applied.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from tallygate.admission.pod_view import Completeness
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits, Mapping
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError

_NULL = b"null"
_RAW_NULL = msgspec.Raw(_NULL)
_EMPTY = frozenset({_NULL, b"[]", b"{}", b'""'})
_MAIN = "main"
_MAX_MERGED_BYTES = 2_000_000  # a fifth of a second
_COST_OF_YAML = 20  # bytes of JSON that are merged in the time in which one of YAML is read
_TYPES = ("container", "containerSet", "script", "resource", "dag", "suspend", "data", "http", "plugin")
"""The fields of a template that say what it is; of the defaults only that of the template counts."""


class WorkflowSpec(msgspec.Struct, rename="camel"):
    """The fields of the spec of a Workflow that its pods have (pkg/apis/workflow/v1alpha1/workflow_types.go)."""

    template_defaults: msgspec.Raw = _RAW_NULL
    resource_claims: msgspec.Raw = _RAW_NULL
    pod_spec_patch: str | None = None
    node_selector: msgspec.Raw = _RAW_NULL
    affinity: msgspec.Raw = _RAW_NULL
    tolerations: msgspec.Raw = _RAW_NULL
    scheduler_name: msgspec.Raw = _RAW_NULL
    pod_priority_class_name: msgspec.Raw = _RAW_NULL


class _ContainerSet(msgspec.Struct):
    containers: list[msgspec.Raw] | None = None


class _Template(msgspec.Struct, rename="camel"):
    """A template (workflow_types.go, Template)."""

    metadata: msgspec.Raw = _RAW_NULL
    container: msgspec.Raw = _RAW_NULL
    script: msgspec.Raw = _RAW_NULL
    container_set: _ContainerSet | None = None
    sidecars: list[msgspec.Raw] | None = None
    init_containers: list[msgspec.Raw] | None = None
    resource_claims: msgspec.Raw = _RAW_NULL
    pod_spec_patch: str | None = None
    node_selector: msgspec.Raw = _RAW_NULL
    affinity: msgspec.Raw = _RAW_NULL
    tolerations: msgspec.Raw = _RAW_NULL
    priority_class_name: msgspec.Raw = _RAW_NULL
    scheduler_name: msgspec.Raw = _RAW_NULL


class _Named(msgspec.Struct):
    name: str | None = None
    resources: msgspec.Raw = _RAW_NULL


class _PatchedLists(msgspec.Struct, rename="camel"):
    containers: list[_Named] | None = None
    init_containers: list[_Named] | None = None
    resource_claims: msgspec.Raw = _RAW_NULL


_SPEC_DECODER = msgspec.json.Decoder(WorkflowSpec)
_TEMPLATE_DECODER = msgspec.json.Decoder(_Template)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMED_DECODER = msgspec.json.Decoder(_Named)
_PATCHED_DECODER = msgspec.json.Decoder(_PatchedLists)


@dataclass(slots=True)
class PlacedSpec:
    """The spec of a Workflow, and its path in the object.

    `budget` are the bytes that may yet be merged for its templates: each has the defaults and the patch of the spec, so
    that an object of a megabyte could take minutes. A template beyond it is known in part.
    """

    spec: WorkflowSpec = field(default_factory=WorkflowSpec)
    path: str = ""
    budget: int = _MAX_MERGED_BYTES

    @staticmethod
    def decode(content: msgspec.Raw, path: str) -> "PlacedSpec":
        """Decode the spec of a Workflow.

        Raises:
            msgspec.ValidationError: if a field has another type.
        """
        return PlacedSpec(_SPEC_DECODER.decode(content), path)

    def spend(self, size: int) -> None:
        """Take some bytes from the budget.

        Raises:
            UnknownPatchError: if it is used up.
        """
        self.budget -= size
        if self.budget < 0:
            raise UnknownPatchError("the templates have too many bytes to be merged")


@dataclass(slots=True)
class _Composition:
    """The spec of a pod in work: the paths of its parts in the object, and whether they are all of them."""

    spec: dict[str, object]
    places: dict[str, str]
    completeness: Completeness = Completeness.WHOLE


def compose_workflow_template(
    content: msgspec.Raw, path: str, workflow: PlacedSpec
) -> tuple[dict[str, object], dict[str, str], Completeness]:
    """Return the pod template of a template at a path, the paths of its parts, and whether they are all of them.

    Raises:
        msgspec.ValidationError: if a field has another type.
    """
    defaults = workflow.spec.template_defaults
    own, completeness = _TEMPLATE_DECODER.decode(content), Completeness.WHOLE
    merged = own
    if bytes(defaults) not in _EMPTY:
        completeness = Completeness.MERGED
        try:
            workflow.spend(len(bytes(defaults)) + len(bytes(content)))
            merged = _TEMPLATE_DECODER.decode(_merge_defaults(defaults, content))
        except UnknownPatchError:
            completeness = Completeness.PARTIAL
    places = dict(_list_places(own, merged, path, f"{workflow.path}.templateDefaults"))
    composition = _Composition(_create_pod_spec(merged, workflow.spec), places, completeness)
    claims_path = path if bytes(merged.resource_claims) not in _EMPTY else workflow.path
    composition.places["spec.resourceClaims"] = f"{claims_path}.resourceClaims"
    for patch, patch_path in (
        (workflow.spec.pod_spec_patch, f"{workflow.path}.podSpecPatch"),
        (merged.pod_spec_patch, f"{path}.podSpecPatch"),
    ):
        if patch:
            _apply_patch(composition, patch, patch_path, workflow)
    composition.places["spec"] = path
    return {"metadata": merged.metadata, "spec": composition.spec}, composition.places, composition.completeness


def _merge_defaults(defaults: msgspec.Raw, content: msgspec.Raw) -> msgspec.Raw:
    """Return a template merged into the defaults of all templates.

    Raises:
        UnknownPatchError: if the template has directives of a patch.
    """
    template = _FIELDS_DECODER.decode(content)
    kinds = {name for name in _TYPES if bytes(template.get(name, _RAW_NULL)) != _NULL}
    fields = _FIELDS_DECODER.decode(defaults)
    applicable = {name: field_value for name, field_value in fields.items() if name not in _TYPES or name in kinds}
    return merge_values(msgspec.Raw(msgspec.json.encode(applicable)), content)


def _create_pod_spec(template: _Template, spec: WorkflowSpec) -> dict[str, object]:
    """Return the spec of the pod of a template, without the patches."""
    main = [_name_main(each) for each in (template.container, template.script) if bytes(each) != _NULL]
    in_set = (template.container_set.containers if template.container_set else None) or []
    return {
        "containers": [*main, *in_set, *(template.sidecars or ())],
        "initContainers": template.init_containers or [],
        "resourceClaims": _choose(template.resource_claims, spec.resource_claims),
        "nodeSelector": _choose(template.node_selector, spec.node_selector),
        "affinity": _choose(template.affinity, spec.affinity),
        "tolerations": _choose(template.tolerations, spec.tolerations),
        "priorityClassName": _choose(template.priority_class_name, spec.pod_priority_class_name),
        "schedulerName": _choose(template.scheduler_name, spec.scheduler_name),
    }


def _choose(own: msgspec.Raw, default: msgspec.Raw) -> msgspec.Raw:
    return own if bytes(own) not in _EMPTY else default


def _name_main(container: msgspec.Raw) -> msgspec.Raw:
    """Return the container of a template with the name that the controller gives it."""
    fields = _FIELDS_DECODER.decode(container)
    return msgspec.Raw(msgspec.json.encode({**fields, "name": _MAIN}))


def _list_places(own: _Template, merged: _Template, path: str, defaults: str) -> Iterator[tuple[str, str]]:
    """Yield the places of the containers of a merged template: in the template, or in the defaults.

    The controller merges init containers and sidecars by their names.
    """
    index = 0
    for name, in_own, in_merged in (
        ("container", own.container, merged.container),
        ("script", own.script, merged.script),
    ):
        if bytes(in_merged) != _NULL:
            yield f"spec.containers[{index}]", f"{path if bytes(in_own) != _NULL else defaults}.{name}"
            resources = _NAMED_DECODER.decode(in_merged).resources
            has_own = bytes(in_own) != _NULL and bytes(_NAMED_DECODER.decode(in_own).resources) != _NULL
            if bytes(resources) != _NULL and not has_own:
                yield f"spec.containers[{index}].resources", f"{defaults}.{name}.resources"
            index += 1
    for number in range(len((merged.container_set.containers if merged.container_set else None) or ())):
        place = path if own.container_set is not None and own.container_set.containers else defaults
        yield f"spec.containers[{index + number}]", f"{place}.containerSet.containers[{number}]"
    index += len((merged.container_set.containers if merged.container_set else None) or ())
    for name, pod_field, first, written, all_items in (
        ("sidecars", "containers", index, own.sidecars, merged.sidecars),
        ("initContainers", "initContainers", 0, own.init_containers, merged.init_containers),
    ):
        indices = {_NAMED_DECODER.decode(entry).name: number for number, entry in enumerate(written or ())}
        for number, item in enumerate(all_items or ()):
            own_index = indices.get(_NAMED_DECODER.decode(item).name)
            place = f"{path}.{name}[{own_index}]" if own_index is not None else f"{defaults}.{name}"
            yield f"spec.{pod_field}[{first + number}]", place


def _apply_patch(composition: _Composition, patch: str, path: str, workflow: PlacedSpec) -> None:
    """Apply a patch of the spec of a pod; the pods are unknown in part if the patch is not known before."""
    try:
        spec = msgspec.Raw(msgspec.json.encode(composition.spec))
        workflow.spend(len(bytes(spec)) + len(patch) * _COST_OF_YAML)
        content = read_patch(patch)
        patched = _PATCHED_DECODER.decode(content)
        merged = _FIELDS_DECODER.decode(merge_values(spec, content))
    except (UnknownPatchError, msgspec.DecodeError):
        composition.completeness = Completeness.PARTIAL
        return
    composition.spec = dict(merged)
    if composition.completeness is Completeness.WHOLE:
        composition.completeness = Completeness.MERGED
    if bytes(patched.resource_claims) not in _EMPTY:
        composition.places["spec.resourceClaims"] = path
    result = _PATCHED_DECODER.decode(msgspec.json.encode(composition.spec))
    for pod_field, changes, items in (
        ("containers", patched.containers, result.containers),
        ("initContainers", patched.init_containers, result.init_containers),
    ):
        changed = {change.name: bytes(change.resources) != _NULL for change in changes or ()}
        for index, item in enumerate(items or ()):
            if item.name in changed:
                place = f"spec.{pod_field}[{index}]"
                if place not in composition.places:
                    composition.places[place] = path
                elif changed[item.name]:
                    composition.places[f"{place}.resources"] = path


_PARAMETER = "{{"
_MAX_DEPTH = 12  # the resources of a container are five levels deep
_LIMITS = Limits(size=16 * 1024, depth=60, documents=1, nodes=2_000, expanded=2_000)
_MERGED_LISTS = frozenset({"containers", "initContainers", "ephemeralContainers", "sidecars", "resourceClaims"})
"""The lists whose items are merged by name; others are replaced, or decide nothing here."""

_ITEMS_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class UnknownPatchError(TallygateError):
    """A patch that is not known before, or that has directives."""


class _MergedItem(msgspec.Struct):
    name: str | None = None


_MERGED_ITEM_DECODER = msgspec.json.Decoder(_MergedItem)


def read_patch(text: str) -> msgspec.Raw:
    """Return the JSON of a patch, YAML or JSON.

    Raises:
        UnknownPatchError: if the patch has parameters, is too long, or is no mapping.
    """
    if _PARAMETER in text or len(text) > _LIMITS.size:
        raise UnknownPatchError("the patch is not known before")
    content = _parse_patch(text)
    if content is None:
        raise UnknownPatchError("the patch is no mapping")
    return content


@lru_cache(maxsize=64)  # all templates of a Workflow have the patch of its spec
def _parse_patch(text: str) -> msgspec.Raw | None:
    try:
        documents = list(read_documents(text, _LIMITS))
        if len(documents) == 1 and isinstance(documents[0].root, Mapping):
            return msgspec.Raw(to_json(documents[0].root, _LIMITS.expanded))
    except DocumentError:
        pass
    return None


def merge_values(base: msgspec.Raw, patch: msgspec.Raw) -> msgspec.Raw:
    """Return the JSON of a mapping with the values of a patch.

    Raises:
        UnknownPatchError: if the patch has directives.
        msgspec.DecodeError: if a value of the patch has another type than that of the base.
    """
    return _merge_mappings(base, patch, 0)


def _merge_mappings(base: msgspec.Raw, patch: msgspec.Raw, depth: int) -> msgspec.Raw:
    fields = _FIELDS_DECODER.decode(base)
    for name, value in _FIELDS_DECODER.decode(patch).items():
        if name.startswith("$"):
            raise UnknownPatchError(f"{name} is a directive")
        if bytes(value) == _NULL:
            fields.pop(name, None)
        elif name in fields and bytes(fields[name]) != _NULL:
            fields[name] = _merge(name, fields[name], value, depth + 1)
        else:
            fields[name] = value
    return _encode(fields)


def _merge(name: str, base: msgspec.Raw, patch: msgspec.Raw, depth: int) -> msgspec.Raw:
    is_mapping = bytes(patch).startswith(b"{") and bytes(base).startswith(b"{")
    if is_mapping and depth < _MAX_DEPTH:
        return _merge_mappings(base, patch, depth)
    if name in _MERGED_LISTS and bytes(base).startswith(b"["):
        return _encode(_merge_lists(_ITEMS_DECODER.decode(base), _ITEMS_DECODER.decode(patch), depth))
    return patch


def _merge_lists(base: Iterable[msgspec.Raw], patch: Iterable[msgspec.Raw], depth: int) -> list[msgspec.Raw]:
    """Return the items of a list, each with the changes of its name, and then the new ones."""
    changes = {_MERGED_ITEM_DECODER.decode(patched).name: patched for patched in patch}
    merged: list[msgspec.Raw] = []
    for item in base:
        change = changes.pop(_MERGED_ITEM_DECODER.decode(item).name, None)
        merged.append(item if change is None else _merge_mappings(item, change, depth + 1))
    return [*merged, *(_merge_mappings(msgspec.Raw(b"{}"), change, depth + 1) for change in changes.values())]


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
