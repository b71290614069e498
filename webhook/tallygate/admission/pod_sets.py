"""The pod sets of an object: its pod templates with their paths and numbers of pods, by the definition of its kind.

The reader decodes the fields on the way to the templates and counts, each once, and the templates. Everything else of
the object stays undecoded.

The number of pods of each pod set in an object, by the definition of its kind.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod

import msgspec

from tallygate.admission import object_values, pod_view
from tallygate.admission.pod_forms import compose_template
from tallygate.admission.workflow_pods import WorkflowPods, count_workflow_pods
from tallygate.admission.workflow_templates import PlacedSpec
from tallygate.objects.core import Pod
from tallygate.objects.meta import ObjectMeta
from tallygate.policy import workload_kinds

_POD_DECODER = msgspec.json.Decoder(Pod)
_SECONDS_DECODER = msgspec.json.Decoder(int | None)
_EMPTY = frozenset({b"null", b"[]", b"{}", b'""'})
_DECLARED_TEMPLATE = workload_kinds.PodSetDefinition(())
_FORMS_WITHOUT_PODS = frozenset(
    {workload_kinds.PodForm.WORKFLOW, workload_kinds.PodForm.TASK, workload_kinds.PodForm.TASK_RUN}
)
"""The forms of templates that may start others, or be elsewhere, and then have no containers."""
_DECLARED_STEP_PATTERN = re.compile(r"\[(\d{1,9})\]|\.?([^.\[\]]+)", re.ASCII)

ObjectReader = Callable[[msgspec.Raw], Sequence[pod_view.PodView] | None]
"""Returns the pods in an object of a kind that is read; None if it is of another kind."""


class CustomWorkload(msgspec.Struct, frozen=True):
    """An object of a kind by definition: its metadata and its pod sets."""

    metadata: ObjectMeta | None
    pod_sets: tuple[pod_view.PodView, ...]


class _Metadata(msgspec.Struct):
    metadata: ObjectMeta | None = None


class _DeclaredPods(msgspec.Struct):
    path: str = ""
    replicas: int | None = None


_METADATA_DECODER = msgspec.json.Decoder(_Metadata)
_DECLARED_DECODER = msgspec.json.Decoder(list[_DeclaredPods])


def read_custom_workload(
    kind: workload_kinds.WorkloadKind, content: bytes | msgspec.Raw, read_object: ObjectReader | None = None
) -> CustomWorkload:
    """Read an object of a kind; `read_object` reads the objects that it contains.

    Raises:
        msgspec.ValidationError: if a template, or a field on the way to one or to a count, has another type; the text
            names the field.
        TooManyItemsError: if more items are on the way to the templates than are read.
    """
    named = frozenset(
        tuple(map(str, path.steps))
        for pod_set in kind.pod_sets
        for path in pod_set.templates
        if not path.wildcard_count
    )
    reader = _Reader(content, read_object, named)
    pod_sets = tuple(reader.read_pod_sets(kind))
    return CustomWorkload(_METADATA_DECODER.decode(content).metadata, pod_sets)


class _Reader:
    """The values of one object, its pods and their numbers."""

    def __init__(
        self, content: bytes | msgspec.Raw, read_object: ObjectReader | None, named: frozenset[object_values.Place]
    ) -> None:
        self._values = object_values.ObjectValues(content)
        self._counter = PodCounter(self._values)
        self._read_object = read_object
        self._named = named  # the templates without wildcards in their paths
        self._workflows: dict[object_values.Place, PlacedSpec] = {}

    def read_pod_sets(self, kind: workload_kinds.WorkloadKind) -> Iterator[pod_view.PodView]:
        is_suspended = not self._counter.starts_pods(kind, ())
        for definition in kind.pod_sets:
            yield from self._read_pod_sets(definition, is_suspended=is_suspended)

    def _read_pod_sets(
        self, definition: workload_kinds.PodSetDefinition, *, is_suspended: bool
    ) -> Iterator[pod_view.PodView]:
        seen: set[object_values.Place] = set()
        for path in definition.templates:
            for place in self._values.expand(path.steps, ()):
                bound = object_values.list_bound(path, place)
                if bound in seen or (bound and place in self._named):
                    continue  # another path has the template of this item
                content = self._values.find(place)
                if content is None:
                    continue
                seen.add(bound)
                stops = is_suspended or not self._counter.starts_pods(definition, bound)
                if definition.form is workload_kinds.PodForm.OBJECT:
                    yield from self._read_contained(definition, place, content, is_suspended=stops)
                    continue
                replicas = None
                if definition.is_used:
                    replicas = self._counter.count(definition, place, bound, is_suspended=stops)
                view = self._create_view(definition, place, content, replicas)
                if definition.form not in _FORMS_WITHOUT_PODS or _has_containers(view.pod):
                    yield view

    def _create_view(
        self,
        definition: workload_kinds.PodSetDefinition,
        place: object_values.Place,
        content: msgspec.Raw,
        replicas: pod_view.ReplicaCount | None,
    ) -> pod_view.PodView:
        path = object_values.format_place(place)
        places: Mapping[str, str] = {}
        workflow = None if definition.workflow is None else self._read_workflow(definition.workflow)
        try:
            composed = compose_template(definition.form, content, path, workflow)
            places = composed.places
            pod = _POD_DECODER.decode(composed.content)
        except msgspec.ValidationError as error:
            raise object_values.locate_error(error, path, places) from error
        return pod_view.PodView(
            path=f"{path}.",
            pod=pod,
            is_template=True,
            replicas=replicas,
            identity=self._values.identify(place),
            content=composed.content,
            places=composed.places,
            amounts=composed.amounts,
            completeness=pod_view.Completeness.PARTIAL if self._is_part(definition) else composed.completeness,
            job=self._find_job_deadline(place) if definition.is_of_job else None,
        )

    def _find_job_deadline(self, template: object_values.Place) -> pod_view.JobDeadline:
        """Return the deadline of the Job with a template.

        Raises:
            msgspec.ValidationError: if it is no whole number; the text names the field.
        """
        place = (*template[:-1], "activeDeadlineSeconds")
        path, content = object_values.format_place(place), self._values.find(place)
        try:
            return pod_view.JobDeadline(path, None if content is None else _SECONDS_DECODER.decode(content))
        except msgspec.ValidationError as error:
            raise object_values.locate_error(error, path, {}) from error

    def _is_part(self, definition: workload_kinds.PodSetDefinition) -> bool:
        """Return whether another object has further parts of the templates of a definition."""
        content = (
            self._values.find(object_values.bind(definition.completed_by, ()))
            if definition.completed_by is not None
            else None
        )
        return definition.is_part or (content is not None and bytes(content) not in _EMPTY)

    def _read_workflow(self, path: workload_kinds.FieldPath) -> PlacedSpec:
        """Return the spec of the Workflow at a path, decoded once."""
        place = object_values.bind(path, ())
        if place not in self._workflows:
            content, text = self._values.find(place), object_values.format_place(place)
            try:
                self._workflows[place] = PlacedSpec() if content is None else PlacedSpec.decode(content, text)
            except msgspec.ValidationError as error:
                raise object_values.locate_error(error, text, {}) from error
        return self._workflows[place]

    def _read_contained(
        self,
        definition: workload_kinds.PodSetDefinition,
        place: object_values.Place,
        content: msgspec.Raw,
        *,
        is_suspended: bool,
    ) -> Iterator[pod_view.PodView]:
        """Yield the pods of an object in the object, or those that are declared for it if its kind is not read."""
        views = self._read_object(content) if self._read_object is not None else None
        if views is None:
            yield from self._read_declared(definition, place, is_suspended=is_suspended)
            return
        path = object_values.format_place(place)
        for view in views:
            replicas = view.replicas if view.is_template else pod_view.ReplicaCount(1, "pods")
            if is_suspended and replicas is not None:
                replicas = pod_view.ReplicaCount(0, replicas.noun)
            yield msgspec.structs.replace(
                view,
                path=f"{path}.{view.path}",
                is_template=True,
                replicas=replicas,
                identity=f"{self._values.identify(place)}/{view.identity or view.path}",
                content=pod_view.read_template(view, content),
                places=view.places and {name: f"{path}.{place}" for name, place in view.places.items()},
                amounts={f"{path}.{name}": f"{path}.{amount}" for name, amount in (view.amounts or {}).items()},
                job=view.job and view.job._replace(path=f"{path}.{view.job.path}"),
            )

    def _read_declared(
        self, definition: workload_kinds.PodSetDefinition, place: object_values.Place, *, is_suspended: bool
    ) -> Iterator[pod_view.PodView]:
        """Yield the pods of the templates whose paths are declared beside an object.

        Raises:
            ValueError: if the declaration has another type.
        """
        declared = (
            self._values.find(object_values.bind(definition.declared, place))
            if definition.declared is not None
            else None
        )
        for declared_set in _DECLARED_DECODER.decode(declared) if declared is not None else ():
            steps = [int(index) if index else key for index, key in _DECLARED_STEP_PATTERN.findall(declared_set.path)]
            if not steps or steps[0] != place[-1]:
                continue  # the project rejects such a path
            template_place = (*place[:-1], *steps)
            if (template := self._values.find(template_place)) is not None:
                count = 0 if is_suspended else max(1 if declared_set.replicas is None else declared_set.replicas, 0)
                replicas = pod_view.ReplicaCount(count, definition.noun)
                yield self._create_view(_DECLARED_TEMPLATE, template_place, template, replicas)


def _has_containers(pod: Pod) -> bool:
    return pod.spec is not None and bool(pod.spec.containers or pod.spec.init_containers)


_COUNT_PATTERN = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_STRATEGY_DECODER = msgspec.json.Decoder(pod_view.RolloutStrategy)


class _Assignment(msgspec.Struct):
    name: str = ""
    count: int | None = None


_ASSIGNMENTS_DECODER = msgspec.json.Decoder(list[_Assignment])


class PodCounter:
    """Counts the pods of the templates in one object."""

    def __init__(self, values: object_values.ObjectValues) -> None:
        self._values = values
        self._workflows: dict[object_values.Place, WorkflowPods | None] = {}

    def starts_pods(
        self, definition: workload_kinds.WorkloadKind | workload_kinds.PodSetDefinition, bound: object_values.Place
    ) -> bool:
        """Return whether no field suspends the pods, and each has the value that is expected."""
        return not any(self._values.is_set(path, bound) for path in definition.suspended) and all(
            self._is_expected(value, bound) for value in definition.expected
        )

    def _is_expected(self, expectation: workload_kinds.ExpectedValue, bound: object_values.Place) -> bool:
        value = self._values.read_scalar(object_values.bind(expectation.path, bound))
        text = str(value).lower() if isinstance(value, bool) else str(value or "")
        return text in {"", *expectation.values}

    def count(
        self,
        definition: workload_kinds.PodSetDefinition,
        place: object_values.Place,
        bound: object_values.Place,
        *,
        is_suspended: bool,
    ) -> pod_view.ReplicaCount:
        """Return the number of pods of the template at a place; `bound` is the item that its wildcards stand for."""
        noun, is_separate = definition.noun, definition.is_separate
        if is_suspended:
            return pod_view.ReplicaCount(0, noun, is_separate=is_separate)
        if definition.workflow is not None:
            return self._count_in_workflow(definition.workflow, place, noun)
        if definition.references:
            return pod_view.ReplicaCount(self._count_references(definition.references, bound), noun)
        is_autoscaled = bool(definition.most) and self._is_autoscaled(definition.autoscaled, bound)
        count = self._multiply((is_autoscaled and definition.scaled) or definition.counts, bound)
        if definition.rollout is not None:
            strategy = self._values.find(object_values.bind(definition.rollout, bound))
            return pod_view.count_rollout_pods(
                count, _STRATEGY_DECODER.decode(strategy) if strategy else pod_view.RolloutStrategy()
            )
        most = self._multiply(definition.most, bound) if is_autoscaled else 0
        # The largest number is the default of a project for no limit.
        replicas = pod_view.ReplicaCount(
            count, noun, most=most if count < most < workload_kinds.MAX_COUNT else 0, is_separate=is_separate
        )
        is_doubled = definition.doubled is not None and self._is_expected(definition.doubled, bound)
        return pod_view.double_in_rollout(replicas) if is_doubled else replicas

    def _count_references(
        self, references: Iterable[workload_kinds.TemplateReference], bound: object_values.Place
    ) -> int:
        """Return the number of pods of the items that refer to the template by its name."""
        name = self._values.read_scalar((*bound, "name"))
        count = 0
        for reference in references:
            for place in self._values.expand(reference.name.steps, ()):
                if name and self._values.read_scalar(place) == name:
                    count += self._multiply(reference.counts, object_values.list_bound(reference.name, place))
        return count

    def _count_in_workflow(
        self, path: workload_kinds.FieldPath, place: object_values.Place, noun: str
    ) -> pod_view.ReplicaCount:
        """Return the number of pods of a template by the steps of its Workflow."""
        workflow_place = object_values.bind(path, ())
        if workflow_place not in self._workflows:
            content = self._values.find(workflow_place)
            try:
                pods = None if content is None else count_workflow_pods(content)
            except msgspec.ValidationError as error:
                raise object_values.locate_error(error, object_values.format_place(workflow_place), {}) from error
            self._workflows[workflow_place] = pods
        if (pods := self._workflows[workflow_place]) is None:
            return pod_view.ReplicaCount(1, noun, is_separate=True)
        inner = place[len(workflow_place) :]
        is_first = inner in pods.at_start
        count = pods.at_start[inner] if is_first else pods.later.get(inner, 0)
        return pod_view.ReplicaCount(count, noun, is_separate=True, is_first=is_first)

    def _is_autoscaled(self, field: workload_kinds.FieldPath | None, bound: object_values.Place) -> bool:
        return field is None or (
            self._values.find(place := object_values.bind(field, bound)) is not None
            and self._values.read_scalar(place) is not False
        )

    def _multiply(self, factors: Iterable[workload_kinds.CountFactor], bound: object_values.Place) -> int:
        return prod(self._find_smallest(factor, bound) for factor in factors)

    def _find_smallest(self, factor: workload_kinds.CountFactor, bound: object_values.Place) -> int:
        counts = [count for field in factor if (count := self._read_count(field, bound)) is not None]
        return max(min(counts, default=1), 0)

    def _read_count(self, field: workload_kinds.CountField, bound: object_values.Place) -> int | None:
        count = self._read_number(field.path, bound)
        count = field.default if count is None else count
        if field.assigned is not None:
            count = self._find_assigned(field.assigned, bound, count)
        if field.quotient is not None:
            count = self._divide(field.quotient, bound) or count
        if count is None:
            return None
        floors = [number for floor in field.floors if (number := self._read_number(floor, bound)) is not None]
        return min(max((count, *floors)), workload_kinds.MAX_COUNT) - field.minus

    def _divide(
        self, fields: tuple[workload_kinds.FieldPath, workload_kinds.FieldPath], bound: object_values.Place
    ) -> int:
        """Return the quotient of two fields, at least 1; 0 if none of them is positive."""
        whole, part = (max(self._read_number(field, bound) or 0, 0) for field in fields)
        return max(max(whole, 1) // max(part, 1), 1) if whole or part else 0

    def _find_assigned(
        self, path: workload_kinds.FieldPath, bound: object_values.Place, count: int | None
    ) -> int | None:
        """Return the count of the assignment with the name of an item; else the count of the item."""
        content = self._values.find(object_values.bind(path, ()))
        assignments = _ASSIGNMENTS_DECODER.decode(content) if content is not None else ()
        counts = {assignment.name: assignment.count for assignment in assignments if assignment.count is not None}
        return counts.get(str(self._values.read_scalar((*bound, "name"))), count)

    def _read_number(self, path: workload_kinds.FieldPath, bound: object_values.Place) -> int | None:
        value = self._values.read_scalar(object_values.bind(path, bound))
        if isinstance(value, str):
            return int(value) if _COUNT_PATTERN.fullmatch(value) else None
        return None if isinstance(value, bool) else value
