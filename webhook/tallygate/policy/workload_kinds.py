"""Definitions of kinds that contain pod templates: where the templates are, and how many pods each of them makes.

A path names fields from the top of an object: `spec.replicatedJobs[*].template`. A step `[*]` stands for each item of a
list; a step `*` for each value of a mapping, as in `spec.mpiReplicaSpecs.*.template`. A key with dots is written in
brackets and quotes: `metadata.annotations["example.com/key"]`.

The path of a count shares its wildcards with the path of the template: each stands for the same item in both.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tallygate.errors import TallygateError

_STEP_PATTERN = re.compile(
    r"""\.?(?P<field>[A-Za-z_][A-Za-z0-9_-]*)|\["(?P<key>[^"\\]+)"\]|(?P<items>\[\*\])|\.(?P<values>\*)"""
)
_MAX_LENGTH = 512
MAX_COUNT = 2**31 - 1
"""The largest number of pods in a field: counts are int32 in the API; products of them are Python ints."""


class PathError(TallygateError):
    """A path that cannot be read; `offset` is the index of the first character that is wrong."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class Wildcard(StrEnum):
    """A step of a path that stands for several values."""

    ITEMS = "[*]"
    VALUES = ".*"


PathStep = str | Wildcard
"""The name of a field, or a wildcard."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A path of fields; `text` is the path as written."""

    text: str
    steps: tuple[PathStep, ...]

    @staticmethod
    def parse(text: str) -> "FieldPath":
        """Read a path.

        Raises:
            PathError: if the text is no path.
        """
        if len(text) > _MAX_LENGTH:
            raise PathError(_MAX_LENGTH, f"a path has at most {_MAX_LENGTH} characters")
        return FieldPath(text, tuple(_split(text)))

    @property
    def wildcard_count(self) -> int:
        return sum(isinstance(step, Wildcard) for step in self.steps)

    def shares_wildcards(self, template: "FieldPath") -> bool:
        """Return whether each wildcard stands for the same items as one in the path of a template."""
        last = max((index for index, step in enumerate(self.steps) if isinstance(step, Wildcard)), default=-1)
        return self.steps[: last + 1] == template.steps[: last + 1]


def _split(text: str) -> Iterator[PathStep]:
    """Yield the steps of a path.

    Raises:
        PathError: if the text is no path.
    """
    offset = 0
    while offset < len(text) or not offset:
        match = _STEP_PATTERN.match(text, offset)
        is_first_wrong = not offset and (match is None or not match["field"] or text.startswith("."))
        is_joined = bool(match and offset and match["field"] and text[offset] != ".")
        if match is None or is_first_wrong or is_joined:
            example = "write field names with dots between them, such as spec.template"
            raise PathError(offset, f"{text[offset:] or 'an empty text'} is not a step of a path: {example}")
        if match["items"]:
            yield Wildcard.ITEMS
        elif match["values"]:
            yield Wildcard.VALUES
        else:
            yield match["field"] or match["key"]
        offset = match.end()


@dataclass(frozen=True, slots=True)
class CountField:
    """A field with a number of pods, raised to those of the fields `floors`, then lowered by `minus`.

    If it is absent, it counts as `default`; without a default it does not count at all. A text with a number, as in
    annotations, counts as this number. `assigned` is a list of items with `name` and `count`: the count of the item
    with the name of the pod set replaces the number. `quotient` are two fields: if one of them is positive, the first
    divided by the second replaces the number, rounded down to at least 1; one that is absent counts as 1.
    """

    path: FieldPath
    default: int | None = 1
    minus: int = 0
    floors: tuple[FieldPath, ...] = ()
    assigned: FieldPath | None = None
    quotient: tuple[FieldPath, FieldPath] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedValue:
    """A field that is absent or empty, or has one of these values; `true` and `false` are texts here."""

    path: FieldPath
    values: tuple[str, ...]


CountFactor = tuple[CountField, ...]
"""The smallest of these numbers counts; one of them has a default."""


