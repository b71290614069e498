"""Resources of a pod during a resize: its requested, allocated and actual amounts.

Source: determineEffectiveRequests, determineEffectiveLimits and PodRequests in component-helpers resource/helpers.go,
v1.36; KEP-1287.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from webhook.accounting.pod_resources import (
    NO_QUANTITIES,
    ContainerResources,
    ContainerRole,
    PodResources,
    Quantities,
    is_pod_level_resource,
    parse_resource_list,
    update_maximum,
)
from webhook.accounting.quantity import Quantity
from webhook.objects.core import ContainerStatus, PodStatus

_ZERO = Quantity.from_int(0)


class ResizeView(StrEnum):
    """The way in which a reader counts a pod that is being resized.

    SPEC counts the requested amounts. QUOTA counts the largest of the requested, allocated and actual amounts of each
    container. SCHEDULER does the same for the pod level too. Both leave out the requested amounts if the node reports
    the resize as infeasible. CHARGED is the charge of a cap: the largest of all three, infeasible or not, since another
    node may still grant the spec.
    """

    SPEC = "spec"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    CHARGED = "held"


def apply_status(resources: PodResources, status: PodStatus | None, view: ResizeView) -> PodResources:
    """Return the resources of a pod with its status applied.

    Raises:
        QuantityError: if a quantity in the status is invalid.
    """
    if status is None or view is ResizeView.SPEC:
        return resources
    statuses = {
        each.name: each
        for each in (*_list_statuses(status.container_statuses), *_list_statuses(status.init_container_statuses))
    }
    if not any(each.resources for each in statuses.values()) and status.resources is None:
        return resources
    is_infeasible = view is not ResizeView.CHARGED and _is_infeasible(status)
    resized = resources._replace(
        containers=tuple(
            [_apply_container_status(each, statuses, is_infeasible=is_infeasible) for each in resources.containers]
        ),
        init=tuple([_apply_container_status(each, statuses, is_infeasible=is_infeasible) for each in resources.init]),
    )
    return resized if view is ResizeView.QUOTA else _apply_pod_status(resized, status, is_infeasible=is_infeasible)


def _list_statuses(statuses: list[ContainerStatus] | None) -> Iterable[ContainerStatus]:
    return statuses or ()


def _is_infeasible(status: PodStatus) -> bool:
    """Return whether the node can never grant the resize.

    Source: IsPodResizeInfeasible; the first condition of the type decides.
    """
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _apply_container_status(
    container: ContainerResources, statuses: Mapping[str | None, ContainerStatus], *, is_infeasible: bool
) -> ContainerResources:
    """Return one container with its status applied; init steps have ended before any resize."""
    status = statuses.get(container.name)
    if container.role is ContainerRole.INIT or status is None or status.resources is None:
        return container
    actual, allocated = status.resources, parse_resource_list(status.allocated_resources)
    requested = (NO_QUANTITIES, NO_QUANTITIES) if is_infeasible else (container.requests, container.limits)
    requests = _compute_maximum(requested[0], parse_resource_list(actual.requests), allocated)
    return container._replace(
        requests=requests, limits=_compute_maximum(requested[1], parse_resource_list(actual.limits))
    )


def _apply_pod_status(resources: PodResources, status: PodStatus, *, is_infeasible: bool) -> PodResources:
    """Return the resources with the status of the pod level applied.

    Only names of the spec count; a name for which no list has an amount is zero.
    """
    actual = status.resources
    if actual is None:
        return resources
    requested = (NO_QUANTITIES, NO_QUANTITIES) if is_infeasible else (resources.requests, resources.limits)
    requests = _compute_maximum(
        requested[0], parse_resource_list(actual.requests), parse_resource_list(status.allocated_resources)
    )
    if (
        is_infeasible and actual.limits is None
    ):  # Kubernetes ignores absent limits here, and keeps the limits of the spec
        return resources._replace(requests=_select_requested(resources.requests, requests))
    limits = _compute_maximum(requested[1], parse_resource_list(actual.limits))
    return resources._replace(
        requests=_select_requested(resources.requests, requests), limits=_select_requested(resources.limits, limits)
    )


def _select_requested(requested: Quantities, quantities: Quantities) -> Quantities:
    return {name: quantities.get(name, _ZERO) for name in requested if is_pod_level_resource(name)}


def _compute_maximum(*lists: Quantities) -> Quantities:
    """Return the largest quantity of each name."""
    maximum: dict[str, Quantity] = {}
    for quantities in lists:
        update_maximum(maximum, quantities)
    return maximum
