"""Candidates: the pods that manifests would make, and how many of each at a time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from webhook.admission.kinds import ReplicaCount, count_replicas
from webhook.cli.checking.known import TypedObject, parse_object
from webhook.cli.manifest import nodes
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import FindingSubject
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PriorityClass, SchedulingPod, SchedulingPodSpec

_POD_DECODER = msgspec.json.Decoder(SchedulingPod)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ONE_PER_NODE = "DaemonSet"


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """A pod that is to be placed `copies` times at once, called `word`; on every node that takes it if that is None.

    `unknown` is what of it is made with the pod only, and so cannot be judged before.
    """

    subject: FindingSubject
    pod: SchedulingPod
    count: int | None = 1
    noun: str = "pods"
    unmodelled: tuple[str, ...] = ()

    @staticmethod
    def from_pod(pod: SchedulingPod, namespace: str, name: str) -> "PodsToPlace":
        """One pod that is stored already."""
        return PodsToPlace(FindingSubject(kind="Pod", namespace=namespace, name=name), pod)

    def copy_unscheduled(self) -> "PodsToPlace":
        """Another of it, if it is a pod that was read from a cluster: one that has neither node nor history."""
        spec, meta = self.pod.spec or SchedulingPodSpec(), self.pod.metadata or ObjectMeta()
        unscheduled = SchedulingPod(
            metadata=msgspec.structs.replace(meta, uid=None), spec=msgspec.structs.replace(spec, node_name=None)
        )
        return replace(self, pod=unscheduled if meta.uid else self.pod)

    def with_default_priority(self, classes: Mapping[str, PriorityClass]) -> "PodsToPlace":
        """The candidate, without a class that cannot be looked up because none is known: every cluster has some."""
        spec = self.pod.spec or SchedulingPodSpec()
        if classes or spec.priority is not None or not spec.priority_class_name:
            return self
        question = f"priority: this cluster's priority classes are not known; {spec.priority_class_name} counts as 0"
        pod = msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, priority=0))
        return replace(self, pod=pod, unmodelled=(*self.unmodelled, question))


def create_pods_to_place(
    manifests: Iterable[Manifest], namespace: str, count: int | None, limits: Bounds
) -> Iterator[PodsToPlace]:
    """What the manifests make that takes room on nodes; `copies` instead of what they say, if given.

    Raises:
        Fault: a field has a value of another type than the API has there, or aliases expand beyond the bounds.
    """
    for manifest in manifests:
        typed = parse_object(manifest, namespace, limits)
        if typed is None or typed.view is None:
            continue
        replica_counts = _get_replicas(typed) if count is None else ReplicaCount(count)
        is_daemon_set = manifest.kind == _ONE_PER_NODE and count is None
        pod_count = None if is_daemon_set else replica_counts.count
        yield PodsToPlace(
            typed.subject, _decode_pod(typed), pod_count, replica_counts.noun, tuple(_find_unmodelled(manifest))
        )


def _find_unmodelled(manifest: Manifest) -> Iterator[str]:
    spec = manifest.node.get("spec")
    if isinstance(spec, nodes.Mapping) and spec.get("volumeClaimTemplates"):
        yield "volume claim templates: the claims are made with each pod"


def _get_replicas(typed: TypedObject) -> ReplicaCount:
    return count_replicas(typed.manifest.kind, typed.content) or ReplicaCount(1, "pods")


def _decode_pod(typed: TypedObject) -> SchedulingPod:
    """The pod, or one that its template makes, with who it is."""
    content = msgspec.Raw(typed.body)
    for field in filter(None, (typed.view.path if typed.view else "").split(".")):
        content = _FIELDS_DECODER.decode(content)[field]
    pod = _POD_DECODER.decode(content)
    meta, subject = pod.metadata or ObjectMeta(), typed.subject
    metadata = msgspec.structs.replace(meta, name=subject.name, namespace=subject.namespace)
    return msgspec.structs.replace(pod, metadata=metadata)
