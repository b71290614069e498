"""The pods in an object: a pod or pod template, its path, and the number of pods that a controller makes of it.

The functions that count compute the number of pods of a workload and the additional pods of a rollout, as the
controllers of Kubernetes v1.36 do: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts),
pkg/controller/job/job_controller.go, and the defaults of pkg/apis/apps/v1/defaults.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.admission.job_pod_groups import JobGroupSource, is_managed_elsewhere
from tallygate.objects.apps import DeploymentStrategy, IntOrPercent, WorkloadSpec
from tallygate.objects.core import Pod, PodResourceClaim

_PERCENT_PATTERN = re.compile(r"(\d{1,9})%", re.ASCII)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"
_NULL = msgspec.Raw(b"null")
_ALL_NEW_FIRST = "no old pod ends before all new ones run"


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """The number of pods that a workload runs at a time; `noun` is the name of these pods in messages.

    A rollout adds up to `surge` pods. It cannot end an old pod before `required_surge` additional ones run, because of
    `surge_reason`. An autoscaler may raise the number to `most`; 0 if none does. If the pods are `separate`, those of
    other templates of the object may run at other times; those that are `first` start together.
    """

    count: int
    noun: str = "replicas"
    surge: int = 0
    required_surge: int = 0
    surge_reason: str = "maxUnavailable lets no old pod end first"
    most: int = 0
    is_separate: bool = False
    is_first: bool = False


class Completeness(StrEnum):
    """Whether a template in an object is the whole template of its pods.

    A `whole` template is one value. A `merged` one is put together of several fields of the object, as its controller
    does, so that nothing can be filled in. A `partial` one is completed by another object, or by a text that is not
    known before: what it lacks may be there.
    """

    WHOLE = "whole"
    MERGED = "merged"
    PARTIAL = "partial"


class JobDeadline(NamedTuple):
    """The path of `activeDeadlineSeconds` of the Job that makes pods of a template, and its value."""

    path: str
    seconds: int | None


class PodView(msgspec.Struct, frozen=True):
    """A pod or pod template inside an object: `path` is empty for a pod, else it ends in a dot.

    `replicas` is the number of pods that a controller makes of a template; None if it makes none. `identity` names the
    template among several in one object, also after a change of their order. `content` is the JSON of the template, if
    the object has not that of a pod at `path`; `places` are the paths of those fields of the pod that are elsewhere,
    and `amounts` the fields that state an amount, by the path that it would have as one of a container. `completeness`
    tells whether it is the whole template. `job` has the deadline of the Job that the template is of; None if it is of
    none. `group_source` is the source of the PodGroup of that Job, and `group_claims` are the claims that are made from
    templates once for all pods, for that PodGroup.
    """

    path: str
    pod: Pod
    is_template: bool
    replicas: ReplicaCount | None = None
    identity: str = ""
    content: msgspec.Raw | None = None
    places: Mapping[str, str] | None = None
    amounts: Mapping[str, str] | None = None
    completeness: Completeness = Completeness.WHOLE
    job: JobDeadline | None = None
    group_source: JobGroupSource = JobGroupSource.NONE
    group_claims: tuple[PodResourceClaim, ...] = ()

    @property
    def is_partial(self) -> bool:
        """True if another object may have what the template lacks."""
        return self.completeness is Completeness.PARTIAL

    def settle_group(self, version: KubernetesVersion) -> "PodView":
        """Return the view in this version, in which the pods of a Job may have no PodGroup after all."""
        source, spec = self.group_source.settle(version), self.pod.spec
        if source is self.group_source or spec is None:
            return self
        pod = msgspec.structs.replace(self.pod, spec=msgspec.structs.replace(spec, scheduling_group=None))
        return msgspec.structs.replace(self, pod=pod, group_source=source)

    def locate(self, pod_field: str) -> str:
        """Return the path in the object of a field of the pod, such as `spec.containers[0].resources.limits`."""
        if not self.places:
            return f"{self.path}{pod_field}"
        prefix = max((place for place in self.places if pod_field.startswith(place)), key=len, default="")
        return self.places[prefix] + pod_field[len(prefix) :] if prefix else f"{self.path}{pod_field}"

    def find_pod_field(self, field: str) -> str | None:
        """Return the field of the pod at a path in the object, the reverse of `locate`; None if it is elsewhere."""
        for pod_field, place in (self.places or {}).items():
            if field == place or field.startswith((f"{place}.", f"{place}[")):
                return pod_field + field[len(place) :]
        return field.removeprefix(self.path) if field.startswith(self.path) else None


def count_replicas(spec: WorkloadSpec) -> ReplicaCount:
    """Return the number of pods of a ReplicaSet, StatefulSet or ReplicationController."""
    return ReplicaCount(max(_get_or_default(spec.replicas, 1), 0))


def count_daemon_pods(_: WorkloadSpec) -> ReplicaCount:
    """Return 1, the minimum: the number of pods of a DaemonSet depends on the nodes."""
    return ReplicaCount(1, "pods")


def count_job_pods(spec: WorkloadSpec) -> ReplicaCount:
    """Return the number of pods of a Job that run at a time; another controller may make them elsewhere."""
    if spec.suspend or is_managed_elsewhere(spec):
        return ReplicaCount(0)
    parallel = _get_or_default(spec.parallelism, 1)
    return ReplicaCount(max(min(parallel, _get_or_default(spec.completions, parallel)), 0), "parallel pods")


def count_deployment_pods(spec: WorkloadSpec) -> ReplicaCount:
    """Return the number of pods of a Deployment; an invalid share, which the API server rejects, counts as 0."""
    count = count_replicas(spec).count
    update = resolve_rolling_update(spec, count)
    if update is None:
        return ReplicaCount(count)
    return _add_surge(count, update.surge, update.unavailable)


def _add_surge(count: int, surge: int, unavailable: int) -> ReplicaCount:
    """Return the number of pods with the surge of a rollout, whose new pods are never more than the replicas.

    Source: NewRSNewReplicas in pkg/controller/deployment/util/deployment_util.go, v1.36.
    """
    surge = min(surge, count)
    return ReplicaCount(count, surge=surge, required_surge=int(unavailable == 0 and surge > 0))


class RolloutSteps(NamedTuple):
    """The number of pods that a rolling update of a Deployment adds at most, and of those that may be missing.

    `surge` is that of the strategy: the new pods are never more than the replicas (`count_deployment_pods`).
    """

    surge: int
    unavailable: int


def resolve_rolling_update(spec: WorkloadSpec, count: int) -> RolloutSteps | None:
    """Return the rolling update of a Deployment with this number of pods; None if it recreates all pods."""
    strategy = spec.strategy or DeploymentStrategy()
    if strategy.type == _RECREATE:
        return None
    rolling = strategy.rolling_update
    surge = _resolve_share(rolling.max_surge if rolling else None, count, round_up=True)
    unavailable = _resolve_share(rolling.max_unavailable if rolling else None, count, round_up=False)
    # If both are zero, Kubernetes lets one pod be unavailable: otherwise the rollout could not proceed.
    return RolloutSteps(surge, unavailable or int(not surge))


class _Canary(msgspec.Struct, rename="camel"):
    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    traffic_routing: msgspec.Raw = _NULL
    dynamic_stable_scale: bool = False


class RolloutStrategy(msgspec.Struct, rename="camel"):
    """The strategy of an Argo Rollout (pkg/apis/rollouts/v1alpha1/types.go)."""

    canary: _Canary | None = None
    blue_green: msgspec.Raw = _NULL


def count_rollout_pods(count: int, strategy: RolloutStrategy) -> ReplicaCount:
    """Return the number of pods of an Argo Rollout, as its v1.9.0 (utils/replicaset/canary.go, replicaset.go) does.

    A blue-green rollout, and a canary with a traffic router, run all new pods before the first old one ends.
    """
    canary = strategy.canary
    is_routed = canary is not None and canary.traffic_routing != _NULL and not canary.dynamic_stable_scale
    if is_routed or strategy.blue_green != _NULL:
        return double_in_rollout(ReplicaCount(count))
    if canary is None:
        return ReplicaCount(count)
    surge = _resolve_share(canary.max_surge, count, round_up=True)
    unavailable = _resolve_share(canary.max_unavailable, count, round_up=False)
    return _add_surge(count, surge, unavailable)


def double_in_rollout(replicas: ReplicaCount) -> ReplicaCount:
    """Return the number of pods of which a rollout runs all new ones before the first old one ends."""
    count = replicas.count
    return replace(replicas, surge=count, required_surge=count, surge_reason=_ALL_NEW_FIRST)


def _resolve_share(share: IntOrPercent | None, count: int, *, round_up: bool) -> int:
    if isinstance(share, int):
        return share
    percent_match = _PERCENT_PATTERN.fullmatch(_DEFAULT_SHARE if share is None else share)
    product = int(percent_match[1]) * count if percent_match else 0
    return -(-product // 100) if round_up else product // 100


def _get_or_default(value: int | None, default: int) -> int:
    return default if value is None else value


def read_template(pod_view: PodView, content: object) -> msgspec.Raw:
    """Return the JSON of the pod or template in an object, given the JSON of the object.

    Raises:
        msgspec.DecodeError: if a field on the way to the template is no mapping.
        KeyError: if the object has no such template.
    """
    if pod_view.content is not None:
        return pod_view.content
    template = msgspec.Raw(bytes(content))  # type: ignore[call-overload]  # bytes or Raw alike
    for step in filter(None, pod_view.path.split(".")):
        template = _FIELDS_DECODER.decode(template)[step]
    return template
