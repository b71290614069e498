"""What the gate judges, and where pod specs stand inside it.

One table says which kinds are judged and through which of their subresources; everything else passes untouched.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from webhook.admission.change import CREATE, UPDATE, AdmissionRequest
from webhook.objects.apps import CronJob, PodTemplate, Workload
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
