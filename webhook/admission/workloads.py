"""What the gate judges, and where pod specs stand inside it.

One table says which kinds are judged and through which of their subresources; everything else passes untouched.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from webhook.admission.change import CREATE, UPDATE, Change
from webhook.objects.cluster import LimitRange, Node, ResourceQuota
from webhook.objects.pods import Pod
from webhook.objects.workloads import CronJob, PodTemplate, Workload

Judged = Pod | Workload | CronJob | PodTemplate | Node | ResourceQuota | LimitRange
"""Any object that rules apply to."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod or pod template, wherever it stands: `path` is empty for a pod, else ends in a dot."""

    path: str
    pod: Pod
    template: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A judged kind: how its JSON decodes, where its pod is, and the subresources whose writes can change requests."""

    decode: Callable[[bytes | msgspec.Raw], Judged]
    view: Callable[[Judged], PodView | None]
    subresources: frozenset[str]


def _pod(judged: Judged) -> PodView | None:
    return PodView("", judged, template=False) if isinstance(judged, Pod) else None


def _in_spec(judged: Judged) -> PodView | None:
    template = judged.spec.template if isinstance(judged, Workload) and judged.spec else None
    return PodView("spec.template.", template, template=True) if template else None


def _in_job_template(judged: Judged) -> PodView | None:
    job = judged.spec.job_template if isinstance(judged, CronJob) and judged.spec else None
    template = job.spec.template if job and job.spec else None
    return PodView("spec.jobTemplate.spec.template.", template, template=True) if template else None


def _at_top(judged: Judged) -> PodView | None:
    template = judged.template if isinstance(judged, PodTemplate) else None
    return PodView("template.", template, template=True) if template else None


def _none(_: Judged) -> PodView | None:
    return None


_ITSELF = frozenset({""})
_WORKLOAD = Target(msgspec.json.Decoder(Workload).decode, _in_spec, _ITSELF)

TARGETS: dict[tuple[str, str], Target] = {
    ("", "Pod"): Target(msgspec.json.Decoder(Pod).decode, _pod, frozenset({"", "resize", "ephemeralcontainers"})),
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("apps", "StatefulSet"): _WORKLOAD,
    ("apps", "DaemonSet"): _WORKLOAD,
    ("batch", "Job"): _WORKLOAD,
    ("", "ReplicationController"): _WORKLOAD,
    ("batch", "CronJob"): Target(msgspec.json.Decoder(CronJob).decode, _in_job_template, _ITSELF),
    ("", "PodTemplate"): Target(msgspec.json.Decoder(PodTemplate).decode, _at_top, _ITSELF),
    ("", "Node"): Target(msgspec.json.Decoder(Node).decode, _none, frozenset({"", "status"})),
    ("", "ResourceQuota"): Target(msgspec.json.Decoder(ResourceQuota).decode, _none, _ITSELF),
    ("", "LimitRange"): Target(msgspec.json.Decoder(LimitRange).decode, _none, _ITSELF),
}
"""API group and kind to how it is judged."""

KINDS = frozenset(kind for _, kind in TARGETS)
"""The judged kinds by name, for policies and for metric labels."""


def target(change: Change) -> Target | None:
    """How this change is judged, or None when no rule has anything to say about it."""
    found = TARGETS.get((change.group, change.kind))
    if found is None or change.operation not in {CREATE, UPDATE} or change.subresource not in found.subresources:
        return None
    return found
