"""The pod sets of an object: its pod templates with their paths and numbers of pods, by the definition of its kind.

The reader decodes the fields on the way to the templates and counts, each once, and the templates. Everything else of
the object stays undecoded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import msgspec

from tallygate.webhook.admission.pod_view import PodView, ReplicaCount
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.objects.core import Pod
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.policy.workload_kinds import (
    MAX_COUNT,
    CountFactor,
    CountField,
    FieldPath,
    PathStep,
    PodForm,
    PodSetDefinition,
    Wildcard,
    WorkloadKind,
)

_NULL = b"null"
_POD_DECODER = msgspec.json.Decoder(Pod)
_MAPPING_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_SCALAR_DECODER = msgspec.json.Decoder(int | str | bool | None)
_COUNT_PATTERN = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_NAME_FIELDS = ("name", "groupName")

_Place = tuple[str | int, ...]
"""The keys and indices from the top of an object to a value."""


MAX_ITEMS = 2_000
"""Items of lists and mappings on the way to the templates of an object; each takes some time to read."""


class TooManyItemsError(TallygateError, ValueError):
    """An object has more items on the way to its pod templates than are read; the text names them."""


class CustomWorkload(msgspec.Struct, frozen=True):
    """An object of a kind by definition: its metadata and its pod sets."""

    metadata: ObjectMeta | None
    pod_sets: tuple[PodView, ...]


class _Metadata(msgspec.Struct):
    metadata: ObjectMeta | None = None


_METADATA_DECODER = msgspec.json.Decoder(_Metadata)


def read_custom_workload(kind: WorkloadKind, content: bytes | msgspec.Raw) -> CustomWorkload:
    """Read an object of a kind.

    Raises:
        msgspec.ValidationError: if a template, or a field on the way to one or to a count, has another type; the text
            names the field.
        TooManyItemsError: if more items are on the way to the templates than are read.
    """
    reader = _Reader(content)
    is_suspended = any(reader.read_scalar(_to_place(path)) is True for path in kind.suspended)
    pod_sets = tuple(
        pod_view
        for definition in kind.pod_sets
        for pod_view in reader.read_pod_sets(definition, is_suspended=is_suspended)
    )
    return CustomWorkload(_METADATA_DECODER.decode(content).metadata, pod_sets)


class _Reader:
    """The values of one object; each mapping and list is decoded once."""

    def __init__(self, content: bytes | msgspec.Raw) -> None:
        self._root = msgspec.Raw(bytes(content))
        self._item_count = 0
        self._children: dict[_Place, Mapping[str, msgspec.Raw] | Sequence[msgspec.Raw]] = {}

    def read_pod_sets(self, definition: PodSetDefinition, *, is_suspended: bool) -> Iterator[PodView]:
        """Yield the pods of each template."""
        seen: set[_Place] = set()
        for path in definition.templates:
            for place in self._expand(path.steps, ()):
                bound = _list_bound(path, place)
                if bound in seen:
                    continue  # an earlier path has the template of this item
                content = self.find(place)
                if content is None:
                    continue
                seen.add(bound)
                yield self._create_view(definition, place, bound, content, is_suspended=is_suspended)

    def find(self, place: _Place) -> msgspec.Raw | None:
        """Return the value at a place; None if it is absent or null."""
        if not place:
            return self._root
        children, key = self._list_children(place[:-1], place[-1]), place[-1]
        if isinstance(children, Mapping):
            value = children.get(str(key))
        else:
            value = children[key] if isinstance(key, int) and key < len(children) else None
        return None if value is None or bytes(value) == _NULL else value

    def _list_children(self, place: _Place, key: str | int) -> Mapping[str, msgspec.Raw] | Sequence[msgspec.Raw]:
        """Return the values of a mapping, or of a list if the key is an index; none if the value is absent.

        Raises:
            msgspec.ValidationError: if the value has another type.
        """
        children = self._children.get(place)
        if children is None:
            content = self.find(place)
            decoder = _LIST_DECODER if isinstance(key, int) else _MAPPING_DECODER
            try:
                children = {} if content is None else decoder.decode(content)
            except msgspec.ValidationError as error:
                raise _locate_error(error, format_place(place), {}) from error
            self._children[place] = children
        return children

    def _expand(self, steps: Sequence[PathStep], place: _Place) -> Iterator[_Place]:
        """Yield the places that the steps below a place stand for."""
        for index, step in enumerate(steps):
            if step is Wildcard.ITEMS:
                items = self._list_children(place, 0)
                self._count_items(place, len(items))
                for number in range(len(items)):
                    yield from self._expand(steps[index + 1 :], (*place, number))
                return
            if step is Wildcard.VALUES:
                children = self._list_children(place, "")
                self._count_items(place, len(children))
                for key in children if isinstance(children, Mapping) else ():
                    yield from self._expand(steps[index + 1 :], (*place, key))
                return
            place = (*place, step)
        yield place

    def _count_items(self, place: _Place, count: int) -> None:
        self._item_count += count
        if self._item_count > MAX_ITEMS:
            text = f"{format_place(place)} has {count:,} items; at most {MAX_ITEMS:,} are read of an object"
            raise TooManyItemsError(text)

    def _create_view(
        self, definition: PodSetDefinition, place: _Place, bound: _Place, content: msgspec.Raw, *, is_suspended: bool
    ) -> PodView:
        count = 0 if is_suspended else self._multiply(definition.counts, bound)
        most = 0
        if definition.most and not is_suspended and self._is_autoscaled(definition.autoscaled, bound):
            most = self._multiply(definition.most, bound)
        path = format_place(place)
        places: Mapping[str, str] = {}
        try:
            template, places = compose_template(definition.form, content, path)
            pod = _POD_DECODER.decode(template)
        except msgspec.ValidationError as error:
            raise _locate_error(error, path, places) from error
        return PodView(
            path=f"{path}.",
            pod=pod,
            is_template=True,
            replicas=ReplicaCount(count, definition.noun, most=max(most, count)),
            identity=self._identify(place),
            content=template,
            places=places,
        )

    def _is_autoscaled(self, field: FieldPath | None, bound: _Place) -> bool:
        return field is None or self.read_scalar(_bind(field, bound)) is True

    def _multiply(self, factors: Iterable[CountFactor], bound: _Place) -> int:
        return prod(self._find_smallest(factor, bound) for factor in factors)

    def _find_smallest(self, factor: CountFactor, bound: _Place) -> int:
        counts = [count for field in factor if (count := self._read_count(field, bound)) is not None]
        return max(min(counts, default=1), 0)

    def _read_count(self, field: CountField, bound: _Place) -> int | None:
        value = self.read_scalar(_bind(field.path, bound))
        if isinstance(value, str):
            value = int(value) if _COUNT_PATTERN.fullmatch(value) else None
        if not isinstance(value, int) or isinstance(value, bool):
            value = field.default
        return None if value is None else min(value, MAX_COUNT) - field.minus

    def read_scalar(self, place: _Place) -> int | str | bool | None:
        """Return a number, text or boolean; None if it is absent or something else."""
        content = self.find(place)
        try:
            return None if content is None else _SCALAR_DECODER.decode(content)
        except msgspec.DecodeError:
            return None

    def _identify(self, place: _Place) -> str:
        """Return the place with names in the place of indices: an item keeps its name when others come before it."""
        parts: list[str] = []
        for length, step in enumerate(place, 1):
            names = (
                [self.read_scalar((*place[:length], field)) for field in _NAME_FIELDS] if isinstance(step, int) else []
            )
            parts.append(next((each for each in names if isinstance(each, str) and each), str(step)))
        return "/".join(parts)


def _to_place(path: FieldPath) -> _Place:
    return tuple(str(step) for step in path.steps)


def _list_bound(path: FieldPath, place: _Place) -> _Place:
    """Return the part of a place up to the value of the last wildcard of its path."""
    last = max((index for index, step in enumerate(path.steps) if isinstance(step, Wildcard)), default=-1)
    return place[: last + 1]


def _bind(path: FieldPath, bound: _Place) -> _Place:
    """Return the place of a path whose wildcards stand for the same items as those of a template."""
    return tuple(bound[index] if isinstance(step, Wildcard) else str(step) for index, step in enumerate(path.steps))


def format_place(place: _Place) -> str:
    """Return a place as a field path of Kubernetes: `spec.replicatedJobs[0].template`."""
    text = ""
    for step in place:
        if isinstance(step, int) or "/" in step or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _locate_error(error: msgspec.ValidationError, path: str, places: Mapping[str, str]) -> msgspec.ValidationError:
    """Return the error of a value at a path in an object, with the path of the field in the object."""
    text, _, inner = str(error).partition(" - at `$")
    field = inner.rstrip("`").removeprefix(".")
    if field or path:
        separator = "" if field.startswith("[") or not field else "."
        pod_view = PodView(f"{path}{separator}", Pod(), is_template=True, places=places)
        text += f" - at `$.{pod_view.locate(field)}`"
    return msgspec.ValidationError(text)


def compose_template(form: PodForm, content: msgspec.Raw, path: str) -> tuple[msgspec.Raw, Mapping[str, str]]:
    """Return the JSON of a pod template, and the paths in the object of those fields that are not below `path`.

    Raises:
        ValueError: if a field of a workflow's template has another type.
    """
    match form:
        case PodForm.TEMPLATE:
            return content, {}
        case PodForm.SPEC:
            return msgspec.Raw(b'{"spec":' + bytes(content) + b"}"), {"spec": path}
        case PodForm.RESOURCES:
            body = b'{"spec":{"containers":[{"name":"","resources":' + bytes(content) + b"}]}}"
            return msgspec.Raw(body), {"spec.containers[0].resources": path}
        case PodForm.WORKFLOW:
            return _compose_workflow_template(content, path)


class _ContainerSet(msgspec.Struct):
    containers: list[msgspec.Raw] | None = None


class _WorkflowTemplate(msgspec.Struct, rename="camel"):
    """A template of an Argo Workflow (pkg/apis/workflow/v1alpha1/workflow_types.go, Template)."""

    metadata: msgspec.Raw = msgspec.Raw(b"null")
    container: msgspec.Raw = msgspec.Raw(b"null")
    script: msgspec.Raw = msgspec.Raw(b"null")
    container_set: _ContainerSet | None = None
    sidecars: list[msgspec.Raw] | None = None
    init_containers: list[msgspec.Raw] | None = None
    node_selector: msgspec.Raw = msgspec.Raw(b"null")
    affinity: msgspec.Raw = msgspec.Raw(b"null")
    tolerations: msgspec.Raw = msgspec.Raw(b"null")
    priority_class_name: msgspec.Raw = msgspec.Raw(b"null")
    scheduler_name: msgspec.Raw = msgspec.Raw(b"null")


_WORKFLOW_TEMPLATE_DECODER = msgspec.json.Decoder(_WorkflowTemplate)


def _compose_workflow_template(content: msgspec.Raw, path: str) -> tuple[msgspec.Raw, Mapping[str, str]]:
    template = _WORKFLOW_TEMPLATE_DECODER.decode(content)
    main = {
        name: each
        for name, each in (("container", template.container), ("script", template.script))
        if bytes(each) != _NULL
    }
    in_set = (template.container_set.containers if template.container_set else None) or ()
    written = [
        *((f"{path}.{name}", each) for name, each in main.items() if bytes(each) != _NULL),
        *((f"{path}.containerSet.containers[{index}]", each) for index, each in enumerate(in_set)),
        *((f"{path}.sidecars[{index}]", each) for index, each in enumerate(template.sidecars or ())),
    ]
    places = {f"spec.containers[{index}]": place for index, (place, _) in enumerate(written)}
    places |= {
        f"spec.initContainers[{index}]": f"{path}.initContainers[{index}]"
        for index in range(len(template.init_containers or ()))
    }
    spec = {
        "containers": [each for _, each in written],
        "initContainers": template.init_containers or [],
        "nodeSelector": template.node_selector,
        "affinity": template.affinity,
        "tolerations": template.tolerations,
        "priorityClassName": template.priority_class_name,
        "schedulerName": template.scheduler_name,
    }
    return msgspec.Raw(msgspec.json.encode({"metadata": template.metadata, "spec": spec})), {**places, "spec": path}
