"""The kinds that rules evaluate, their decoders, and the path of the pod spec in each.

One table names the kinds and the subresources that matter; tallygate accepts everything else unchanged.
`DecodedRequest` decodes the object of a request on first use, and only once.

Kinds of other projects come from the definitions in `known_kinds` and in policies; `pod_sets` reads their objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from tallygate.accounting.result_cache import Fingerprint, compute_fingerprint
from tallygate.admission import pod_view
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.job_pod_groups import JobGroupSource, find_group_source, list_group_claims
from tallygate.admission.pod_sets import CustomWorkload, read_custom_workload
from tallygate.admission.request import CREATE, UPDATE, AdmissionRequest, ReviewError
from tallygate.objects.apps import CronJob, PodTemplate, Workload, WorkloadSpec
from tallygate.objects.core import LimitRange, Node, Pod, PodGroupReference, ResourceQuota
from tallygate.objects.devices import (
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.model import PolicySet
from tallygate.policy.workload_kinds import PodForm, WorkloadKind

DecodedObject = (
    Pod
    | Workload
    | CronJob
    | PodTemplate
    | Node
    | ResourceQuota
    | LimitRange
    | ResourceClaim
    | ResourceClaimTemplate
    | CustomWorkload
)
"""Any object that rules apply to."""

PodLister = Callable[[DecodedObject], Sequence[pod_view.PodView]]
"""Returns the pods and pod templates in an object."""

GroupKind = tuple[str, str]
"""API group and kind."""


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim for devices or the template of one: `path` is the path of its spec, `metadata` that of the claims."""

    path: str
    requests: Sequence[DeviceRequest]
    metadata: ObjectMeta | None
    is_template: bool


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """A kind that rules evaluate: its resource name, decoder, pods and subresources.

    `subresources` are the subresources whose writes can change requests; the empty one is the object itself. If it
    `creates_pods`, a controller makes pods of its templates. `versions` are those that are read, the newest first.
    The kinds of Kubernetes itself have no `definition`. If it `starts_together`, the pods of an object wait for each
    other.
    """

    plural: str
    decode: Callable[[bytes | msgspec.Raw], DecodedObject]
    list_pods: PodLister
    subresources: frozenset[str]
    creates_pods: bool = False
    versions: tuple[str, ...] = ("v1",)
    definition: WorkloadKind | None = None
    starts_together: bool = False


ReviewTargets = Mapping[GroupKind, ReviewTarget]
"""API group and kind to the review target."""


def _list_own_pod(decoded_object: DecodedObject) -> Sequence[pod_view.PodView]:
    return (pod_view.PodView("", decoded_object, is_template=False),) if isinstance(decoded_object, Pod) else ()


_DEADLINE = "activeDeadlineSeconds"


def _list_template_pods(count: Callable[[WorkloadSpec], pod_view.ReplicaCount], *, is_job: bool = False) -> PodLister:
    def list_pods(decoded_object: DecodedObject) -> Sequence[pod_view.PodView]:
        spec = decoded_object.spec if isinstance(decoded_object, Workload) else None
        if spec is None or spec.template is None:
            return ()
        view = pod_view.PodView(
            "spec.template.",
            spec.template,
            is_template=True,
            replicas=count(spec),
            job=pod_view.JobDeadline(f"spec.{_DEADLINE}", spec.active_deadline_seconds) if is_job else None,
        )
        meta = decoded_object.metadata
        return (_find_group(view, spec, meta, is_owned=_is_controlled(meta)) if is_job else view,)

    return list_pods


def _find_group(
    view: pod_view.PodView, spec: WorkloadSpec, meta: ObjectMeta | None, *, is_owned: bool
) -> pod_view.PodView:
    """Return the pods of a Job with the claims that they share; if a PodGroup may share them, they are unknown."""
    source, pod, shared = find_group_source(spec, meta, is_owned=is_owned), view.pod, list_group_claims(spec)
    view = msgspec.structs.replace(view, group_source=source)
    if source is JobGroupSource.JOB:
        return msgspec.structs.replace(view, group_claims=shared)
    if source is JobGroupSource.NONE or pod.spec is None:
        return view
    claims = [claim for claim in pod.spec.resource_claims or () if claim.resource_claim_template_name]
    if not any(claim in shared for claim in claims) and (spec.scheduling is not None or not claims):
        return view
    pod_spec = msgspec.structs.replace(pod.spec, scheduling_group=_SOME_GROUP)
    return msgspec.structs.replace(view, pod=msgspec.structs.replace(pod, spec=pod_spec))


def _is_controlled(meta: ObjectMeta | None) -> bool:
    return any(owner.controller for owner in (meta.owner_references if meta else None) or ())


