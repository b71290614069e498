"""The kinds that rules evaluate, their decoders, and the path of the pod spec in each.

One table names the kinds and the subresources that matter; tallygate accepts everything else unchanged.
`DecodedRequest` decodes the object of a request on first use, and only once.

`count_replicas` computes the number of pods of a workload and the additional pods of a rollout, as the controllers of
Kubernetes v1.36 do: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts),
pkg/controller/job/job_controller.go, and the defaults of pkg/apis/apps/v1/defaults.go.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from tallygate.webhook.accounting.result_cache import Fingerprint, compute_fingerprint
from tallygate.webhook.admission.request import CREATE, UPDATE, AdmissionRequest, ReviewError
from tallygate.webhook.objects.apps import (
    CronJob,
    DeploymentStrategy,
    IntOrPercent,
    PodTemplate,
    Workload,
    WorkloadSpec,
)
from tallygate.webhook.objects.core import LimitRange, Node, Pod, ResourceQuota
from tallygate.webhook.objects.devices import (
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from tallygate.webhook.objects.meta import ObjectMeta

DecodedObject = (
    Pod | Workload | CronJob | PodTemplate | Node | ResourceQuota | LimitRange | ResourceClaim | ResourceClaimTemplate
)
"""Any object that rules apply to."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod or pod template inside an object: `path` is empty for a pod, else it ends in a dot."""

    path: str
    pod: Pod
    is_template: bool


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim for devices or the template of one: `path` is the path of its spec, `metadata` that of the claims."""

    path: str
    requests: Sequence[DeviceRequest]
    metadata: ObjectMeta | None
    is_template: bool


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """A kind that rules evaluate: its resource name, decoder, pod lookup and subresources.

    `subresources` are the subresources whose writes can change requests; the empty one is the object itself.
    """

    plural: str
    decode: Callable[[bytes | msgspec.Raw], DecodedObject]
    find_pod: Callable[[DecodedObject], PodView | None]
    subresources: frozenset[str]


def _find_own_pod(decoded_object: DecodedObject) -> PodView | None:
    return PodView("", decoded_object, is_template=False) if isinstance(decoded_object, Pod) else None


def _find_pod_in_spec(decoded_object: DecodedObject) -> PodView | None:
    template = decoded_object.spec.template if isinstance(decoded_object, Workload) and decoded_object.spec else None
    return PodView("spec.template.", template, is_template=True) if template else None


def _find_pod_in_job_template(decoded_object: DecodedObject) -> PodView | None:
    job = decoded_object.spec.job_template if isinstance(decoded_object, CronJob) and decoded_object.spec else None
    template = job.spec.template if job and job.spec else None
    return PodView("spec.jobTemplate.spec.template.", template, is_template=True) if template else None


def _find_pod_at_top(decoded_object: DecodedObject) -> PodView | None:
    template = decoded_object.template if isinstance(decoded_object, PodTemplate) else None
    return PodView("template.", template, is_template=True) if template else None


def _find_no_pod(_: DecodedObject) -> PodView | None:
    return None


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
_DECODE_WORKLOAD = msgspec.json.Decoder(Workload).decode

REVIEW_TARGETS: dict[tuple[str, str], ReviewTarget] = {
    ("", "Pod"): ReviewTarget(
        "pods", msgspec.json.Decoder(Pod).decode, _find_own_pod, frozenset({"", "resize", "ephemeralcontainers"})
    ),
    ("apps", "Deployment"): ReviewTarget("deployments", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY),
    ("apps", "ReplicaSet"): ReviewTarget("replicasets", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY),
    ("apps", "StatefulSet"): ReviewTarget("statefulsets", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY),
    ("apps", "DaemonSet"): ReviewTarget("daemonsets", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY),
    ("batch", "Job"): ReviewTarget("jobs", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY),
    ("", "ReplicationController"): ReviewTarget(
        "replicationcontrollers", _DECODE_WORKLOAD, _find_pod_in_spec, _OBJECT_ONLY
    ),
    ("batch", "CronJob"): ReviewTarget(
        "cronjobs", msgspec.json.Decoder(CronJob).decode, _find_pod_in_job_template, _OBJECT_ONLY
    ),
    ("", "PodTemplate"): ReviewTarget(
        "podtemplates", msgspec.json.Decoder(PodTemplate).decode, _find_pod_at_top, _OBJECT_ONLY
    ),
    ("", "Node"): ReviewTarget("nodes", msgspec.json.Decoder(Node).decode, _find_no_pod, frozenset({"", "status"})),
    ("", "ResourceQuota"): ReviewTarget(
        "resourcequotas", msgspec.json.Decoder(ResourceQuota).decode, _find_no_pod, _OBJECT_ONLY
    ),
    ("", "LimitRange"): ReviewTarget(
        "limitranges", msgspec.json.Decoder(LimitRange).decode, _find_no_pod, _OBJECT_ONLY
    ),
    ("resource.k8s.io", "ResourceClaim"): ReviewTarget(
        "resourceclaims", msgspec.json.Decoder(ResourceClaim).decode, _find_no_pod, frozenset({"", "status"})
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): ReviewTarget(
        "resourceclaimtemplates", msgspec.json.Decoder(ResourceClaimTemplate).decode, _find_no_pod, _OBJECT_ONLY
    ),
}
"""API group and kind to the review target."""

SCALABLE_KINDS = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("apps", "statefulsets"): "StatefulSet",
    ("", "replicationcontrollers"): "ReplicationController",
}
"""Group and plural of the resources that a Scale can resize, and their kind."""

KIND_NAMES = frozenset(kind for _, kind in REVIEW_TARGETS)
"""The names of the kinds that rules evaluate, for policies and for metric labels."""


def find_review_target(request: AdmissionRequest) -> ReviewTarget | None:
    """Return the review target of a request, or None if no rule and no cap applies to it."""
    target = REVIEW_TARGETS.get((request.group, request.kind))
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
    """An admission request with its decoded object; `target` is `None` if no rule and no cap applies to it."""

    __slots__ = ("_fingerprint", "_object", "request", "target")

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request
        self.target = find_review_target(request)
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

    def get_fingerprint(self, pod: Pod) -> Fingerprint | None:
        """Return the fingerprint of the object's own pod, or None if the pod has no spec."""
        if self._fingerprint is None:
            self._fingerprint = (compute_fingerprint(pod.spec) if pod.spec is not None else None,)
        return self._fingerprint[0]


