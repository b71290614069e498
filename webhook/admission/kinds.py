"""What the gate judges, and where pod specs stand inside it.

One table says which kinds are judged and through which of their subresources; everything else passes untouched.

Reading: how one change is judged, and its object, decoded when somebody asks for it, and once.

How many pods a workload runs at a time, and how many more a rollout of it starts.

As the controllers of Kubernetes v1.36 count: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts),
pkg/controller/job/job_controller.go, and the defaults of pkg/apis/apps/v1/defaults.go.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from webhook.accounting.fingerprint import Fingerprint, compute_fingerprint
from webhook.admission.request import CREATE, UPDATE, AdmissionRequest, ReviewError
from webhook.objects.apps import CronJob, DeploymentStrategy, IntOrPercent, PodTemplate, Workload, WorkloadSpec
from webhook.objects.core import LimitRange, Node, Pod, ResourceQuota

DecodedObject = Pod | Workload | CronJob | PodTemplate | Node | ResourceQuota | LimitRange
"""Any object that rules apply to."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod or pod template, wherever it stands: `path` is empty for a pod, else ends in a dot."""

    path: str
    pod: Pod
    is_template: bool


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """A judged kind: its resource name, how its JSON decodes, where its pod is, and what of it is judged when written.

    `subresources` are those whose writes can change requests; the empty one is the object itself.
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
}
"""API group and kind to how it is judged."""

SCALABLE_KINDS = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("apps", "statefulsets"): "StatefulSet",
    ("", "replicationcontrollers"): "ReplicationController",
}
"""Group and plural of what makes as many pods as a Scale says, and its kind."""

KIND_NAMES = frozenset(kind for _, kind in REVIEW_TARGETS)
"""The judged kinds by name, for policies and for metric labels."""


def find_review_target(request: AdmissionRequest) -> ReviewTarget | None:
    """How this change is judged, or None when no rule has anything to say about it."""
    target = REVIEW_TARGETS.get((request.group, request.kind))
    if target is None or request.operation not in {CREATE, UPDATE} or request.subresource not in target.subresources:
        return None
    return target


def decode_object(target: ReviewTarget, request: AdmissionRequest, raw: object) -> DecodedObject:
    """The typed object.

    Raises:
        ReviewError: it is not of the kind it says it is, or nests too deep.
    """
    try:
        return target.decode(raw)  # type: ignore[arg-type]  # bytes or msgspec.Raw, which decode takes alike
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a {request.kind}: {error}") from None


class DecodedRequest:
    """One change; `target` is None where no rule and no cap has anything to say about it."""

    __slots__ = ("_fingerprint", "_object", "request", "target")

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request
        self.target = find_review_target(request)
        self._object: DecodedObject | None = None
        self._fingerprint: tuple[Fingerprint | None] | None = None

    def get_object(self, target: ReviewTarget) -> DecodedObject:
        """The object, which is `found` to be judged so.

        Raises:
            ReviewError: it is not of the kind it says it is, or nests too deep.
        """
        if self._object is None:
            self._object = decode_object(target, self.request, self.request.object)
        return self._object

    def get_fingerprint(self, pod: Pod) -> Fingerprint | None:
        """That of the object's own pod."""
        if self._fingerprint is None:
            self._fingerprint = (compute_fingerprint(pod.spec) if pod.spec is not None else None,)
        return self._fingerprint[0]


_PERCENT_PATTERN = re.compile(r"(\d{1,9})%", re.ASCII)
_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """`count` pods at a time, called `word`.

    A rollout has up to `surge` more; with `held` it can end no old pod before one of those runs.
    """

    count: int
    noun: str = "replicas"
    surge: int = 0
    is_surge_required: bool = False


def count_replicas(kind: str, decoded_object: DecodedObject) -> ReplicaCount | None:
    """The pods of a workload; None for what has none of its own, or has as many as there are nodes (then: at least 1).

    What the API server will refuse, such as a share that is none, counts as absent.
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
    # Where both come to nothing, one may be unavailable: a rollout could not go on otherwise.
    return ReplicaCount(count, surge=surge, is_surge_required=unavailable == 0 and surge > 0)


def _resolve_share(share: IntOrPercent | None, count: int, *, round_up: bool) -> int:
    if isinstance(share, int):
        return share
    percent_match = _PERCENT_PATTERN.fullmatch(_DEFAULT_SHARE if share is None else share)
    product = int(percent_match[1]) * count if percent_match else 0
    return -(-product // 100) if round_up else product // 100


def _get_or_default(value: int | None, default: int) -> int:
    return default if value is None else value
