"""The requests of a pod that is being resized, as the scheduler of Kubernetes 1.37 counts them.

The requested, allocated and actual amounts are each summed over all containers, and the largest sum of each resource
counts. Up to 1.36 the largest amount of each container counts (`ResizeView.SCHEDULER`), which is never less. Source:
PodRequests, AggregateContainerRequests and aggregateContainerResourcesByFn in component-helpers resource/helpers.go,
v1.37.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tallygate.accounting import pod_resources
from tallygate.accounting.amounts import Amounts, round_up_to_unit
from tallygate.accounting.node_fit import select_scheduler_resources
from tallygate.accounting.pod_requests import is_infeasible, select_default_requests
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import ContainerStatus, Pod, PodSpec, PodStatus

_SCORED = ("cpu", "memory")
_SelectRequests = Callable[[pod_resources.ContainerResources, ContainerStatus | None], pod_resources.Quantities]


class ResizedAmounts(NamedTuple):
    """The amounts of a pod on a node: its requests, and the cpu and memory by which nodes are scored."""

    requests: Amounts
    non_zero: Amounts


def compute_resized_amounts(pod: Pod) -> ResizedAmounts:
    """Return the amounts with which the scheduler counts a pod on a node.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources, status = pod_resources.parse_pod_resources(pod.spec or PodSpec()), pod.status or PodStatus()
    requests = _compute_requests(resources, status, pod_resources.NO_QUANTITIES)
    defaults = select_default_requests(resources, requests)
    non_zero = _compute_requests(resources, status, defaults) if defaults else requests
    return ResizedAmounts(
        select_scheduler_resources(_round_up(requests)),
        Amounts({name: _round_up(non_zero).get(name, 0) for name in _SCORED}),
    )


def _round_up(quantities: pod_resources.Quantities) -> Amounts:
    return Amounts({name: round_up_to_unit(name, quantity) for name, quantity in quantities.items()})


def _compute_requests(
    resources: pod_resources.PodResources, status: PodStatus, defaults: pod_resources.Quantities
) -> pod_resources.Quantities:
    """Return the requests of a pod; each container gets the defaults for requests that it lacks."""
    total: dict[str, Quantity] = {}
    for quantities in _list_sums(resources, status, defaults):
        pod_resources.update_maximum(total, quantities)
    if any(pod_resources.is_pod_level_resource(name) for name in resources.requests):
        pod_level = _compute_pod_level(resources, status)
        total |= {name: quantity for name, quantity in pod_level.items() if pod_resources.is_pod_level_resource(name)}
    pod_resources.add_quantities(total, resources.overhead)
    return total


def _list_sums(
    resources: pod_resources.PodResources, status: PodStatus, defaults: pod_resources.Quantities
) -> Iterator[pod_resources.Quantities]:
    """Yield the sums over containers; the requested amounts are left out if the node can never grant them."""
    infeasible = is_infeasible(status)
    if not infeasible:
        yield _sum_containers(resources, status, defaults, lambda container, _: container.requests)
    actual = status.resources.requests if status.resources else None
    if status.allocated_resources is not None and actual is not None:
        yield pod_resources.parse_resource_list(status.allocated_resources)
        yield pod_resources.parse_resource_list(actual)
        return

    def get_allocated(
        container: pod_resources.ContainerResources, reported: ContainerStatus | None
    ) -> pod_resources.Quantities:
        if reported is not None and reported.allocated_resources is not None:
            return pod_resources.parse_resource_list(reported.allocated_resources)
        return pod_resources.NO_QUANTITIES if infeasible else container.requests

    def get_actual(
        container: pod_resources.ContainerResources, reported: ContainerStatus | None
    ) -> pod_resources.Quantities:
        if reported is not None and reported.resources is not None and reported.resources.requests is not None:
            return pod_resources.parse_resource_list(reported.resources.requests)
        return get_allocated(container, reported)

    yield _sum_containers(resources, status, defaults, get_allocated)
    yield _sum_containers(resources, status, defaults, get_actual)


def _sum_containers(
    resources: pod_resources.PodResources,
    status: PodStatus,
    defaults: pod_resources.Quantities,
    select: _SelectRequests,
) -> pod_resources.Quantities:
    statuses = {
        status_of_container.name: status_of_container
        for status_of_container in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    }

    def replace_requests(container: pod_resources.ContainerResources) -> pod_resources.ContainerResources:
        return container._replace(requests={**defaults, **select(container, statuses.get(container.name))})

    return pod_resources.aggregate_containers(
        tuple([replace_requests(container) for container in resources.containers]),
        tuple([replace_requests(step) for step in resources.init]),
        limits=False,
    )


def _compute_pod_level(resources: pod_resources.PodResources, status: PodStatus) -> pod_resources.Quantities:
    if status.resources is None:
        return resources.requests
    maximum: dict[str, Quantity] = dict(pod_resources.NO_QUANTITIES if is_infeasible(status) else resources.requests)
    pod_resources.update_maximum(maximum, pod_resources.parse_resource_list(status.resources.requests))
    pod_resources.update_maximum(maximum, pod_resources.parse_resource_list(status.allocated_resources))
    return maximum
