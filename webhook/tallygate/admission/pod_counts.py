"""The number of pods of each pod set in an object, by the definition of its kind."""

import re
from collections.abc import Iterable
from math import prod

import msgspec

from tallygate.admission.object_values import ObjectValues, Place, bind, format_place, list_bound, locate_error
from tallygate.admission.pod_view import ReplicaCount, RolloutStrategy, count_rollout_pods, double_in_rollout
from tallygate.admission.workflow_pods import WorkflowPods, count_workflow_pods
from tallygate.policy.workload_kinds import (
    MAX_COUNT,
    CountFactor,
    CountField,
    ExpectedValue,
    FieldPath,
    PodSetDefinition,
    TemplateReference,
    WorkloadKind,
)

_COUNT_PATTERN = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_STRATEGY_DECODER = msgspec.json.Decoder(RolloutStrategy)


class _Assignment(msgspec.Struct):
    name: str = ""
    count: int | None = None


_ASSIGNMENTS_DECODER = msgspec.json.Decoder(list[_Assignment])


class PodCounter:
    """Counts the pods of the templates in one object."""

    def __init__(self, values: ObjectValues) -> None:
        self._values = values
        self._workflows: dict[Place, WorkflowPods | None] = {}

    def starts_pods(self, definition: WorkloadKind | PodSetDefinition, bound: Place) -> bool:
        """Return whether no field suspends the pods, and each has the value that is expected."""
        return not any(self._values.is_set(path, bound) for path in definition.suspended) and all(
            self._is_expected(value, bound) for value in definition.expected
        )

    def _is_expected(self, expectation: ExpectedValue, bound: Place) -> bool:
        value = self._values.read_scalar(bind(expectation.path, bound))
        text = str(value).lower() if isinstance(value, bool) else str(value or "")
        return text in {"", *expectation.values}

    def count(self, definition: PodSetDefinition, place: Place, bound: Place, *, is_suspended: bool) -> ReplicaCount:
        """Return the number of pods of the template at a place; `bound` is the item that its wildcards stand for."""
        noun, is_separate = definition.noun, definition.is_separate
        if is_suspended:
            return ReplicaCount(0, noun, is_separate=is_separate)
        if definition.workflow is not None:
            return self._count_in_workflow(definition.workflow, place, noun)
        if definition.references:
            return ReplicaCount(self._count_references(definition.references, bound), noun)
        is_autoscaled = bool(definition.most) and self._is_autoscaled(definition.autoscaled, bound)
        count = self._multiply((is_autoscaled and definition.scaled) or definition.counts, bound)
        if definition.rollout is not None:
            strategy = self._values.find(bind(definition.rollout, bound))
            return count_rollout_pods(count, _STRATEGY_DECODER.decode(strategy) if strategy else RolloutStrategy())
        most = self._multiply(definition.most, bound) if is_autoscaled else 0
        # The largest number is the default of a project for no limit.
        replicas = ReplicaCount(count, noun, most=most if count < most < MAX_COUNT else 0, is_separate=is_separate)
        is_doubled = definition.doubled is not None and self._is_expected(definition.doubled, bound)
        return double_in_rollout(replicas) if is_doubled else replicas

    def _count_references(self, references: Iterable[TemplateReference], bound: Place) -> int:
        """Return the number of pods of the items that refer to the template by its name."""
        name = self._values.read_scalar((*bound, "name"))
        count = 0
        for reference in references:
            for place in self._values.expand(reference.name.steps, ()):
                if name and self._values.read_scalar(place) == name:
                    count += self._multiply(reference.counts, list_bound(reference.name, place))
        return count

    def _count_in_workflow(self, path: FieldPath, place: Place, noun: str) -> ReplicaCount:
        """Return the number of pods of a template by the steps of its Workflow."""
        workflow_place = bind(path, ())
        if workflow_place not in self._workflows:
            content = self._values.find(workflow_place)
            try:
                pods = None if content is None else count_workflow_pods(content)
            except msgspec.ValidationError as error:
                raise locate_error(error, format_place(workflow_place), {}) from error
            self._workflows[workflow_place] = pods
        if (pods := self._workflows[workflow_place]) is None:
            return ReplicaCount(1, noun, is_separate=True)
        inner = place[len(workflow_place) :]
        is_first = inner in pods.at_start
        count = pods.at_start[inner] if is_first else pods.later.get(inner, 0)
        return ReplicaCount(count, noun, is_separate=True, is_first=is_first)

    def _is_autoscaled(self, field: FieldPath | None, bound: Place) -> bool:
        return field is None or (
            self._values.find(place := bind(field, bound)) is not None and self._values.read_scalar(place) is not False
        )

    def _multiply(self, factors: Iterable[CountFactor], bound: Place) -> int:
        return prod(self._find_smallest(factor, bound) for factor in factors)

    def _find_smallest(self, factor: CountFactor, bound: Place) -> int:
        counts = [count for field in factor if (count := self._read_count(field, bound)) is not None]
        return max(min(counts, default=1), 0)

    def _read_count(self, field: CountField, bound: Place) -> int | None:
        count = self._read_number(field.path, bound)
        count = field.default if count is None else count
        if field.assigned is not None:
            count = self._find_assigned(field.assigned, bound, count)
        if field.quotient is not None:
            count = self._divide(field.quotient, bound) or count
        if count is None:
            return None
        floors = [number for floor in field.floors if (number := self._read_number(floor, bound)) is not None]
        return min(max((count, *floors)), MAX_COUNT) - field.minus

    def _divide(self, fields: tuple[FieldPath, FieldPath], bound: Place) -> int:
        """Return the quotient of two fields, at least 1; 0 if none of them is positive."""
        whole, part = (max(self._read_number(field, bound) or 0, 0) for field in fields)
        return max(max(whole, 1) // max(part, 1), 1) if whole or part else 0

    def _find_assigned(self, path: FieldPath, bound: Place, count: int | None) -> int | None:
        """Return the count of the assignment with the name of an item; else the count of the item."""
        content = self._values.find(bind(path, ()))
        assignments = _ASSIGNMENTS_DECODER.decode(content) if content is not None else ()
        counts = {assignment.name: assignment.count for assignment in assignments if assignment.count is not None}
        return counts.get(str(self._values.read_scalar((*bound, "name"))), count)

    def _read_number(self, path: FieldPath, bound: Place) -> int | None:
        value = self._values.read_scalar(bind(path, bound))
        if isinstance(value, str):
            return int(value) if _COUNT_PATTERN.fullmatch(value) else None
        return None if isinstance(value, bool) else value
