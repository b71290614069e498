"""The number of pods that the templates of an Argo Workflow make: those that start with it, and those of later steps.

The numbers are those of its v3.7 (workflow/controller/steps.go, dag.go, operator.go) as far as the object states them:
a step with `when` may be skipped, and items that are parameters are not known before. Steps of a template that another
object has are not read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from tallygate.policy.workload_kinds import MAX_COUNT

_NULL = b"null"
_RAW_NULL = msgspec.Raw(_NULL)
_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_MAX_DEPTH = 100  # maxAllowedStackDepth of the controller
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])

TemplatePlace = tuple[str | int, ...]
"""The keys and indices from the spec of a Workflow to a template."""


@dataclass(frozen=True, slots=True)
class WorkflowPods:
    """The pods of each template that start with the Workflow, and the most of other templates that start at a time."""

    at_start: Mapping[TemplatePlace, int]
    later: Mapping[TemplatePlace, int]


class _Sequence(msgspec.Struct):
    count: int | str | None = None
    start: int | str | None = None
    end: int | str | None = None


class _Hook(msgspec.Struct):
    template: str | None = None


class _Step(msgspec.Struct, rename="camel"):
    """A step or a task of a DAG."""

    template: str | None = None
    inline: "_Template | None" = None
    with_items: list[msgspec.Raw] | None = None
    with_param: str | None = None
    with_sequence: _Sequence | None = None
    when: str | None = None
    depends: str | None = None
    dependencies: list[str] | None = None
    on_exit: str | None = None
    hooks: dict[str, _Hook] | None = None

    def count_items(self) -> int:
        """Return the number of its items; 1 if it has none, or they are not known before."""
        if self.when:
            return 1
        if self.with_items:
            return len(self.with_items)
        if self.with_param:
            try:
                return len(_LIST_DECODER.decode(self.with_param))
            except msgspec.MsgspecError:
                return 1
        return _count_sequence(self.with_sequence) if self.with_sequence is not None else 1


class _Dag(msgspec.Struct):
    tasks: list[_Step] | None = None
    target: str | None = None


class _Template(msgspec.Struct, rename="camel"):
    name: str | None = None
    steps: list[list[_Step]] | None = None
    dag: _Dag | None = None
    parallelism: int | None = None
    synchronization: msgspec.Raw = _RAW_NULL


class _Workflow(msgspec.Struct, rename="camel"):
    entrypoint: str | None = None
    templates: list[_Template] | None = None
    parallelism: int | None = None
    on_exit: str | None = None
    hooks: dict[str, _Hook] | None = None


_DECODER = msgspec.json.Decoder(_Workflow)
_PlacedTemplate = tuple[TemplatePlace, _Template]
_PlacedStep = tuple[TemplatePlace, _Step]
_Pods = Mapping[TemplatePlace, int]


def count_workflow_pods(content: msgspec.Raw) -> WorkflowPods | None:
    """Return the pods of a Workflow, given the JSON of its spec; None if its entrypoint is not among its templates.

    Raises:
        msgspec.ValidationError: if a field has another type.
    """
    workflow = _DECODER.decode(content)
    templates = {
        template.name: (("templates", index), template)
        for index, template in enumerate(workflow.templates or ())
        if template.name
    }
    entry = templates.get(workflow.entrypoint or "")
    if entry is None:
        return None
    steps = _Steps(templates)
    at_start = _limit(steps.start(entry), workflow.parallelism)
    later: dict[TemplatePlace, int] = {}
    for started in steps.list_started([entry, *_find_all(templates, _list_hooks(workflow.on_exit, workflow.hooks))]):
        for place, count in _limit(started, workflow.parallelism).items():
            later[place] = max(later.get(place, 0), count)
    return WorkflowPods(at_start, later)


class _Steps:
    """The templates of a Workflow by name, and the pods that start with each."""

    def __init__(self, templates: Mapping[str, _PlacedTemplate]) -> None:
        self._templates = templates
        self._started: dict[TemplatePlace, _Pods] = {}

    def start(self, placed: _PlacedTemplate, depth: int = 0) -> _Pods:
        """Return the pods that start when a template starts, in their order."""
        place, template = placed
        if depth > _MAX_DEPTH:
            return {}
        if place not in self._started:
            self._started[place] = {}  # a template that starts itself comes to no pod
            groups = _list_groups(place, template)
            self._started[place] = self._start_group(next(groups, ()), template, depth) if groups else {place: 1}
        return self._started[place]

    def list_started(self, roots: Iterable[_PlacedTemplate]) -> Iterator[_Pods]:
        """Yield the pods that start at a time: with each template, group of steps, and task that may be reached."""
        waiting, seen = list(roots), set[TemplatePlace]()
        while waiting:
            placed = waiting.pop()
            place, template = placed
            if place in seen:
                continue
            seen.add(place)
            yield self.start(placed)
            for group in _list_groups(place, template) or ():
                yield self._start_group(group, template, 0)
                for step_place, step in group:
                    if (child := self._find(step_place, step)) is not None and step.count_items():
                        waiting.append(child)
                        yield self.start(child)
                    waiting += _find_all(self._templates, _list_hooks(step.on_exit, step.hooks))

    def _start_group(self, group: Iterable[_PlacedStep], template: _Template, depth: int) -> _Pods:
        """Return the pods of steps that start at a time; of these steps only as many as the parallelism says."""
        started: dict[TemplatePlace, int] = {}
        left = template.parallelism or MAX_COUNT
        for place, step in group:
            child = None if step.when else self._find(place, step)
            if child is None:
                continue
            is_locked = bytes(child[1].synchronization) != _NULL
            count = min(1 if is_locked else step.count_items(), left)
            left -= count
            for started_template, number in self.start(child, depth + 1).items():
                started[started_template] = started.get(started_template, 0) + number * count
        return started

    def _find(self, place: TemplatePlace, step: _Step) -> _PlacedTemplate | None:
        return self._templates.get(step.template or "") if step.inline is None else ((*place, "inline"), step.inline)


def _list_groups(place: TemplatePlace, template: _Template) -> Iterator[list[_PlacedStep]] | None:
    """Return the steps of a template by the group in which they start; of a DAG each later task is one by itself.

    None if the template is that of a pod.
    """
    if template.steps is not None:
        return (
            [((*place, "steps", index, number), step) for number, step in enumerate(group)]
            for index, group in enumerate(template.steps)
        )
    if template.dag is None:
        return None
    first: list[_PlacedStep] = []
    others: list[list[_PlacedStep]] = []
    for index, task in enumerate(template.dag.tasks or ()):
        placed = ((*place, "dag", "tasks", index), task)
        # Only what a target needs starts: no task does for sure.
        is_first = not (task.depends or task.dependencies or template.dag.target)
        (first.append(placed) if is_first else others.append([placed]))
    return iter([first, *others])


def _find_all(templates: Mapping[str, _PlacedTemplate], names: Iterable[str]) -> list[_PlacedTemplate]:
    return [templates[name] for name in names if name in templates]


def _list_hooks(on_exit: str | None, hooks: Mapping[str, _Hook] | None) -> list[str]:
    return [name for name in (on_exit, *(hook.template for hook in (hooks or {}).values())) if name]


def _limit(started: _Pods, parallelism: int | None) -> _Pods:
    """Return the first pods up to a limit."""
    left = MAX_COUNT if parallelism is None else max(parallelism, 0)
    limited: dict[TemplatePlace, int] = {}
    for place, count in started.items():
        if taken := min(count, left):
            limited[place] = taken
            left -= taken
    return limited


def _count_sequence(sequence: _Sequence) -> int:
    """Return the number of items of a sequence (workflow/controller/operator.go, expandSequence)."""
    numbers = {"start": "0" if sequence.start is None else str(sequence.start)}
    name = "count" if sequence.end is None else "end"
    numbers[name] = str(getattr(sequence, name))
    if not all(map(_NUMBER_PATTERN.fullmatch, numbers.values())):
        return 1
    count = int(numbers["count"]) if name == "count" else abs(int(numbers["end"]) - int(numbers["start"])) + 1
    return min(max(count, 0), MAX_COUNT)
