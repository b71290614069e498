"""Pod records and charge groups: the few fields of each of 100,000 pods that the gate needs.

The *charge group* of a pod decides its charge and the caps that count it. All pods of a Deployment have the same one.
So each group is stored once, as compressed JSON, and freed with the last record that refers to it. A record contains
the other fields of one pod.
"""

import hashlib
import zlib
from datetime import UTC, datetime, timedelta
from sys import intern
from weakref import WeakValueDictionary

import msgspec

from tallygate.accounting.charge import has_ended
from tallygate.accounting.gpu_annotations import select_gpu_annotations
from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects import core
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.objects.timed_pods import TimedContainerStatus, TimedPod

_POD_DECODER = msgspec.json.Decoder(core.Pod)
_COMPRESSION_LEVEL = 3
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)


class ChargeGroup:
    """One charge group, as compressed JSON; compared by identity, because each content has one instance.

    Of a pod with two containers the JSON has 900 bytes, since names and amounts repeat; a third is left of it.
    """

    __slots__ = ("__weakref__", "_compressed")

    def __init__(self, content: bytes) -> None:
        self._compressed = zlib.compress(content, _COMPRESSION_LEVEL)

    def to_pod(self) -> core.Pod:
        """Decode the common fields of the pods: labels, annotations that request GPUs, requests, allocated resources.

        They have no name and no phase.

        Each call decodes the content again. A frequent caller stores its own result instead.
        """
        return _POD_DECODER.decode(self._decompress())

    def _decompress(self) -> bytes:
        return zlib.decompress(self._compressed)


class ChargeGroupInterner:
    """A pool of charge groups, with one instance for equal contents. Contents are compared by hash."""

    def __init__(self, group_type: type[ChargeGroup] = ChargeGroup) -> None:
        self._group_type = group_type
        self._groups: WeakValueDictionary[bytes, ChargeGroup] = WeakValueDictionary()

    def intern(self, content: bytes) -> ChargeGroup:
        key = hashlib.sha256(content).digest()
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._group_type(content)
        return group

    def __len__(self) -> int:
        return len(self._groups)


_RESIZE_CONDITION = "PodResizePending"
_ENCODER = msgspec.json.Encoder(order="deterministic")


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod: `group` is its charge group; `is_terminating` is true while the pod is being deleted.

    A pod that `has_ended` has no charge; a terminating pod still has one. `claim_name` is the name of the claim that
    kube-scheduler made for the pod's extended resources, or empty. `created` is the time of creation in seconds since
    1970, 0 if it is missing. `started` is that of its start on a node, and `ended` that at which the last container of
    an ended pod ended: 0 if its status does not have it, or the pod was read without its times.
    """

    uid: str
    namespace: str
    name: str
    node: str
    revision: int
    has_ended: bool
    is_terminating: bool
    group: ChargeGroup
    claim_name: str = ""
    created: int = 0
    started: int = 0
    ended: int = 0


def create_pod_codec(interner: ChargeGroupInterner) -> ResourceCodec[core.Pod, PodRecord]:
    """Create the codec of pods. It interns charge groups, so a long list contains each group once."""
    return ResourceCodec("pods", "/api/v1/pods", core.Pod, lambda pod: create_pod_record(pod, interner))


def create_pod_record(pod: core.Pod, interner: ChargeGroupInterner) -> PodRecord:
    """Create the record of a stored pod.

    Raises:
        ValueError: if the pod lacks a field that every stored pod has.
    """
    meta, spec = pod.metadata, pod.spec or core.PodSpec()
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a pod without uid, namespace or name")
    is_ended = has_ended(pod)
    return PodRecord(
        meta.uid,
        intern(meta.namespace),
        meta.name,
        intern(spec.node_name or ""),
        parse_revision(meta.resource_version or ""),
        is_ended,
        meta.deletion_timestamp is not None,
        interner.intern(_ENCODER.encode(_create_group_pod(meta, spec, pod.status))),
        _get_claim_name(pod.status),
        read_time(meta.creation_timestamp),
        read_time(pod.status.start_time) if isinstance(pod, TimedPod) and pod.status is not None else 0,
        _find_end(pod) if is_ended and isinstance(pod, TimedPod) else 0,
    )


def read_time(text: str | None) -> int:
    """Return a time of an object in seconds since 1970, 0 if it is missing or before.

    Raises:
        ValueError: if it is no time.
    """
    if not text:
        return 0
    time = datetime.fromisoformat(text)
    return max(0, (time - _EPOCH if time.tzinfo else time.replace(tzinfo=UTC) - _EPOCH) // _SECOND)


def _find_end(pod: TimedPod) -> int:
    """Return the time at which the last container of a pod ended; 0 if one of them does not have it."""
    status = pod.status
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())] if status else []
    ends = [_find_container_end(container) for container in containers]
    return max(ends) if ends and all(ends) else 0


def _find_container_end(container: TimedContainerStatus) -> int:
    terminated = container.state.terminated if container.state else None
    return read_time(terminated.finished_at) if terminated else 0


def _get_claim_name(status: core.PodStatus | None) -> str:
    claim_status = status.extended_resource_claim_status if status is not None else None
    return (claim_status.resource_claim_name if claim_status is not None else None) or ""


def _create_group_pod(meta: ObjectMeta, spec: core.PodSpec, status: core.PodStatus | None) -> core.Pod:
    owners, annotations = _find_controllers(meta), select_gpu_annotations(meta.annotations) or None
    return core.Pod(
        metadata=ObjectMeta(labels=meta.labels, annotations=annotations, owner_references=owners)
        if meta.labels or annotations or owners
        else None,
        spec=core.PodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            resource_claims=spec.resource_claims,
            priority_class_name=spec.priority_class_name,
            node_selector=spec.node_selector,
            host_network=spec.host_network,
            scheduling_group=spec.scheduling_group,
        ),
        status=_create_resize_status(status) if status is not None else None,
    )


def _find_controllers(meta: ObjectMeta) -> list[OwnerReference] | None:
    """Return the controllers of a pod. Pods of one group have them in common, because controllers label their pods."""
    owners = [owner for owner in meta.owner_references or () if owner.controller]
    return [
        OwnerReference(owner.kind, owner.name, owner.uid, controller=True, api_version=owner.api_version)
        for owner in owners
    ] or None


def _create_resize_status(status: core.PodStatus) -> core.PodStatus | None:
    """Create the status fields that a resize changes; None if there was no resize and no allocation."""
    conditions = [condition for condition in status.conditions or () if condition.type == _RESIZE_CONDITION]
    container_statuses, init_statuses = (
        _select_allocated(status.container_statuses),
        _select_allocated(status.init_container_statuses),
    )
    if not (conditions or container_statuses or init_statuses or status.resources or status.allocated_resources):
        return None
    return core.PodStatus(
        conditions=[core.PodCondition(condition.type, condition.status, condition.reason) for condition in conditions]
        or None,
        container_statuses=container_statuses,
        init_container_statuses=init_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def _select_allocated(statuses: list[core.ContainerStatus] | None) -> list[core.ContainerStatus] | None:
    """Select the statuses with allocated resources, sorted by name, because the kubelet has no fixed order.

    They are without the state of a container, which differs from pod to pod.
    """
    allocated = [
        core.ContainerStatus(status.name, status.resources, status.allocated_resources)
        for status in statuses or ()
        if status.resources is not None or status.allocated_resources
    ]
    if len(allocated) > 1:
        allocated.sort(key=_get_name)
    return allocated or None


def _get_name(container: core.Container | core.ContainerStatus) -> str:
    return container.name or ""
