"""The owner of an object, the problems that were reported for owners, and idle objects.

A user with a Deployment of 500 pods wants one line, at the Deployment, since the fix belongs there. So a problem that
was reported for an owner is not reported again for the objects that its controller has created.
"""

from typing import NamedTuple

import msgspec

from tallygate.accounting.problem import Problem
from tallygate.objects.meta import ObjectMeta, OwnerReference

ProblemKey = tuple[str, str, str, str]
"""The fields that a problem of a pod shares with the same problem of its template: code, rule, field, message."""

_ENDED_CONDITIONS = frozenset({"Complete", "Failed"})


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str | None = None
    status: str | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class StoredObject(msgspec.Struct, frozen=True):
    """The fields of an object that show its owner and whether it is idle."""

    metadata: ObjectMeta | None = None
    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def metadata_or_empty(self) -> ObjectMeta:
        """The metadata, empty if the object has none."""
        return self.metadata or ObjectMeta()

    def is_idle(self, kind: str) -> bool:
        """Return whether the object creates no more pods: a ReplicaSet of a past rollout, or a Job that has ended."""
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
    """The namespace, kind and name of an owner."""

    namespace: str
    kind: str
    name: str


def get_controller(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the controller that owns an object, None if it has none."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


class ProblemsByOwner:
    """The reported problems of every object that may own others."""

    def __init__(self) -> None:
        self._problems: dict[OwnerKey, frozenset[ProblemKey]] = {}

    def record(self, owner: OwnerKey, problems: frozenset[ProblemKey]) -> None:
        """Record the problems of an owner, if it has any."""
        if problems:
            self._problems[owner] = problems

    def get_problems(self, namespace: str, owner: OwnerReference | None) -> frozenset[ProblemKey]:
        """Return the problems of an owner, none for an object without owner."""
        if owner is None:
            return frozenset()
        return self._problems.get(OwnerKey(namespace, owner.kind or "", owner.name or ""), frozenset())


def create_problem_key(problem: Problem, pod_field: str) -> ProblemKey:
    """Return the key of a problem at a field of a pod."""
    return problem.code, problem.rule, pod_field, problem.message
