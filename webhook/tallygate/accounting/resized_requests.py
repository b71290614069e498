"""The requests of a pod that is being resized, as the scheduler of Kubernetes 1.37 counts them.

The requested, allocated and actual amounts are each summed over all containers, and the largest sum of each resource
counts. Up to 1.36 the largest amount of each container counts (`ResizeView.SCHEDULER`), which is never less. Source:
PodRequests, AggregateContainerRequests and aggregateContainerResourcesByFn in component-helpers resource/helpers.go,
v1.37.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts, round_up_to_unit
from tallygate.accounting.node_fit import select_scheduler_resources
from tallygate.accounting.pod_requests import is_infeasible, select_default_requests
from tallygate.accounting.pod_resources import (
    NO_QUANTITIES,
    ContainerResources,
    PodResources,
    Quantities,
    add_quantities,
    aggregate_containers,
    is_pod_level_resource,
    parse_pod_resources,
    parse_resource_list,
    update_maximum,
)
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import ContainerStatus, Pod, PodSpec, PodStatus

_SCORED = ("cpu", "memory")
_SelectRequests = Callable[[ContainerResources, ContainerStatus | None], Quantities]


class ResizedAmounts(NamedTuple):
    """The amounts of a pod on a node: its requests, and the cpu and memory by which nodes are scored."""

    requests: Amounts
    non_zero: Amounts


def compute_resized_amounts(pod: Pod) -> ResizedAmounts:
    """Return the amounts with which the scheduler counts a pod on a node.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources, status = parse_pod_resources(pod.spec or PodSpec()), pod.status or PodStatus()
    requests = _compute_requests(resources, status, NO_QUANTITIES)
    defaults = select_default_requests(resources, requests)
    non_zero = _compute_requests(resources, status, defaults) if defaults else requests
    return ResizedAmounts(
        select_scheduler_resources(_round_up(requests)),
        Amounts({name: _round_up(non_zero).get(name, 0) for name in _SCORED}),
    )


def _round_up(quantities: Quantities) -> Amounts:
    return Amounts({name: round_up_to_unit(name, quantity) for name, quantity in quantities.items()})


def _compute_requests(resources: PodResources, status: PodStatus, defaults: Quantities) -> Quantities:
    """Return the requests of a pod; each container gets the defaults for requests that it lacks."""
    total: dict[str, Quantity] = {}
    for quantities in _list_sums(resources, status, defaults):
        update_maximum(total, quantities)
    if any(is_pod_level_resource(name) for name in resources.requests):
        pod_level = _compute_pod_level(resources, status)
        total |= {name: quantity for name, quantity in pod_level.items() if is_pod_level_resource(name)}
    add_quantities(total, resources.overhead)
    return total


def _list_sums(resources: PodResources, status: PodStatus, defaults: Quantities) -> Iterator[Quantities]:
    """Yield the sums over containers; the requested amounts are left out if the node can never grant them."""
    infeasible = is_infeasible(status)
    if not infeasible:
        yield _sum_containers(resources, status, defaults, lambda container, _: container.requests)
    actual = status.resources.requests if status.resources else None
    if status.allocated_resources is not None and actual is not None:
        yield parse_resource_list(status.allocated_resources)
        yield parse_resource_list(actual)
        return

    def get_allocated(container: ContainerResources, reported: ContainerStatus | None) -> Quantities:
        if reported is not None and reported.allocated_resources is not None:
            return parse_resource_list(reported.allocated_resources)
        return NO_QUANTITIES if infeasible else container.requests

    def get_actual(container: ContainerResources, reported: ContainerStatus | None) -> Quantities:
        if reported is not None and reported.resources is not None and reported.resources.requests is not None:
            return parse_resource_list(reported.resources.requests)
        return get_allocated(container, reported)

    yield _sum_containers(resources, status, defaults, get_allocated)
    yield _sum_containers(resources, status, defaults, get_actual)


def _sum_containers(
    resources: PodResources, status: PodStatus, defaults: Quantities, select: _SelectRequests
) -> Quantities:
    statuses = {
        each.name: each for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    }

    def replace_requests(container: ContainerResources) -> ContainerResources:
        return container._replace(requests={**defaults, **select(container, statuses.get(container.name))})

    return aggregate_containers(
        tuple([replace_requests(container) for container in resources.containers]),
        tuple([replace_requests(step) for step in resources.init]),
        limits=False,
    )


def _compute_pod_level(resources: PodResources, status: PodStatus) -> Quantities:
    if status.resources is None:
        return resources.requests
    maximum: dict[str, Quantity] = dict(NO_QUANTITIES if is_infeasible(status) else resources.requests)
    update_maximum(maximum, parse_resource_list(status.resources.requests))
    update_maximum(maximum, parse_resource_list(status.allocated_resources))
    return maximum
