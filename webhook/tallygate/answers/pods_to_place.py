"""The pods to place: those that manifests would create, with the number of copies that run at a time."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.node_shape import NodeShape
from tallygate.admission.implied_requests import ImpliedIndex, ImpliedRequests, add_requests, describe_amount
from tallygate.admission.job_pod_groups import JobGroupSource
from tallygate.admission.kinds import BUILT_IN_TARGETS, ReviewTargets, list_review_targets
from tallygate.admission.pod_view import PodView, ReplicaCount, read_template
from tallygate.answers.job_groups import find_job_group
from tallygate.documents import syntax_tree
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits, Position
from tallygate.documents.to_json import to_json
from tallygate.manifests.findings import FindingSubject
from tallygate.manifests.kind_manifests import (
    ManifestsError,
    UnreadObject,
    find_defined_shapes,
    find_defined_targets,
    report_unread_kinds,
)
from tallygate.manifests.known_fields import find_unknown_fields
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import TypedObject, is_read, parse_object
from tallygate.manifests.unread_kinds import find_wrong_kind
from tallygate.objects.core import PodGroupReference
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup, PriorityClass, SchedulingPod, SchedulingPodSpec
from tallygate.policy.matching import matches_labels
from tallygate.policy.model import PolicySet
from tallygate.policy.selectors import PolicyLabelSelector

T = TypeVar("T")


class Progress(Protocol):
    """The place of messages and progress of work that takes long."""

    def report(self, message: str) -> None:
        """Take a message about the input."""
        ...

    def track(self, description: str, items: Sequence[T]) -> Iterable[T]:
        """Return the items, and show how far the work is."""
        ...


_POD_DECODER = msgspec.json.Decoder(SchedulingPod)
_ONE_PER_NODE = ("apps", "DaemonSet")
_CLAIM_KINDS = frozenset({"ResourceClaim", "ResourceClaimTemplate"})

DeviceClaimObject = ResourceClaim | ResourceClaimTemplate
"""A claim for devices, or a template of claims."""


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """A pod to place `count` times at once, called `noun`; without a `count`, once on every eligible node.

    `unmodelled` are the parts that are created only with the pod, so that a prediction cannot evaluate them.
    `job_group` is the PodGroup that the Job controller makes for them where its feature gate is on; `group_source` is
    what decides it.
    """

    subject: FindingSubject
    pod: SchedulingPod
    count: int | None = 1
    noun: str = "pods"
    unmodelled: tuple[str, ...] = ()
    job_group: PodGroup | None = None
    group_source: JobGroupSource = JobGroupSource.NONE

    @staticmethod
    def from_pod(pod: SchedulingPod, namespace: str, name: str) -> "PodsToPlace":
        """Create the object for one stored pod."""
        return PodsToPlace(FindingSubject(kind="Pod", namespace=namespace, name=name), pod)

    def complete(self, implied: ImpliedRequests, report: Callable[[str], None]) -> "PodsToPlace":
        """Return new pods with the values that they get without writing them; a pod of a cluster has them already.

        The implied requests are reported.
        """
        if self.pod.metadata is not None and self.pod.metadata.uid:
            return self
        pod = implied.defaults.complete(self._settle_group(implied.defaults.version))
        questions = list(implied.describe_unknown(self.subject.namespace))
        if name := implied.defaults.find_unknown_class(pod):
            questions.append(
                f"runtime class: those of this cluster are not known; the overhead, node selector and tolerations of "
                f"{name} do not count"
            )
        missing = implied.find_missing(pod)
        for request in missing:
            report(f"{self.subject}: each pod gets {describe_amount(request)}")
        pod = add_requests(pod, missing) if missing else pod
        return replace(self, pod=pod, unmodelled=(*self.unmodelled, *questions))

    def _settle_group(self, version: KubernetesVersion) -> SchedulingPod:
        """Return the pod as it awaits a PodGroup in this version, or awaits none."""
        if self.group_source.settle(version) is self.group_source:
            return self.pod
        spec = self.pod.spec or SchedulingPodSpec()
        return msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, scheduling_group=None))

    def copy_unscheduled(self) -> "PodsToPlace":
        """Return a copy; if the pod was read from a cluster, the copy has neither a UID nor a node."""
        spec, meta = self.pod.spec or SchedulingPodSpec(), self.pod.metadata or ObjectMeta()
        unscheduled = SchedulingPod(
            metadata=msgspec.structs.replace(meta, uid=None), spec=msgspec.structs.replace(spec, node_name=None)
        )
        return replace(self, pod=unscheduled if meta.uid else self.pod)

    def join_job_group(self) -> "PodsToPlace":
        """Return the pods as they name the PodGroup of their Job, those of another object as they are."""
        if self.job_group is None or self.job_group.metadata is None:
            return self
        spec = self.pod.spec or SchedulingPodSpec()
        group = PodGroupReference(self.job_group.metadata.name)
        return replace(
            self, pod=msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, scheduling_group=group))
        )

    def with_default_priority(self, classes: Mapping[str, PriorityClass]) -> "PodsToPlace":
        """Return the pods with priority 0 if they name a class and no class is known: every cluster has some."""
        spec = self.pod.spec or SchedulingPodSpec()
        if classes or spec.priority is not None or not spec.priority_class_name:
            return self
        question = f"priority: this cluster's priority classes are not known; {spec.priority_class_name} counts as 0"
        pod = msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, priority=0))
        return replace(self, pod=pod, unmodelled=(*self.unmodelled, question))


def create_pods_to_place(
    manifests: Iterable[Manifest], namespace: str, count: int | None, limits: Limits, targets: ReviewTargets
) -> Iterator[PodsToPlace]:
    """Yield the pods that the manifests create; `count` replaces the number of copies, if given.

    Raises:
        DocumentError: if a field has another type than in the API, or aliases expand beyond the limits.
    """
    for manifest in manifests:
        typed = parse_object(manifest, namespace, limits, targets)
        if typed is None:
            continue
        for view in typed.views:
            replicas = (view.replicas or ReplicaCount(1, "pods")) if count is None else ReplicaCount(count)
            is_daemon_set = (manifest.group, manifest.kind) == _ONE_PER_NODE and count is None
            pod_count = None if is_daemon_set else replicas.count
            unmodelled = tuple(_find_unmodelled(manifest))
            pod, group = find_job_group(typed.content, view, _decode_pod(typed, view), count)
            yield PodsToPlace(typed.subject, pod, pod_count, replicas.noun, unmodelled, group, view.group_source)


def _find_unmodelled(manifest: Manifest) -> Iterator[str]:
    spec = manifest.node.get("spec")
    if isinstance(spec, syntax_tree.Mapping) and spec.get("volumeClaimTemplates"):
        yield "volume claim templates: the claims are made with each pod"


def _decode_pod(typed: TypedObject, view: PodView) -> SchedulingPod:
    """Return the pod, or one that the template creates, with the name and namespace of the object."""
    pod = _POD_DECODER.decode(read_template(view, typed.body))
    meta, subject = pod.metadata or ObjectMeta(), typed.subject
    metadata = msgspec.structs.replace(meta, name=subject.name, namespace=subject.namespace)
    return msgspec.structs.replace(pod, metadata=metadata)


@dataclass(frozen=True, slots=True)
class PodsInFiles:
    """The pods that files create, and the `unread` objects, whose pods are unknown, since their kind is not read.

    `claims` are the claims for devices in the files. `shapes` are the shapes of nodes. `manifests` are all objects, and
    `selected` those with the pods.
    """

    pods: tuple[PodsToPlace, ...] = ()
    unread: tuple[UnreadObject, ...] = ()
    claims: tuple[DeviceClaimObject, ...] = ()
    shapes: tuple[NodeShape, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    selected: tuple[Manifest, ...] = ()

    def complete(self, policies: PolicySet, cluster: Cluster, report: Callable[[str], None]) -> Sequence[PodsToPlace]:
        """Return the pods with the defaults of a cluster, and the implied requests of these policies by its labels."""
        index = ImpliedIndex(policies)
        self.report_unknown_defaults(cluster, report)
        return [
            pod.complete(
                index.select(pod.subject.namespace, cluster.namespaces.get(pod.subject.namespace)).with_defaults(
                    cluster.find_pod_defaults(pod.subject.namespace)
                ),
                report,
            )
            for pod in self.pods
        ]

    def report_unknown_defaults(self, cluster: Cluster, report: Callable[[str], None]) -> None:
        """Report of which kinds the cluster may have objects that give the pods values."""
        defaults = cluster.find_pod_defaults("")
        kinds = {"limitranges": defaults.has_limit_ranges, "priorityclasses": defaults.has_priority_classes}
        unknown = " and ".join(name for name, is_known in kinds.items() if not is_known)
        if unknown and any(pod.pod.metadata is None or not pod.pod.metadata.uid for pod in self.pods):
            report(f"the {unknown} of this cluster are not known: new pods count as they are written")

    @contextmanager
    def apply_claims(self, cluster: Cluster) -> Generator[None]:
        """Have the claims and the templates in a cluster whose devices are known; a claim that exists stays.

        At the end the cluster has the claims and templates that it had before.
        """
        devices, changes = cluster.devices, list[tuple[DeviceClaimObject, DeviceClaimObject | None]]()
        try:
            for claim in self.claims if devices is not None else ():
                if devices is not None and (isinstance(claim, ResourceClaimTemplate) or devices.find(claim) is None):
                    changes.append((claim, devices.find_put(claim)))
                    devices.put(claim)
            yield
        finally:
            for claim, before in reversed(changes):
                if devices is not None:
                    devices.remove(claim)
                    if before is not None:
                        devices.put(before)


def create_pods_in_files(  # noqa: PLR0913, PLR0917  # manifests, and how they are read
    all_manifests: Sequence[Manifest],
    namespace: str,
    policies: PolicySet,
    count: int | None,
    report: Callable[[str], None],
    selector: PolicyLabelSelector | None = None,
) -> PodsInFiles:
    """Return the pods that manifests create, of the objects whose labels the selector matches; there may be none.

    A WorkloadKind among them defines the pods of its kind, and so does one of the policies. Objects with pods whose
    kind is not read are reported.

    Raises:
        ManifestsError: if an object is one that no API server accepts.
    """
    manifests = [manifest for manifest in all_manifests if selector is None or _is_selected(manifest, selector)]
    targets = {**list_review_targets(policies), **find_defined_targets(all_manifests)}
    _check_manifests(manifests, targets)
    unread = report_unread_kinds(manifests, namespace, targets, report)
    all_pods = tuple(pods for manifest in manifests for pods in _parse(manifest, namespace, count, targets))
    claims, shapes = tuple(_list_claims(all_manifests, namespace)), find_defined_shapes(all_manifests)
    return PodsInFiles(all_pods, unread, claims, shapes, tuple(all_manifests), tuple(manifests))


def _list_claims(manifests: Iterable[Manifest], namespace: str) -> Iterator[DeviceClaimObject]:
    """Yield the claims for devices, without devices, and the templates of claims."""
    for manifest in manifests:
        is_claim = manifest.kind in _CLAIM_KINDS and is_read(manifest, BUILT_IN_TARGETS)
        typed = _decode(manifest, namespace) if is_claim else None
        if typed is None:
            continue
        metadata = ObjectMeta(name=typed.subject.name, namespace=typed.subject.namespace)
        if isinstance(typed.content, ResourceClaim):
            yield ResourceClaim(metadata, typed.content.spec)
        elif isinstance(typed.content, ResourceClaimTemplate):
            yield ResourceClaimTemplate(metadata, typed.content.spec)


def _check_manifests(manifests: Sequence[Manifest], targets: ReviewTargets) -> None:
    """Check that API servers have the kinds and fields of the objects.

    Raises:
        ManifestsError: if they do not; the text has every such kind and field.
    """
    errors: list[str] = []
    for manifest in manifests:
        if wrong_kind := find_wrong_kind(manifest, targets):
            errors.append(f"{_locate(manifest, wrong_kind.position)}: {wrong_kind.message}")
        elif is_read(manifest, targets):
            fields = sorted(find_unknown_fields(manifest, targets), key=lambda each: each.position)
            errors += [f"{_locate(manifest, field.position)}: {field.field}: {field.message}" for field in fields]
    if errors:
        raise ManifestsError("\n".join(errors))


def _locate(manifest: Manifest, position: Position) -> str:
    return f"{manifest.file}:{position.line}:{position.column}"


def _is_selected(manifest: Manifest, selector: PolicyLabelSelector) -> bool:
    metadata = manifest.node.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, syntax_tree.Mapping) else None
    content = to_json(labels, DEFAULT_LIMITS.expanded) if isinstance(labels, syntax_tree.Mapping) else b"{}"
    texts = {key: value for key, value in msgspec.json.decode(content).items() if isinstance(value, str)}
    return matches_labels(selector, texts)


def _parse(manifest: Manifest, namespace: str, count: int | None, targets: ReviewTargets) -> list[PodsToPlace]:
    with _report_errors(manifest):
        return list(create_pods_to_place([manifest], namespace, count, DEFAULT_LIMITS, targets))


def _decode(manifest: Manifest, namespace: str) -> TypedObject | None:
    with _report_errors(manifest):
        return parse_object(manifest, namespace, DEFAULT_LIMITS, BUILT_IN_TARGETS)


@contextmanager
def _report_errors(manifest: Manifest) -> Generator[None]:
    try:
        yield
    except DocumentError as error:
        raise ManifestsError(f"{_locate(manifest, error.position)}: {error.message}") from error
    except msgspec.ValidationError as error:
        raise ManifestsError(
            f"{_locate(manifest, manifest.node.position)}: {manifest.kind} {manifest.name}: {error}; the API "
            "server could not decode this"
        ) from error


def is_placed(pods: PodsToPlace, report: Callable[[str], None]) -> bool:
    """Return whether the pod was read from a cluster and has a node there, and report such a pod."""
    meta, spec = pods.pod.metadata, pods.pod.spec
    node = spec.node_name if spec else None
    if not (meta and meta.uid and node):
        return False
    report(f"{pods.subject} is on node {node} already, and is skipped")
    return True
