"""The pods of a cluster as their templates: what a new pod like a stored one would be, and the pods that wait.

Of a running pod only the template is kept, once for all equal pods of a namespace: all that decides whether and where a
further one may run. A pod without a node is kept as it is. Pods of a DaemonSet have none: one more would be on a new
node.
"""

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tallygate.accounting.charge import has_ended
from tallygate.accounting.gpu_annotations import select_gpu_annotations
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, WatchEvent
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.objects.scheduling import SchedulingPod, SchedulingPodSpec, Volume
from tallygate.state.informers.pod_records import ChargeGroup, ChargeGroupInterner, PodRecord

_DECODER: Final = msgspec.json.Decoder(SchedulingPod)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_COMPRESSION_LEVEL: Final = 3
LABELS_OF_ONE_POD: Final = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    }
)
"""The labels that controllers give each pod with another value (k8s.io/api apps/v1 and batch/v1, v1.37)."""
_ONE_PER_NODE: Final = "DaemonSet"


class PodTemplate(ChargeGroup):
    """The template of equal pods, as compressed JSON; compared by identity, because each content has one instance."""

    __slots__ = ()

    def to_pod(self) -> SchedulingPod:
        """Decode a pod without name, UID, node and status; each call decodes the content again."""
        return _DECODER.decode(self._decompress())


class StoredTemplate(NamedTuple):
    """The template of a pod, or the pod itself as compressed JSON if it waits for a node."""

    template: PodTemplate | None = None
    waiting: bytes | None = None


class PodTemplates:
    """The templates of the pods that run, and the pods without a node, by namespace.

    It has those whose codec keeps templates (`SchedulerCache.create_pod_codec`); a caller guards it where several
    threads use it.
    """

    def __init__(self) -> None:
        self._interner = ChargeGroupInterner(PodTemplate)
        self._templates: dict[str, PodTemplate] = {}  # by UID
        self._counts: dict[str, dict[PodTemplate, int]] = {}
        self._waiting: dict[str, dict[str, bytes]] = {}
        self._revision: int | None = None

    def create(self, pod: SchedulingPod) -> StoredTemplate | None:
        """Return what is kept of a stored pod; None for one that has ended or is being deleted, or of a DaemonSet."""
        meta, spec = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec()
        owners = [owner for owner in meta.owner_references or () if owner.controller]
        if has_ended(pod) or meta.deletion_timestamp is not None or any(own.kind == _ONE_PER_NODE for own in owners):
            return None
        if not spec.node_name:
            return StoredTemplate(waiting=zlib.compress(_ENCODER.encode(pod), _COMPRESSION_LEVEL))
        template = self._interner.intern(_ENCODER.encode(create_template(pod)))
        assert isinstance(template, PodTemplate)  # noqa: S101  # its type is that of the interner
        return StoredTemplate(template)

    def apply(self, event: WatchEvent[PodRecord]) -> None:
        """Apply a pod event; ignore an event that is not newer than the last one."""
        if isinstance(event, Replaced):
            self._templates, self._counts, self._waiting = {}, {}, {}
            self._revision = event.revision
            for record in event.items:
                self._put(record)
        elif self._revision is not None and event.revision > self._revision:
            self._revision = event.revision
            if isinstance(event, Changed):
                self._remove(event.item)
                self._put(event.item)
            elif isinstance(event, Deleted):
                self._remove(event.item)

    def list_running(self, namespace: str) -> list[tuple[PodTemplate, int]]:
        """Return the templates of the pods in a namespace that have a node, with the number of these pods."""
        return [*self._counts.get(namespace, {}).items()]

    def list_waiting(self, namespace: str) -> Iterator[SchedulingPod]:
        """Yield the pods in a namespace that have no node, in the order in which they were seen."""
        return (_DECODER.decode(zlib.decompress(pod)) for pod in self._waiting.get(namespace, {}).values())

    def count_waiting(self, namespace: str) -> int:
        """Return the number of the pods in a namespace that have no node."""
        return len(self._waiting.get(namespace, {}))

    def _put(self, record: PodRecord) -> None:
        stored: StoredTemplate | None = getattr(record, "stored_template", None)
        if stored is None:
            return
        if stored.waiting is not None:
            self._waiting.setdefault(record.namespace, {})[record.uid] = stored.waiting
        elif stored.template is not None:
            self._templates[record.uid] = stored.template
            counts = self._counts.setdefault(record.namespace, {})
            counts[stored.template] = counts.get(stored.template, 0) + 1

    def _remove(self, record: PodRecord) -> None:
        waiting = self._waiting.get(record.namespace, {})
        if waiting.pop(record.uid, None) is not None and not waiting:
            del self._waiting[record.namespace]
        template = self._templates.pop(record.uid, None)
        if template is None:
            return
        counts = self._counts[record.namespace]
        counts[template] -= 1
        if not counts[template]:
            del counts[template]
        if not counts:
            del self._counts[record.namespace]


def create_template(pod: SchedulingPod) -> SchedulingPod:
    """Return a pod as further ones like it would be: without name, node, status, and what only this pod has."""
    meta, spec = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec()
    labels = {key: value for key, value in (meta.labels or {}).items() if key not in LABELS_OF_ONE_POD}
    owners = [owner for owner in meta.owner_references or () if owner.controller]
    return SchedulingPod(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            labels=labels or None,
            annotations=select_gpu_annotations(meta.annotations) or None,
            owner_references=[OwnerReference(owner.kind, owner.name, controller=True) for owner in owners] or None,
        ),
        spec=msgspec.structs.replace(spec, node_name=None, ephemeral_containers=None, volumes=_select_volumes(spec)),
    )


def _select_volumes(spec: SchedulingPodSpec) -> list[Volume] | None:
    """Return the volumes that decide where a pod can run, without names: those of tokens are others for each pod."""
    volumes = [msgspec.structs.replace(volume, name="") for volume in spec.volumes or ()]
    return [volume for volume in volumes if volume != _PLAIN_VOLUME] or None


_PLAIN_VOLUME: Final = Volume()
