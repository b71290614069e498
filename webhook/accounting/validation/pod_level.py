"""What a pod sets for itself as a whole, and how it fits its containers.

Source: validatePodResources and validatePodResourceConsistency in pkg/apis/core/validation/validation.go, v1.36.
"""

from collections.abc import Collection

from webhook.accounting.asks import PodResources, aggregate_containers
from webhook.accounting.name_rules import NameContext
from webhook.accounting.names import is_hugepage
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import Quantity
from webhook.accounting.resource_codes import (
    CONTAINER_ABOVE_POD,
    POD_BELOW_CONTAINERS,
    POD_CLAIMS,
    WINDOWS_POD_RESOURCES,
)
from webhook.accounting.validation.claims import check_claims
from webhook.accounting.validation.containers import check_resources
from webhook.accounting.validation.printing import encode_go_json
from webhook.objects.pods import PodSpec


def check_pod_level(path: str, spec: PodSpec, resources: PodResources, claims: Collection[str]) -> list[Problem]:
    """Everything that is wrong with `spec.resources`, which is at a path."""
    if spec.resources is None:
        return []
    if spec.os is not None and spec.os.name == "windows":
        message = "a Windows pod cannot set resources as a whole; set them on its containers"
        return [
            Problem(path, WINDOWS_POD_RESOURCES.number, Reason.FORBIDDEN, message, "may not be set for a windows pod")
        ]
    problems = []
    if spec.resources.claims is not None:
        detail = "claims may not be set for Resources at pod-level"
        message = "a pod as a whole cannot use claims; refer to them from its containers"
        problems.append(Problem(f"{path}.claims", POD_CLAIMS.number, Reason.FORBIDDEN, message, detail))
    problems += check_resources(path, resources.requests, resources.limits, NameContext.POD)
    problems += check_claims(f"{path}.claims", spec.resources.claims, claims)
    return (
        problems
        + _check_requests_cover_containers(path, resources)
        + _check_limits_cover_containers(path, resources)
        + _check_container_limits(path, resources)
    )


def _check_requests_cover_containers(path: str, resources: PodResources) -> list[Problem]:
    """Requests of the whole pod that its containers exceed together."""
    container_totals = aggregate_containers(resources.containers, resources.init, limits=False)
    exceeding = {
        name: total
        for name, total in container_totals.items()
        if name in resources.requests and total > resources.requests[name]
    }
    return [
        _create_below_containers_problem(f"{path}.requests[{name}]", "requests", resources.requests[name], total)
        for name, total in exceeding.items()
    ]


def _check_limits_cover_containers(path: str, resources: PodResources) -> list[Problem]:
    """The same for limits, of huge pages only, since they cannot be overcommitted."""
    container_totals = aggregate_containers(resources.containers, resources.init, limits=True)
    exceeding = {
        name: total
        for name, total in container_totals.items()
        if name in resources.limits and total > resources.limits[name]
    }
    return [
        _create_below_containers_problem(f"{path}.limits[{name}]", "limits", resources.limits[name], total)
        for name, total in exceeding.items()
        if is_hugepage(name)
    ]


def _create_below_containers_problem(
    path: str, list_name: str, pod_quantity: Quantity, container_total: Quantity
) -> Problem:
    detail = f"must be greater than or equal to aggregate container {list_name} of {container_total}"
    message = (
        f"{pod_quantity} for the pod as a whole is less than its containers' {list_name} of {container_total} "
        "together; "
        f"set {container_total} or more"
    )
    return _create_invalid_problem(path, POD_BELOW_CONTAINERS, message, detail, pod_quantity)


def _check_container_limits(path: str, resources: PodResources) -> list[Problem]:
    """Containers whose limit exceeds the pod's. Kubernetes' path for it names no field that exists."""
    return [
        _create_above_pod_problem(f"{path}.containers[{index}][{name}].limits", limit, resources.limits[name])
        for index, container in enumerate(resources.containers)
        for name, limit in container.limits.items()
        if name in resources.limits and limit > resources.limits[name]
    ]


def _create_above_pod_problem(path: str, limit: Quantity, pod_limit: Quantity) -> Problem:
    detail = f"must be less than or equal to pod limits of {pod_limit}"
    message = (
        f"this container's limit of {limit} is more than the whole pod's of {pod_limit}; lower it or raise the pod's"
    )
    return _create_invalid_problem(path, CONTAINER_ABOVE_POD, message, detail, limit)


def _create_invalid_problem(path: str, code: Code, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, detail, encode_go_json(quantity.text))
