"""What a pod sets for itself as a whole, and how it fits its containers.

Source: validatePodResources and validatePodResourceConsistency in pkg/apis/core/validation/validation.go, v1.36.
"""

from collections.abc import Collection

from webhook.accounting.asks import PodAsk, aggregate
from webhook.accounting.name_rules import Place
from webhook.accounting.names import is_hugepage
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import Quantity
from webhook.accounting.resource_codes import (
    CONTAINER_ABOVE_POD,
    POD_BELOW_CONTAINERS,
    POD_CLAIMS,
    WINDOWS_POD_RESOURCES,
)
from webhook.accounting.validation.claims import claim_problems
from webhook.accounting.validation.containers import resource_problems
from webhook.accounting.validation.printing import printed
from webhook.objects.pods import PodSpec


def pod_level_problems(path: str, spec: PodSpec, ask: PodAsk, claims: Collection[str]) -> list[Problem]:
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
    problems += resource_problems(path, ask.requests, ask.limits, Place.POD)
    problems += claim_problems(f"{path}.claims", spec.resources.claims, claims)
    return problems + _too_small(path, ask) + _too_small_limits(path, ask) + _container_limits(path, ask)


def _too_small(path: str, ask: PodAsk) -> list[Problem]:
    """Requests of the whole pod that its containers exceed together."""
    needed = aggregate(ask.containers, ask.init, limits=False)
    short = {name: total for name, total in needed.items() if name in ask.requests and total > ask.requests[name]}
    return [
        _below_containers(f"{path}.requests[{name}]", "requests", ask.requests[name], total)
        for name, total in short.items()
    ]


def _too_small_limits(path: str, ask: PodAsk) -> list[Problem]:
    """The same for limits, of huge pages only, since they cannot be overcommitted."""
    needed = aggregate(ask.containers, ask.init, limits=True)
    short = {name: total for name, total in needed.items() if name in ask.limits and total > ask.limits[name]}
    return [
        _below_containers(f"{path}.limits[{name}]", "limits", ask.limits[name], total)
        for name, total in short.items()
        if is_hugepage(name)
    ]


def _below_containers(path: str, what: str, given: Quantity, needed: Quantity) -> Problem:
    detail = f"must be greater than or equal to aggregate container {what} of {needed}"
    message = (
        f"{given} for the pod as a whole is less than its containers' {what} of {needed} together; set {needed} or more"
    )
    return _invalid(path, POD_BELOW_CONTAINERS, message, detail, given)


def _container_limits(path: str, ask: PodAsk) -> list[Problem]:
    """Containers whose limit exceeds the pod's. Kubernetes' path for it names no field that exists."""
    return [
        _above_pod(f"{path}.containers[{index}][{name}].limits", limit, ask.limits[name])
        for index, container in enumerate(ask.containers)
        for name, limit in container.limits.items()
        if name in ask.limits and limit > ask.limits[name]
    ]


def _above_pod(path: str, limit: Quantity, most: Quantity) -> Problem:
    detail = f"must be less than or equal to pod limits of {most}"
    message = f"this container's limit of {limit} is more than the whole pod's of {most}; lower it or raise the pod's"
    return _invalid(path, CONTAINER_ABOVE_POD, message, detail, limit)


def _invalid(path: str, code: Code, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, detail, printed(quantity.text))
