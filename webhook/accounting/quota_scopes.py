"""Which pods a ResourceQuota's scopes select.

Source: podMatchesScopeFunc in pkg/quota/v1/evaluator/core/pods.go and Matches in apiserver
pkg/quota/v1/generic/evaluator.go, v1.36.
"""

from webhook.accounting.asks import parse_pod_resources
from webhook.objects.cluster import ResourceQuotaSpec, ScopeRequirement
from webhook.objects.pods import PodSpec


def is_in_scope(quota: ResourceQuotaSpec, pod: PodSpec) -> bool | None:
    """Whether all scopes of a quota select a pod; one without scopes selects every pod.

    None when that hangs on affinity terms over namespaces, which are not modelled.

    Raises:
        QuantityError: a quantity of the pod is none.
    """
    requirements = [ScopeRequirement(scope_name=scope, operator="Exists") for scope in quota.scopes or ()]
    if quota.scope_selector is not None:
        requirements += quota.scope_selector.match_expressions or ()
    results = [_is_selected(each, pod) for each in requirements]
    if False in results:
        return False
    return None if None in results else True


def is_terminating(pod: PodSpec) -> bool:
    """Whether scope Terminating selects the pod: it has a deadline, which has nothing to do with being deleted."""
    return pod.active_deadline_seconds is not None and pod.active_deadline_seconds >= 0


def is_best_effort(pod: PodSpec) -> bool:
    """Whether scope BestEffort selects the pod: nothing asks for cpu or memory. One that only wants GPUs is such a pod.

    When the pod level is there, even empty, only it is looked at. Source: ComputePodQOS in
    pkg/apis/core/v1/helper/qos/qos.go, v1.36.

    Raises:
        QuantityError: a quantity of the pod is none.
    """
    resources = parse_pod_resources(pod)
    lists = [resources.requests, resources.limits]
    if pod.resources is None:
        lists = [listed for each in (*resources.containers, *resources.init) for listed in (each.requests, each.limits)]
    return not any(listed[name].sign > 0 for listed in lists for name in ("cpu", "memory") if name in listed)


def _is_selected(scope: ScopeRequirement, pod: PodSpec) -> bool | None:
    """Whether one scope selects a pod. Unknown scopes, and those of volume claims, select none."""
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
    """A selector over the name of the pod's priority class, which may be absent."""
    match scope.operator:
        case "In":
            return bool(priority_class) and priority_class in (scope.values or ())
        case "NotIn":
            return priority_class not in (scope.values or ())
        case "Exists":
            return bool(priority_class)
        case _:
            return not priority_class
