"""The controllers of an object: its own, the controller of that one, and so on up to the workload that a person made.

Each is read from the quorum and must have the UID that its dependent names: a name alone may belong to another object.
"""

from collections.abc import Callable, Sequence

import msgspec

from tallygate.admission.kinds import ReviewTargets
from tallygate.errors import TallygateError
from tallygate.objects.core import PodGroupReference
from tallygate.objects.meta import ObjectMeta, OwnerReference, PartialObjectMetadata
from tallygate.review.scale_requests import WorkloadReader

_MAX_CONTROLLERS = 8  # a worker of a LeaderWorkerSet has four: StatefulSet, leader Pod, StatefulSet, LeaderWorkerSet
_MAX_CACHED = 4096
_CACHE_SECONDS = 60.0  # an orphan may get a controller later
_POD_KIND = ("", "Pod")
_INTERMEDIATE_KINDS = frozenset({_POD_KIND, ("apps", "StatefulSet")})
"""Kinds that controllers of workloads which start together make, and that make pods or claims themselves."""
POD_GROUP_KIND = ("scheduling.k8s.io", "PodGroup")
"""The API group and kind of a PodGroup of Kubernetes: it controls the claims that its pods share."""
POD_GROUPS = "podgroups"


class _OwnerSpec(msgspec.Struct, rename="camel", frozen=True):
    scheduling_group: PodGroupReference | None = None


class _StoredOwner(PartialObjectMetadata, frozen=True):
    """A controller with its metadata, and the PodGroup that it names if it is a pod."""

    spec: _OwnerSpec = _OwnerSpec()

    @property
    def group_name(self) -> str:
        group = self.spec.scheduling_group
        return (group.pod_group_name if group is not None else None) or ""


_DECODER = msgspec.json.Decoder(PartialObjectMetadata)
_POD_DECODER = msgspec.json.Decoder(_StoredOwner)


class Controller(msgspec.Struct, frozen=True):
    """One controller: its API group, version, kind, name, UID and resource.

    It `is_read` if its pods may belong to a workload that starts together.
    """

    group: str
    version: str
    kind: str
    name: str
    uid: str
    resource: str = ""
    is_read: bool = False


class UnreadableOwnerError(TallygateError):
    """A controller cannot be read, so the workload of a pod is unknown; the request can be sent again."""

    def __init__(self, controller: Controller, namespace: str, cause: Exception) -> None:
        super().__init__(f"{controller.kind} {namespace}/{controller.name}, the controller, cannot be read: {cause}")


class StoredController(msgspec.Struct, frozen=True):
    """A controller that exists: the reference of its own controller, None without one, and the time of the read.

    `group_name` is the name of the PodGroup that it names if it is a pod, which never changes; else empty.
    """

    parent: OwnerReference | None
    read_at: float
    group_name: str = ""


class OwnerChains:
    """The controllers of objects, with those of the last minute cached. `monotonic` gives seconds."""

    def __init__(self, reader: WorkloadReader, monotonic: Callable[[], float]) -> None:
        self.reader = reader
        self._monotonic = monotonic
        self._cached: dict[tuple[str, Controller], StoredController] = {}

    def list_controllers(
        self, namespace: str, metadata: ObjectMeta | None, targets: ReviewTargets
    ) -> tuple[Controller, ...]:
        """Return the controllers of an object in this namespace, the nearest first.

        The list ends at an object without a controller, and before one that does not exist with its UID, or is of a
        kind that is not read: nothing shows that it has this UID.

        Raises:
            UnreadableOwnerError: if a controller cannot be read.
        """
        controllers: list[Controller] = []
        reference = find_controller(metadata)
        while reference is not None and len(controllers) < _MAX_CONTROLLERS:
            controller = _create_controller(reference, targets)
            cached = self._find_parent(namespace, controller) if controller.is_read else None
            if cached is None:
                break
            controllers.append(controller)
            reference = cached.parent
        return tuple(controllers)

    def read_controller(
        self, namespace: str, reference: OwnerReference, targets: ReviewTargets
    ) -> StoredController | None:
        """Return the controller that a reference names; None if it does not exist with its UID, or is of no known kind.

        Raises:
            UnreadableOwnerError: if it cannot be read.
        """
        controller = _create_controller(reference, targets)
        return self._find_parent(namespace, controller) if controller.resource else None

    def find_group_name(self, namespace: str, controllers: Sequence[Controller]) -> str:
        """Return the name of the PodGroup of the first pod among the controllers of a claim; empty without one.

        Raises:
            UnreadableOwnerError: if the pod cannot be read.
        """
        for controller in controllers:
            if (controller.group, controller.kind) == _POD_KIND:
                stored = self._find_parent(namespace, controller)
                return stored.group_name if stored is not None else ""
        return ""

    def _find_parent(self, namespace: str, controller: Controller) -> StoredController | None:
        """Return the controller of an object, None if the object does not exist with its UID."""
        # by all that a dependent names: a UID alone may be that of a workload in another namespace
        key = namespace, controller
        now, cached = self._monotonic(), self._cached.get(key)
        if cached is not None and now - cached.read_at < _CACHE_SECONDS:
            return cached
        resource = (controller.group, controller.version, controller.resource)
        try:
            content = self.reader.read_workload(resource, namespace, controller.name)
            is_pod = (controller.group, controller.kind) == _POD_KIND
            stored = (_POD_DECODER if is_pod else _DECODER).decode(content) if content is not None else _StoredOwner()
        except (TallygateError, ValueError, RecursionError) as error:
            raise UnreadableOwnerError(controller, namespace, error) from error
        metadata, group_name = stored.metadata, stored.group_name if isinstance(stored, _StoredOwner) else ""
        if metadata is None or metadata.uid != controller.uid:
            return None
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        found = self._cached[key] = StoredController(find_controller(metadata), now, group_name)
        return found


def find_controller(metadata: ObjectMeta | None) -> OwnerReference | None:
    """Return the reference of the controller of an object, or None."""
    references = (metadata.owner_references if metadata else None) or ()
    return next((reference for reference in references if reference.controller and reference.uid), None)


def _create_controller(reference: OwnerReference, targets: ReviewTargets) -> Controller:
    group, _, version = (reference.api_version or "").rpartition("/")
    kind = reference.kind or ""
    target = targets.get((group, kind))
    if (group, kind) == POD_GROUP_KIND:
        return Controller(group, version, kind, reference.name or "", reference.uid or "", POD_GROUPS, is_read=True)
    plural = target.plural if target is not None else ""
    is_read = target is not None and (target.starts_together or (group, kind) in _INTERMEDIATE_KINDS)
    return Controller(group, version, kind, reference.name or "", reference.uid or "", plural, is_read)
