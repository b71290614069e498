"""The charge of a pod under a ResourceQuota, and the scopes that select the pod.

Source: PodUsageFunc, podComputeUsageHelper, QuotaV1Pod and podMatchesScopeFunc in
pkg/quota/v1/evaluator/core/pods.go, Matches in apiserver pkg/quota/v1/generic/evaluator.go, v1.36.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from tallygate.webhook.accounting.names import DEVICE_CLASS_PREFIX, is_extended, is_hugepage
from tallygate.webhook.accounting.pod_requests import ResizeView, apply_status, compute_limits, compute_requests
from tallygate.webhook.accounting.pod_resources import Quantities, parse_pod_resources
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.objects.core import Pod, PodSpec, ResourceQuotaSpec, ScopeRequirement

_ONE_POD = Quantity.from_int(1)
_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_ENDED_PHASES = ("Succeeded", "Failed")


def compute_quota_charge(pod: Pod, now: datetime | None) -> Mapping[str, Quantity]:
    """Return the amount that a pod adds to each quota key.

    `now` decides whether the grace period of a deleted pod has ended; with None that is unknown, and the pod is
    charged.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    charge = {"count/pods": _ONE_POD}
    if not is_charged_by_quota(pod, now):
        return charge
    resources = apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.QUOTA)
    return {
        **charge,
        **compute_quota_usage(compute_requests(resources).quantities, compute_limits(resources).quantities),
    }


def compute_quota_usage(requests: Quantities, limits: Quantities) -> dict[str, Quantity]:
    """Return the quota keys and amounts of effective requests and limits.

    Extended resources count as `requests.<name>` only; native names other than these never count.
    """
    usage = {"pods": _ONE_POD}
    for name in _COMPUTE_RESOURCES:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if is_hugepage(name):
            usage[name] = usage[f"requests.{name}"] = quantity
        if is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX):
            usage[f"requests.{name}"] = quantity
    return usage


def is_counted_key(key: str) -> bool:
    """Return whether a quota on a key ever counts a pod (podResources and MatchingResources)."""
    resource = key.removeprefix("requests.")
    if resource in _COMPUTE_RESOURCES or is_hugepage(resource) or key in ("pods", "count/pods"):
        return True
    if key.startswith("limits."):
        return key.removeprefix("limits.") in _COMPUTE_RESOURCES
    return key != resource and (is_extended(resource) or resource.startswith(DEVICE_CLASS_PREFIX))


def is_charged_by_quota(pod: Pod, now: datetime | None) -> bool:
    """Return whether a quota charges a pod for more than its existence.

    It does not charge a pod that has ended, or whose deletion timestamp plus grace period is in the past. That
    timestamp already includes the grace period, so a deleted pod stays charged for about twice as long.

    Raises:
        ValueError: if the deletion timestamp is no RFC 3339 time.
    """
    if pod.status is not None and pod.status.phase in _ENDED_PHASES:
        return False
    meta = pod.metadata
    if now is None or meta is None or meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    deletion_time = datetime.fromisoformat(meta.deletion_timestamp)
    return now <= deletion_time + timedelta(seconds=meta.deletion_grace_period_seconds)


def is_in_scope(quota: ResourceQuotaSpec, pod: PodSpec) -> bool | None:
    """Return whether all scopes of a quota select a pod; a quota without scopes selects every pod.

    Return None if that depends on affinity terms over namespaces, which are not modelled.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    requirements = [ScopeRequirement(scope_name=scope, operator="Exists") for scope in quota.scopes or ()]
    if quota.scope_selector is not None:
        requirements += quota.scope_selector.match_expressions or ()
    results = [_is_selected(each, pod) for each in requirements]
    if False in results:
        return False
    return None if None in results else True


def is_terminating(pod: PodSpec) -> bool:
    """Return whether scope Terminating selects the pod: it has a deadline, which is unrelated to its deletion."""
    return pod.active_deadline_seconds is not None and pod.active_deadline_seconds >= 0


def is_best_effort(pod: PodSpec) -> bool:
    """Return whether scope BestEffort selects the pod: it requests and limits neither cpu nor memory.

    A pod that requests only GPUs is such a pod. If the pod level is present, even empty, only it is read. Source:
    ComputePodQOS in pkg/apis/core/v1/helper/qos/qos.go, v1.36.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = parse_pod_resources(pod)
    lists = [resources.requests, resources.limits]
    if pod.resources is None:
        lists = [listed for each in (*resources.containers, *resources.init) for listed in (each.requests, each.limits)]
    return not any(listed[name].sign > 0 for listed in lists for name in ("cpu", "memory") if name in listed)


def _is_selected(scope: ScopeRequirement, pod: PodSpec) -> bool | None:
    """Return whether one scope selects a pod. Unknown scopes, and those of volume claims, select no pod."""
    match scope.scope_name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return is_best_effort(pod)
        case "NotBestEffort":
            return not is_best_effort(pod)
        case "PriorityClass":
            return _is_priority_selected(scope, pod.priority_class_name or "")
        case "CrossNamespacePodAffinity":
            return None
        case _:
            return False


def _is_priority_selected(scope: ScopeRequirement, priority_class: str) -> bool:
    """Return whether a selector matches the name of the pod's priority class, which may be absent."""
    match scope.operator:
        case "In":
            return bool(priority_class) and priority_class in (scope.values or ())
        case "NotIn":
            return priority_class not in (scope.values or ())
        case "Exists":
            return bool(priority_class)
        case _:
            return not priority_class
