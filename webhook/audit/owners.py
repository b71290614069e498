"""Whose an object is, and whether it still does anything.

Somebody with a Deployment of 500 pods wants one line, at the Deployment, which is where it can be mended. So what was
said of an owner is not said again of what its controller has made from it.
"""

from typing import NamedTuple

import msgspec

from webhook.accounting.problem import Problem
from webhook.objects.meta import ObjectMeta, OwnerReference

ProblemKey = tuple[str, str, str, str]
"""What makes what is said of a pod the same as what was said of the template that it was made from."""

_ENDED_CONDITIONS = frozenset({"Complete", "Failed"})


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str | None = None
    status: str | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class StoredObject(msgspec.Struct, frozen=True):
    """An object, as far as that says whose it is and whether it is over."""

    metadata: ObjectMeta | None = None
    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def metadata_or_empty(self) -> ObjectMeta:
        """Its metadata, empty where it has none."""
        return self.metadata or ObjectMeta()

    def is_idle(self, kind: str) -> bool:
        """Whether it makes no pods any more: a ReplicaSet that a rollout has left behind, or a Job that has ended."""
        if kind == "ReplicaSet":
            return (
                get_controller(self.metadata_or_empty) is not None and self.spec is not None and self.spec.replicas == 0
            )
        conditions = (self.status.conditions if self.status else None) or ()
        return kind == "Job" and any(
            condition.type in _ENDED_CONDITIONS and condition.status == "True" for condition in conditions
        )


STORED_DECODER = msgspec.json.Decoder(StoredObject)


class OwnerKey(NamedTuple):
    """An object by what owners are named by."""

    namespace: str
    kind: str
    name: str


def get_controller(metadata: ObjectMeta) -> OwnerReference | None:
    """The controller that an object was made by."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


class ProblemsByOwner:
    """What was said of every object that others may belong to."""

    def __init__(self) -> None:
        self._problems: dict[OwnerKey, frozenset[ProblemKey]] = {}

    def record(self, owner: OwnerKey, problems: frozenset[ProblemKey]) -> None:
        """Remember what was said of one; nothing is remembered of those of which nothing was."""
        if problems:
            self._problems[owner] = problems

    def get_problems(self, namespace: str, owner: OwnerReference | None) -> frozenset[ProblemKey]:
        """What was said of an owner."""
        if owner is None:
            return frozenset()
        return self._problems.get(OwnerKey(namespace, owner.kind or "", owner.name or ""), frozenset())


def create_problem_key(problem: Problem, pod_path: str) -> ProblemKey:
    """What a problem is, wherever the pod stands in its object; `path` is where."""
    return problem.code, problem.rule, problem.field.removeprefix(pod_path), problem.message