_PERCENT_PATTERN = re.compile(r"(\d{1,9})%", re.ASCII)
_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """The number of pods that a workload runs at a time; `noun` is the name of these pods in messages.

    A rollout adds up to `surge` pods. If `is_surge_required`, it cannot end an old pod before an additional one runs.
    """

    count: int
    noun: str = "replicas"
    surge: int = 0
    is_surge_required: bool = False


def count_replicas(kind: str, decoded_object: DecodedObject) -> ReplicaCount | None:
    """Return the number of pods of a workload, or None for a kind without pods of its own.

    The number of a DaemonSet depends on the nodes: it counts as 1, the minimum. A value that the API server will
    reject, such as an invalid share, counts as absent.
    """
    if isinstance(decoded_object, CronJob):
        job = decoded_object.spec.job_template if decoded_object.spec else None
        return _count_job_pods(job.spec) if job and job.spec else None
    if not isinstance(decoded_object, Workload) or decoded_object.spec is None:
        return None
    if kind == "Job":
        return _count_job_pods(decoded_object.spec)
    if kind == "DaemonSet":
        return ReplicaCount(1, "pods")
    count = max(_get_or_default(decoded_object.spec.replicas, 1), 0)
    return (
        _count_deployment_pods(count, decoded_object.spec.strategy or DeploymentStrategy())
        if kind == "Deployment"
        else ReplicaCount(count)
    )


def _count_job_pods(spec: WorkloadSpec) -> ReplicaCount:
    if spec.suspend:
        return ReplicaCount(0)
    parallel = _get_or_default(spec.parallelism, 1)
    return ReplicaCount(max(min(parallel, _get_or_default(spec.completions, parallel)), 0), "parallel pods")


def _count_deployment_pods(count: int, strategy: DeploymentStrategy) -> ReplicaCount:
    if strategy.type == _RECREATE:
        return ReplicaCount(count)
    rolling = strategy.rolling_update
    surge = _resolve_share(rolling.max_surge if rolling else None, count, round_up=True)
    unavailable = _resolve_share(rolling.max_unavailable if rolling else None, count, round_up=False)
    # If both are zero, Kubernetes lets one pod be unavailable: otherwise the rollout could not proceed.
    return ReplicaCount(count, surge=surge, is_surge_required=unavailable == 0 and surge > 0)


def _resolve_share(share: IntOrPercent | None, count: int, *, round_up: bool) -> int:
    if isinstance(share, int):
        return share
    percent_match = _PERCENT_PATTERN.fullmatch(_DEFAULT_SHARE if share is None else share)
    product = int(percent_match[1]) * count if percent_match else 0
    return -(-product // 100) if round_up else product // 100


def _get_or_default(value: int | None, default: int) -> int:
    return default if value is None else value
