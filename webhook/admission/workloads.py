"""What the gate judges, and where pod specs stand inside it.

One table says which kinds are judged and through which of their subresources; everything else passes untouched.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from webhook.admission.change import CREATE, UPDATE, Change
from webhook.objects.apps import CronJob, PodTemplate, Workload
from webhook.objects.core import LimitRange, Node, Pod, ResourceQuota

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
    """A judged kind: its resource name, how its JSON decodes, where its pod is, and what of it is judged when written.

    `subresources` are those whose writes can change requests; the empty one is the object itself.
    """

    plural: str
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
_WORKLOAD = msgspec.json.Decoder(Workload).decode

TARGETS: dict[tuple[str, str], Target] = {
    ("", "Pod"): Target(
        "pods", msgspec.json.Decoder(Pod).decode, _pod, frozenset({"", "resize", "ephemeralcontainers"})
    ),
    ("apps", "Deployment"): Target("deployments", _WORKLOAD, _in_spec, _ITSELF),
    ("apps", "ReplicaSet"): Target("replicasets", _WORKLOAD, _in_spec, _ITSELF),
    ("apps", "StatefulSet"): Target("statefulsets", _WORKLOAD, _in_spec, _ITSELF),
    ("apps", "DaemonSet"): Target("daemonsets", _WORKLOAD, _in_spec, _ITSELF),
    ("batch", "Job"): Target("jobs", _WORKLOAD, _in_spec, _ITSELF),
    ("", "ReplicationController"): Target("replicationcontrollers", _WORKLOAD, _in_spec, _ITSELF),
    ("batch", "CronJob"): Target("cronjobs", msgspec.json.Decoder(CronJob).decode, _in_job_template, _ITSELF),
    ("", "PodTemplate"): Target("podtemplates", msgspec.json.Decoder(PodTemplate).decode, _at_top, _ITSELF),
    ("", "Node"): Target("nodes", msgspec.json.Decoder(Node).decode, _none, frozenset({"", "status"})),
    ("", "ResourceQuota"): Target("resourcequotas", msgspec.json.Decoder(ResourceQuota).decode, _none, _ITSELF),
    ("", "LimitRange"): Target("limitranges", msgspec.json.Decoder(LimitRange).decode, _none, _ITSELF),
}
"""API group and kind to how it is judged."""

SCALED = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("apps", "statefulsets"): "StatefulSet",
    ("", "replicationcontrollers"): "ReplicationController",
}
"""Group and plural of what makes as many pods as a Scale says, and its kind."""

KINDS = frozenset(kind for _, kind in TARGETS)
"""The judged kinds by name, for policies and for metric labels."""


def target(change: Change) -> Target | None:
    """How this change is judged, or None when no rule has anything to say about it."""
    found = TARGETS.get((change.group, change.kind))
    if found is None or change.operation not in {CREATE, UPDATE} or change.subresource not in found.subresources:
        return None
    return found