def _list_job_template_pods(decoded_object: DecodedObject) -> Sequence[pod_view.PodView]:
    cron_job = decoded_object.spec if isinstance(decoded_object, CronJob) else None
    job = cron_job.job_template if cron_job else None
    spec = job.spec if job else None
    if cron_job is None or job is None or spec is None or spec.template is None:
        return ()
    replicas = pod_view.count_job_pods(spec)
    if cron_job.suspend:
        replicas = replace(replicas, count=0)  # it starts no Job (syncCronJob in cronjob_controllerv2.go, v1.36)
    deadline = pod_view.JobDeadline(f"spec.jobTemplate.spec.{_DEADLINE}", spec.active_deadline_seconds)
    path = "spec.jobTemplate.spec.template."
    view = pod_view.PodView(path, spec.template, is_template=True, replicas=replicas, job=deadline)
    return (_find_group(view, spec, job.metadata, is_owned=True),)


def _list_pods_at_top(decoded_object: DecodedObject) -> Sequence[pod_view.PodView]:
    template = decoded_object.template if isinstance(decoded_object, PodTemplate) else None
    return (pod_view.PodView("template.", template, is_template=True),) if template else ()


def _list_pod_sets(decoded_object: DecodedObject) -> Sequence[pod_view.PodView]:
    return decoded_object.pod_sets if isinstance(decoded_object, CustomWorkload) else ()


def _list_no_pods(_: DecodedObject) -> Sequence[pod_view.PodView]:
    return ()


def find_claim(decoded_object: DecodedObject) -> ClaimView | None:
    """Return the claim in an object, None if it is of another kind."""
    if isinstance(decoded_object, ResourceClaim):
        return ClaimView("spec", _list_requests(decoded_object.spec), decoded_object.metadata, is_template=False)
    if isinstance(decoded_object, ResourceClaimTemplate):
        template = decoded_object.spec or ResourceClaimTemplateSpec()
        return ClaimView("spec.spec", _list_requests(template.spec), template.metadata, is_template=True)
    return None


def _list_requests(spec: ResourceClaimSpec | None) -> Sequence[DeviceRequest]:
    return (spec.devices.requests if spec and spec.devices else None) or ()


_OBJECT_ONLY = frozenset({""})
_CONTAINER_OF_OBJECTS = ("workload.codeflare.dev", "AppWrapper")  # it rejects one in another
_SOME_GROUP = PodGroupReference()
_SOME_OWNER = OwnerReference(controller=True)
_DECODE_WORKLOAD = msgspec.json.Decoder(Workload).decode


def _create_workload_target(
    plural: str, count: Callable[[WorkloadSpec], pod_view.ReplicaCount], *, is_job: bool = False
) -> ReviewTarget:
    list_pods = _list_template_pods(count, is_job=is_job)
    return ReviewTarget(plural, _DECODE_WORKLOAD, list_pods, _OBJECT_ONLY, creates_pods=True, starts_together=is_job)


BUILT_IN_TARGETS: ReviewTargets = {
    ("", "Pod"): ReviewTarget(
        "pods", msgspec.json.Decoder(Pod).decode, _list_own_pod, frozenset({"", "resize", "ephemeralcontainers"})
    ),
    ("apps", "Deployment"): _create_workload_target("deployments", pod_view.count_deployment_pods),
    ("apps", "ReplicaSet"): _create_workload_target("replicasets", pod_view.count_replicas),
    ("apps", "StatefulSet"): _create_workload_target("statefulsets", pod_view.count_replicas),
    ("apps", "DaemonSet"): _create_workload_target("daemonsets", pod_view.count_daemon_pods),
    ("batch", "Job"): _create_workload_target("jobs", pod_view.count_job_pods, is_job=True),
    ("", "ReplicationController"): _create_workload_target("replicationcontrollers", pod_view.count_replicas),
    ("batch", "CronJob"): ReviewTarget(
        "cronjobs", msgspec.json.Decoder(CronJob).decode, _list_job_template_pods, _OBJECT_ONLY, creates_pods=True
    ),
    ("", "PodTemplate"): ReviewTarget(
        "podtemplates", msgspec.json.Decoder(PodTemplate).decode, _list_pods_at_top, _OBJECT_ONLY
    ),
    ("", "Node"): ReviewTarget("nodes", msgspec.json.Decoder(Node).decode, _list_no_pods, frozenset({"", "status"})),
    ("", "ResourceQuota"): ReviewTarget(
        "resourcequotas", msgspec.json.Decoder(ResourceQuota).decode, _list_no_pods, _OBJECT_ONLY
    ),
    ("", "LimitRange"): ReviewTarget(
        "limitranges", msgspec.json.Decoder(LimitRange).decode, _list_no_pods, _OBJECT_ONLY
    ),
    ("resource.k8s.io", "ResourceClaim"): ReviewTarget(
        "resourceclaims", msgspec.json.Decoder(ResourceClaim).decode, _list_no_pods, frozenset({"", "status"})
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): ReviewTarget(
        "resourceclaimtemplates", msgspec.json.Decoder(ResourceClaimTemplate).decode, _list_no_pods, _OBJECT_ONLY
    ),
}
"""API group and kind to the review target, for the kinds that every API server has."""


