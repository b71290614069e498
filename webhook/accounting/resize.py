"""What a pod holds while a resize is under way: what it asks for, what is promised to it, what it has.

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
    """Who looks at a pod that is being resized.

    SPEC sees what is asked for. QUOTA sees the larger of asked, promised and actual for each container; SCHEDULER for
    the pod level too; both leave out what is asked for when the node has said that it is infeasible. HELD is what a
    cap charges: the larger of all three, infeasible or not, since the spec may still be granted elsewhere.
    """

    SPEC = "spec"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    CHARGED = "held"


def apply_status(resources: PodResources, status: PodStatus | None, view: ResizeView) -> PodResources:
    """The pod with what its status says taken into account.

    Raises:
        QuantityError: a quantity in the status is none.
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
    """Whether the node can never grant the resize (IsPodResizeInfeasible: the first such condition decides)."""
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _apply_container_status(
    container: ContainerResources, statuses: Mapping[str | None, ContainerStatus], *, is_infeasible: bool
) -> ContainerResources:
    """One container; init steps are over before anything can be resized."""
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
    """The pod level: only what the spec names counts, and what it names is zero when nobody says more."""
    actual = status.resources
    if actual is None:
        return resources
    requested = (NO_QUANTITIES, NO_QUANTITIES) if is_infeasible else (resources.requests, resources.limits)
    requests = _compute_maximum(
        requested[0], parse_resource_list(actual.requests), parse_resource_list(status.allocated_resources)
    )
    if (
        is_infeasible and actual.limits is None
    ):  # Kubernetes takes absent limits here for no say at all, and keeps the spec's
        return resources._replace(requests=_select_requested(resources.requests, requests))
    limits = _compute_maximum(requested[1], parse_resource_list(actual.limits))
    return resources._replace(
        requests=_select_requested(resources.requests, requests), limits=_select_requested(resources.limits, limits)
    )


def _select_requested(requested: Quantities, quantities: Quantities) -> Quantities:
    return {name: quantities.get(name, _ZERO) for name in requested if is_pod_level_resource(name)}


def _compute_maximum(*lists: Quantities) -> Quantities:
    """The largest of each."""
    maximum: dict[str, Quantity] = {}
    for quantities in lists:
        update_maximum(maximum, quantities)
    return maximum
