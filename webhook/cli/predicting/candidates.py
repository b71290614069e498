"""Candidates: the pods that manifests would make, and how many of each at a time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from webhook.admission.replicas import ReplicaCount, count_replicas
from webhook.cli.checking.known import Known, known
from webhook.cli.manifest import nodes
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.objects import Manifest
from webhook.cli.report.finding import Subject
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PriorityClass, SchedulingPod, SchedulingPodSpec

_POD = msgspec.json.Decoder(SchedulingPod)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ONE_PER_NODE = "DaemonSet"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to be placed `copies` times at once, called `word`; on every node that takes it if that is None.

    `unknown` is what of it is made with the pod only, and so cannot be judged before.
    """

    subject: Subject
    pod: SchedulingPod
    copies: int | None = 1
    word: str = "pods"
    unknown: tuple[str, ...] = ()

    @staticmethod
    def of_pod(pod: SchedulingPod, namespace: str, name: str) -> "Candidate":
        """One pod that is stored already."""
        return Candidate(Subject(kind="Pod", namespace=namespace, name=name), pod)

    def anew(self) -> "Candidate":
        """Another of it, if it is a pod that was read from a cluster: one that has neither node nor history."""
        spec, meta = self.pod.spec or SchedulingPodSpec(), self.pod.metadata or ObjectMeta()
        fresh = SchedulingPod(
            metadata=msgspec.structs.replace(meta, uid=None), spec=msgspec.structs.replace(spec, node_name=None)
        )
        return replace(self, pod=fresh if meta.uid else self.pod)

    def ranked(self, classes: Mapping[str, PriorityClass]) -> "Candidate":
        """The candidate, without a class that cannot be looked up because none is known: every cluster has some."""
        spec = self.pod.spec or SchedulingPodSpec()
        if classes or spec.priority is not None or not spec.priority_class_name:
            return self
        question = f"priority: this cluster's priority classes are not known; {spec.priority_class_name} counts as 0"
        pod = msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, priority=0))
        return replace(self, pod=pod, unknown=(*self.unknown, question))


def candidates(
    manifests: Iterable[Manifest], namespace: str, copies: int | None, bounds: Bounds
) -> Iterator[Candidate]:
    """What the manifests make that takes room on nodes; `copies` instead of what they say, if given.

    Raises:
        Fault: a field has a value of another type than the API has there, or aliases expand beyond the bounds.
    """
    for manifest in manifests:
        found = known(manifest, namespace, bounds)
        if found is None or found.view is None:
            continue
        pods = _pods(found) if copies is None else ReplicaCount(copies)
        is_everywhere = manifest.kind == _ONE_PER_NODE and copies is None
        count = None if is_everywhere else pods.count
        yield Candidate(found.subject, _pod(found), count, pods.noun, tuple(_made_with_pods(manifest)))


def _made_with_pods(manifest: Manifest) -> Iterator[str]:
    spec = manifest.node.get("spec")
    if isinstance(spec, nodes.Mapping) and spec.get("volumeClaimTemplates"):
        yield "volume claim templates: the claims are made with each pod"


def _pods(found: Known) -> ReplicaCount:
    return count_replicas(found.manifest.kind, found.judged) or ReplicaCount(1, "pods")


def _pod(found: Known) -> SchedulingPod:
    """The pod, or one that its template makes, with who it is."""
    content = msgspec.Raw(found.body)
    for step in filter(None, (found.view.path if found.view else "").split(".")):
        content = _FIELDS.decode(content)[step]
    pod = _POD.decode(content)
    meta, subject = pod.metadata or ObjectMeta(), found.subject
    named = msgspec.structs.replace(meta, name=subject.name, namespace=subject.namespace)
    return msgspec.structs.replace(pod, metadata=named)