def _create_target(kind: WorkloadKind) -> ReviewTarget:
    contains_objects = any(pod_set.form is PodForm.OBJECT for pod_set in kind.pod_sets)
    return ReviewTarget(
        kind.resource,
        partial(read_custom_workload, kind, read_object=_list_contained_pods if contains_objects else None),
        _list_pod_sets,
        _OBJECT_ONLY,
        creates_pods=kind.creates_pods,
        versions=kind.versions,
        definition=kind,
        starts_together=kind.starts_together,
    )


class _TypeFields(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""
    kind: str = ""


_TYPE_DECODER = msgspec.json.Decoder(_TypeFields)


def _list_contained_pods(content: msgspec.Raw) -> Sequence[pod_view.PodView] | None:
    """Return the pods in an object that another one contains; None if its kind is not read, or contains objects too.

    Raises:
        ValueError: if the object is not of the kind that it states.
    """
    written = _TYPE_DECODER.decode(content)
    target = REVIEW_TARGETS.get((written.api_version.rpartition("/")[0], written.kind))
    if target is None or target is REVIEW_TARGETS.get(_CONTAINER_OF_OBJECTS):
        return None
    decoded_object = target.decode(content)
    if isinstance(decoded_object, Workload):  # the container will own it
        meta = msgspec.structs.replace(decoded_object.metadata or ObjectMeta(), owner_references=[_SOME_OWNER])
        decoded_object = msgspec.structs.replace(decoded_object, metadata=meta)
    return target.list_pods(decoded_object)


REVIEW_TARGETS: ReviewTargets = {
    **BUILT_IN_TARGETS,
    **{(kind.group, kind.kind): _create_target(kind) for kind in KNOWN_KINDS},
}
"""The review targets of all kinds that are known without a policy."""


def list_review_targets(policies: PolicySet) -> ReviewTargets:
    """Return the review targets of the kinds that are known without a policy, and of those that policies define."""
    if not policies.workload_kinds:
        return REVIEW_TARGETS
    return {**REVIEW_TARGETS, **{(kind.group, kind.kind): _create_target(kind) for kind in policies.workload_kinds}}


SCALABLE_KINDS = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("apps", "statefulsets"): "StatefulSet",
    ("", "replicationcontrollers"): "ReplicationController",
    ("argoproj.io", "rollouts"): "Rollout",
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): "LeaderWorkerSet",
}
"""Group and plural of the resources whose `spec.replicas` a Scale sets, and their kind.

A Scale of a PyTorchJob or PaddleJob sets the replicas of its workers, and is not evaluated.
"""

KIND_NAMES = frozenset(kind for _, kind in REVIEW_TARGETS)
"""The names of the kinds that rules evaluate, for policies and for metric labels."""


def find_review_target(request: AdmissionRequest, targets: ReviewTargets) -> ReviewTarget | None:
    """Return the review target of a request, or None if no rule and no cap applies to it."""
    target = targets.get((request.group, request.kind))
    if target is None or request.operation not in {CREATE, UPDATE} or request.subresource not in target.subresources:
        return None
    return target


def decode_object(target: ReviewTarget, request: AdmissionRequest, raw: object) -> DecodedObject:
    """Return the typed object.

    Raises:
        ReviewError: if the object is not of the kind that the request states, or nests too deep.
    """
    try:
        return target.decode(raw)  # type: ignore[arg-type]  # bytes or msgspec.Raw, which decode takes alike
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a {request.kind}: {error}") from None


class DecodedRequest:
    """An admission request with its decoded object; `target` is `None` if no rule and no cap applies to it.

    `implied` are the requests that pods in the namespace get without writing them; forecasts add the values that
    built-in admission gives the pods (`ImpliedRequests.with_defaults`), after the rules.
    """

    __slots__ = ("_fingerprint", "_object", "implied", "request", "target", "targets")

    def __init__(
        self, request: AdmissionRequest, targets: ReviewTargets, implied: ImpliedRequests = NO_IMPLIED
    ) -> None:
        self.request = request
        self.implied = implied
        self.targets = targets
        self.target = find_review_target(request, targets)
        self._object: DecodedObject | None = None
        self._fingerprint: tuple[Fingerprint | None] | None = None

    def get_object(self, target: ReviewTarget) -> DecodedObject:
        """Return the object, decoded by `target`, which is the review target of this request.

        Raises:
            ReviewError: if the object is not of the kind that the request states, or nests too deep.
        """
        if self._object is None:
            self._object = decode_object(target, self.request, self.request.object)
        return self._object

    def list_pods(self, target: ReviewTarget) -> Sequence[pod_view.PodView]:
        """Return the pods in the object; templates have the requests that are implied for their pods.

        Raises:
            ReviewError: if the object is not of the kind that the request states, or nests too deep.
        """
        return self.implied.complete_views(target.list_pods(self.get_object(target)))

    def get_fingerprint(self, pod: Pod) -> Fingerprint | None:
        """Return the fingerprint of the object's own pod, or None if the pod has no spec."""
        if self._fingerprint is None:
            self._fingerprint = (compute_fingerprint(pod.spec) if pod.spec is not None else None,)
        return self._fingerprint[0]