class PodForm(StrEnum):
    """The form in which an object contains its pods.

    A `template` has `metadata` and `spec` as in a Deployment, a `spec` is that of a pod; an `extended template` has
    further fields in its `spec`. A `workflow` is a template of an Argo Workflow, with `container`, `script`,
    `containerSet`, `initContainers` and `sidecars`. A `component` of KServe is the spec of a pod with further
    containers, such as `model`. A `spark pod` has a `template`, and a `gpu` with name and quantity. A `NIM service` has
    the resources and devices of one container. A `task` of Tekton has `steps` and `sidecars`, and a `task run` a task,
    or the resources of one. `resources` are requests and limits of one container whose template is elsewhere. An
    `object` is a whole object of a kind that is read.
    """

    TEMPLATE = "template"
    SPEC = "spec"
    EXTENDED_TEMPLATE = "extended template"
    WORKFLOW = "workflow"
    COMPONENT = "component"
    SPARK_POD = "spark pod"
    NIM_SERVICE = "NIM service"
    TASK = "task"
    TASK_RUN = "task run"
    RESOURCES = "resources"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class TemplateReference:
    """A field with the name of a template, and the number of pods that the item with this field makes of it."""

    name: FieldPath
    counts: tuple[CountFactor, ...]


@dataclass(frozen=True, slots=True)
class PodSetDefinition:
    """Pods of one template: the first of the `templates` that exists, and the product of the `counts`.

    A template that another definition of the kind names without wildcards is not among those of a wildcard. `noun` is
    the name of the pods in messages.

    `most` is the product of an autoscaler's maximum; empty if none changes the number. It counts only if the field
    `autoscaled` exists and is not false, where this is given; then the product of `scaled`, if there is any, is the
    number at the start. There are no pods while one of the fields `suspended` is
    set, or has not the value that is `expected`. `rollout` is the strategy of an Argo Rollout. A change
    of the template starts all new pods before the first old one ends where a field has the value that says `doubled`.

    If they are `separate`, other templates of the object may run at other times; `workflow` is the spec of an Argo
    Workflow whose steps say when and how often. A template that is not `used` makes no pods by itself. If there are
    `references`, the pods are those of the items that refer to the template by its name. `declared` lists paths of
    templates in an object that is contained, with their replicas, for kinds that are not read.

    A template `is_part` of that of the pods if another object has further parts, always or where the field
    `completed_by` names one. If it `is_of_job`, a Job of Kubernetes makes the pods, whose spec has the template.
    """

    templates: tuple[FieldPath, ...]
    counts: tuple[CountFactor, ...] = ()
    most: tuple[CountFactor, ...] = ()
    autoscaled: FieldPath | None = None
    form: PodForm = PodForm.TEMPLATE
    noun: str = "pods"
    suspended: tuple[FieldPath, ...] = ()
    rollout: FieldPath | None = None
    is_separate: bool = False
    is_used: bool = True
    declared: FieldPath | None = None
    scaled: tuple[CountFactor, ...] = ()
    workflow: FieldPath | None = None
    expected: tuple[ExpectedValue, ...] = ()
    doubled: ExpectedValue | None = None
    references: tuple[TemplateReference, ...] = ()
    is_part: bool = False
    completed_by: FieldPath | None = None
    is_of_job: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind whose objects contain pod templates, in one of these `versions`, the newest first.

    `resource` is the plural in its API. An object makes no pods while one of the fields `suspended` is set: it
    is true, a text other than `false` as in annotations, or a mapping with keys; nor while a field has not the value
    that is `expected`. If `is_namespaced` is False, its objects are in no namespace. `source` names where the project
    decides about the pods. If it `starts_together`, the pods of an object wait for each other: a part of them is of no
    use.
    """

    group: str
    kind: str
    resource: str
    versions: tuple[str, ...]
    pod_sets: tuple[PodSetDefinition, ...]
    suspended: tuple[FieldPath, ...] = ()
    is_namespaced: bool = True
    source: str = ""
    starts_together: bool = False
    expected: tuple[ExpectedValue, ...] = ()

    @property
    def creates_pods(self) -> bool:
        """True if a controller makes pods of an object."""
        return any(pod_set.is_used for pod_set in self.pod_sets)
