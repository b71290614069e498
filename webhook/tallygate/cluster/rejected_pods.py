"""The pods that controllers could not create, since the API server rejects them: they are not stored.

The controllers of ReplicaSets and ReplicationControllers report the rejection in a condition, those of other kinds in
events alone, which API servers keep for an hour. Sources: calculateStatus in
pkg/controller/replicaset/replica_set_utils.go, and the events FailedCreate of pkg/controller/controller_utils.go and
pkg/controller/statefulset/stateful_pod_control.go, v1.37.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from tallygate.cluster.kinds import CREATOR_RESOURCES, EVENT
from tallygate.objects.meta import ObjectMeta, StringMap

FAILED_CREATE: Final = "FailedCreate"
CREATOR_KINDS: Final = frozenset(kind for _, _, kind in CREATOR_RESOURCES)

_FAILURE: Final = "ReplicaFailure"
_ENDED: Final = frozenset({"Complete", "Failed"})
_PREFIX: Final = re.compile(
    r'\A(?:Error creating: |create .*? failed error: )?(?:admission webhook "[^"]*" denied the request: )?'
    r'(?:Pod "[^"]*": )?',
    re.DOTALL,
)


class _Template(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata: ObjectMeta | None = None


class _Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    template: _Template | None = None


class _Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    replicas: int = 0
    active: int = 0
    succeeded: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    conditions: list[_Condition] | None = None


class _Creator(msgspec.Struct, frozen=True, omit_defaults=True):
    """A controller's object, with the fields that say how many pods it lacks."""

    metadata: ObjectMeta = ObjectMeta()
    kind: str = ""
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def count_missing(self) -> int:
        """Return the number of the wanted pods that are not stored."""
        spec, status = self.spec, self.status
        if self.metadata.deletion_timestamp is not None:
            return 0
        if self.kind == "DaemonSet":
            return status.desired_number_scheduled - status.current_number_scheduled
        if self.kind != "Job":
            return (1 if spec.replicas is None else spec.replicas) - status.replicas
        if spec.suspend or any(
            condition.type in _ENDED and condition.status == "True" for condition in status.conditions or ()
        ):
            return 0
        wanted = 1 if spec.parallelism is None else spec.parallelism
        if spec.completions is not None:
            wanted = min(wanted, spec.completions - status.succeeded)
        return wanted - status.active

    def find_message(self) -> str:
        """Return the message of the condition; empty without one."""
        for condition in self.status.conditions or ():
            if (condition.type, condition.status, condition.reason) == (_FAILURE, "True", FAILED_CREATE):
                return condition.message
        return ""


class _Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Event(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """An event about the failed creation of a pod."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: _Reference = _Reference()
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def time(self) -> str:
        """The time of the last occurrence, as RFC 3339 writes it."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


class RejectedPods(NamedTuple):
    """The `number` of pods of an object that are not stored, and the reason that its controller reports last.

    The object is the Deployment of a ReplicaSet, or the controller's object itself. `labels` are those of the pods.
    """

    kind: str
    namespace: str
    name: str
    number: int
    message: str
    labels: Mapping[str, str] = MappingProxyType[str, str]({})


class RejectedPodList:
    """The controllers' objects with pods that they could not create."""

    def __init__(self) -> None:
        self._creators: list[_Creator] = []
        self._events: dict[tuple[str, str, str], _Event] = {}

    def add(self, kind: str, item: msgspec.Raw) -> None:
        """Add an object of one of the kinds; leave out one that no cluster could store."""
        with suppress(ValueError):
            self._add(kind, item)

    def _add(self, kind: str, item: msgspec.Raw) -> None:
        if kind == EVENT:
            event = msgspec.json.decode(item, type=_Event)
            involved = event.involved_object
            key = involved.kind, involved.namespace, involved.name
            if event.reason == FAILED_CREATE and (key not in self._events or self._events[key].time <= event.time):
                self._events[key] = event
            return
        creator = msgspec.structs.replace(msgspec.json.decode(item, type=_Creator), kind=kind)
        if creator.count_missing() > 0:
            self._creators.append(creator)

    def list_rejected(self) -> list[RejectedPods]:
        """Return the pods that were rejected, by namespace, kind and name."""
        return sorted(
            (_describe(creator, message) for creator, message in self._find_failed()),
            key=lambda pods: (pods.namespace, pods.kind, pods.name),
        )

    def list_items(self) -> Iterator[tuple[str, ObjectMeta, bytes]]:
        """Yield kind, metadata and JSON of the objects and events that tell of rejected pods, with no other fields."""
        versions = {kind: version for version, _, kind in CREATOR_RESOURCES}
        for creator, _ in self._find_failed():
            found = ((creator.kind, creator), (EVENT, self._find_event(creator)))
            for kind, item in found:
                if item is not None:
                    meta = _reduce(item.metadata)
                    fields = msgspec.to_builtins(msgspec.structs.replace(item, metadata=meta))
                    body = {**fields, "apiVersion": versions[kind], "kind": kind}
                    yield kind, meta, msgspec.json.encode(body)

    def _find_failed(self) -> Iterator[tuple[_Creator, str]]:
        for creator in self._creators:
            event = self._find_event(creator)
            message = creator.find_message() or (event.message if event is not None else "")
            if message:
                yield creator, message

    def _find_event(self, creator: _Creator) -> _Event | None:
        """Return the last event of a kind whose controller writes no condition."""
        if creator.kind in {"ReplicaSet", "ReplicationController"}:
            return None
        return self._events.get((creator.kind, creator.metadata.namespace or "", creator.metadata.name or ""))


def _describe(creator: _Creator, message: str) -> RejectedPods:
    meta, kind, name = creator.metadata, creator.kind, creator.metadata.name or ""
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    if kind == "ReplicaSet" and owner is not None:
        kind, name = owner.kind or kind, owner.name or name
    template = creator.spec.template
    labels: StringMap = (template.metadata.labels if template and template.metadata else None) or {}
    return RejectedPods(kind, meta.namespace or "", name, creator.count_missing(), _PREFIX.sub("", message, 1), labels)


def _reduce(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        owner_references=meta.owner_references,
    )
