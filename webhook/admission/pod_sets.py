"""The pod sets of an object: its pod templates with their paths and numbers of pods, by the definition of its kind.

The reader decodes the fields on the way to the templates and counts, each once, and the templates. Everything else of
the object stays undecoded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod

import msgspec

from tallygate.webhook.admission.pod_forms import compose_template
from tallygate.webhook.admission.pod_view import (
    PodView,
    ReplicaCount,
    RolloutStrategy,
    count_rollout_pods,
    read_template,
)
from tallygate.webhook.admission.workflow_pods import WorkflowPods, count_workflow_pods
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

_DECLARED_STEP_PATTERN = re.compile(r"\[(\d{1,9})\]|\.?([^.\[\]]+)", re.ASCII)

ObjectReader = Callable[[msgspec.Raw], Sequence[PodView] | None]
"""Returns the pods in an object of a kind that is read; None if it is of another kind."""

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


class _DeclaredPods(msgspec.Struct):
    path: str = ""
    replicas: int | None = None


class _Assignment(msgspec.Struct):
    name: str = ""
    count: int | None = None


_ASSIGNMENTS_DECODER = msgspec.json.Decoder(list[_Assignment])
_METADATA_DECODER = msgspec.json.Decoder(_Metadata)
_STRATEGY_DECODER = msgspec.json.Decoder(RolloutStrategy)
_DECLARED_DECODER = msgspec.json.Decoder(list[_DeclaredPods])


def read_custom_workload(
    kind: WorkloadKind, content: bytes | msgspec.Raw, read_object: ObjectReader | None = None
) -> CustomWorkload:
    """Read an object of a kind; `read_object` reads the objects that it contains.

    Raises:
        msgspec.ValidationError: if a template, or a field on the way to one or to a count, has another type; the text
            names the field.
        TooManyItemsError: if more items are on the way to the templates than are read.
    """
    named = frozenset(
        tuple(map(str, path.steps)) for each in kind.pod_sets for path in each.templates if not path.wildcard_count
    )
    reader = _Reader(content, read_object, named)
    is_suspended = not reader.starts_pods(kind, ())
    pod_sets = tuple(
        pod_view
        for definition in kind.pod_sets
        for pod_view in reader.read_pod_sets(definition, is_suspended=is_suspended)
    )
    return CustomWorkload(_METADATA_DECODER.decode(content).metadata, pod_sets)


class _Reader:
    """The values of one object; each mapping and list is decoded once."""

    def __init__(
        self, content: bytes | msgspec.Raw, read_object: ObjectReader | None, named: frozenset[_Place]
    ) -> None:
        self._root = msgspec.Raw(bytes(content))
        self._item_count = 0
        self._read_object = read_object
        self._named = named  # the templates without wildcards in their paths
        self._children: dict[_Place, Mapping[str, msgspec.Raw] | Sequence[msgspec.Raw]] = {}
        self._workflows: dict[_Place, WorkflowPods | None] = {}

    def read_pod_sets(self, definition: PodSetDefinition, *, is_suspended: bool) -> Iterator[PodView]:
        """Yield the pods of each template."""
        seen: set[_Place] = set()
        for path in definition.templates:
            for place in self._expand(path.steps, ()):
                bound = _list_bound(path, place)
                if bound in seen or (bound and place in self._named):
                    continue  # another path has the template of this item
                content = self.find(place)
                if content is None:
                    continue
                seen.add(bound)
                stops = is_suspended or not self.starts_pods(definition, bound)
                if definition.form is PodForm.OBJECT:
                    yield from self._read_contained(definition, place, content, is_suspended=stops)
                else:
                    replicas = self._count(definition, place, bound, is_suspended=stops) if definition.is_used else None
                    view = self._create_view(definition.form, place, content, replicas)
                    if definition.form is not PodForm.WORKFLOW or _has_containers(view.pod):
                        yield view

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
        self, form: PodForm, place: _Place, content: msgspec.Raw, replicas: ReplicaCount | None
    ) -> PodView:
        path = format_place(place)
        places: Mapping[str, str] = {}
        try:
            composed = compose_template(form, content, path)
            places = composed.places
            pod = _POD_DECODER.decode(composed.content)
        except msgspec.ValidationError as error:
            raise _locate_error(error, path, places) from error
        return PodView(
            path=f"{path}.",
            pod=pod,
            is_template=True,
            replicas=replicas,
            identity=self._identify(place),
            content=composed.content,
            places=composed.places,
            amounts=composed.amounts,
        )

    def _count(self, definition: PodSetDefinition, place: _Place, bound: _Place, *, is_suspended: bool) -> ReplicaCount:
        noun, is_separate = definition.noun, definition.is_separate
        if is_suspended:
            return ReplicaCount(0, noun, is_separate=is_separate)
        if definition.workflow is not None:
            return self._count_in_workflow(definition.workflow, place, noun)
        is_autoscaled = bool(definition.most) and self._is_autoscaled(definition.autoscaled, bound)
        count = self._multiply((is_autoscaled and definition.scaled) or definition.counts, bound)
        if definition.rollout is not None:
            strategy = self.find(_bind(definition.rollout, bound))
            return count_rollout_pods(count, _STRATEGY_DECODER.decode(strategy) if strategy else RolloutStrategy())
        most = self._multiply(definition.most, bound) if is_autoscaled else 0
        # The largest number is the default of a project for no limit.
        return ReplicaCount(count, noun, most=most if count < most < MAX_COUNT else 0, is_separate=is_separate)

    def _count_in_workflow(self, path: FieldPath, place: _Place, noun: str) -> ReplicaCount:
        """Return the number of pods of a template by the steps of its Workflow."""
        workflow_place = _bind(path, ())
        if workflow_place not in self._workflows:
            content = self.find(workflow_place)
            try:
                pods = None if content is None else count_workflow_pods(content)
            except msgspec.ValidationError as error:
                raise _locate_error(error, format_place(workflow_place), {}) from error
            self._workflows[workflow_place] = pods
        if (pods := self._workflows[workflow_place]) is None:
            return ReplicaCount(1, noun, is_separate=True)
        inner = place[len(workflow_place) :]
        is_first = inner in pods.at_start
        count = pods.at_start[inner] if is_first else pods.later.get(inner, 0)
        return ReplicaCount(count, noun, is_separate=True, is_first=is_first)

    def _read_contained(
        self, definition: PodSetDefinition, place: _Place, content: msgspec.Raw, *, is_suspended: bool
    ) -> Iterator[PodView]:
        """Yield the pods of an object in the object, or those that are declared for it if its kind is not read."""
        views = self._read_object(content) if self._read_object is not None else None
        if views is None:
            yield from self._read_declared(definition, place, is_suspended=is_suspended)
            return
        path = format_place(place)
        for view in views:
            replicas = view.replicas if view.is_template else ReplicaCount(1, "pods")
            if is_suspended and replicas is not None:
                replicas = ReplicaCount(0, replicas.noun)
            yield msgspec.structs.replace(
                view,
                path=f"{path}.{view.path}",
                is_template=True,
                replicas=replicas,
                identity=f"{self._identify(place)}/{view.identity or view.path}",
                content=read_template(view, content),
                places=view.places and {name: f"{path}.{each}" for name, each in view.places.items()},
                amounts={f"{path}.{name}": f"{path}.{each}" for name, each in (view.amounts or {}).items()},
            )

    def _read_declared(self, definition: PodSetDefinition, place: _Place, *, is_suspended: bool) -> Iterator[PodView]:
        """Yield the pods of the templates whose paths are declared beside an object.

        Raises:
            ValueError: if the declaration has another type.
        """
        declared = self.find(_bind(definition.declared, place)) if definition.declared is not None else None
        for each in _DECLARED_DECODER.decode(declared) if declared is not None else ():
            steps = [int(index) if index else key for index, key in _DECLARED_STEP_PATTERN.findall(each.path)]
            if not steps or steps[0] != place[-1]:
                continue  # the project rejects such a path
            template_place = (*place[:-1], *steps)
            if (template := self.find(template_place)) is not None:
                count = 0 if is_suspended else max(1 if each.replicas is None else each.replicas, 0)
                yield self._create_view(
                    PodForm.TEMPLATE, template_place, template, ReplicaCount(count, definition.noun)
                )

    def _is_autoscaled(self, field: FieldPath | None, bound: _Place) -> bool:
        return field is None or (
            self.find(place := _bind(field, bound)) is not None and self.read_scalar(place) is not False
        )

    def _multiply(self, factors: Iterable[CountFactor], bound: _Place) -> int:
        return prod(self._find_smallest(factor, bound) for factor in factors)

    def _find_smallest(self, factor: CountFactor, bound: _Place) -> int:
        counts = [count for field in factor if (count := self._read_count(field, bound)) is not None]
        return max(min(counts, default=1), 0)

    def _read_count(self, field: CountField, bound: _Place) -> int | None:
        count = self._read_number(field.path, bound)
        count = field.default if count is None else count
        if field.assigned is not None:
            count = self._find_assigned(field.assigned, bound, count)
        if count is None:
            return None
        floors = [number for each in field.floors if (number := self._read_number(each, bound)) is not None]
        return min(max((count, *floors)), MAX_COUNT) - field.minus

    def _find_assigned(self, path: FieldPath, bound: _Place, count: int | None) -> int | None:
        """Return the count of the assignment with the name of an item; else the count of the item."""
        content = self.find(_bind(path, ()))
        assignments = _ASSIGNMENTS_DECODER.decode(content) if content is not None else ()
        counts = {each.name: each.count for each in assignments if each.count is not None}
        return counts.get(str(self.read_scalar((*bound, "name"))), count)

    def _read_number(self, path: FieldPath, bound: _Place) -> int | None:
        value = self.read_scalar(_bind(path, bound))
        if isinstance(value, str):
            return int(value) if _COUNT_PATTERN.fullmatch(value) else None
        return None if isinstance(value, bool) else value

    def starts_pods(self, definition: WorkloadKind | PodSetDefinition, bound: _Place) -> bool:
        """Return whether no field suspends the pods, and each has the value that is expected."""
        return not any(self._is_set(path, bound) for path in definition.suspended) and all(
            self._read_text(each.path, bound) in {"", *each.values} for each in definition.expected
        )

    def _read_text(self, path: FieldPath, bound: _Place) -> str:
        value = self.read_scalar(_bind(path, bound))
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def _is_set(self, path: FieldPath, bound: _Place) -> bool:
        """Return whether a field is true, a text that is neither empty nor `false`, or a mapping with keys."""
        content = self.find(_bind(path, bound))
        if content is not None and bytes(content).startswith(b"{"):
            return bool(_MAPPING_DECODER.decode(content))
        value = self.read_scalar(_bind(path, bound))
        return value is True or (isinstance(value, str) and value not in {"", "false"})

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


def _has_containers(pod: Pod) -> bool:
    return pod.spec is not None and bool(pod.spec.containers or pod.spec.init_containers)


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
