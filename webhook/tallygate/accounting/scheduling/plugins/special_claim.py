"""The claim that kube-scheduler makes for the extended resources of a pod that devices back.

Containers that run one after the other share devices: an init container gets those of the containers after it, and
more where these do not suffice. Source: createRequestsAndMappings in
plugins/dynamicresources/extendeddynamicresources.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.core import Container, ResourceList, ResourceRequirements
from tallygate.objects.devices import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPodSpec

NAME_IN_MEMORY = "<extended-resources>"
"""The name of the claim until it is stored."""

_ALWAYS = "Always"


class _Request(NamedTuple):
    name: str
    number: int


def create_special_claim(namespace: str, spec: SchedulingPodSpec, classes: Mapping[str, str]) -> ResourceClaim:
    """Return the claim for some extended resources of a pod; `classes` has the class of each of them."""
    requests = [
        (request, class_name)
        for resource, class_name in sorted(classes.items())
        for request in _list_requests(spec, resource)
    ]
    device_requests = [
        DeviceRequest(request.name, ExactDeviceRequest(class_name, allocation_mode="ExactCount", count=request.number))
        for request, class_name in sorted(requests)
    ]
    return ResourceClaim(
        ObjectMeta(name=NAME_IN_MEMORY, namespace=namespace), ResourceClaimSpec(DeviceClaim(device_requests))
    )


def get_requests(container: Container) -> ResourceList:
    """Return the requests of a container as they are stored: the API server adds one for each limit without."""
    resources = container.resources or ResourceRequirements()
    return {**(resources.limits or {}), **(resources.requests or {})}


def find_resource(spec: SchedulingPodSpec, request_name: str) -> tuple[str, str]:
    """Return the extended resource that a request of the claim is for, and the name of its container."""
    container_index, resource_index = request_name.removeprefix("container-").split("-request-")
    container = [*(spec.init_containers or []), *(spec.containers or [])][int(container_index)]
    return sorted(get_requests(container))[int(resource_index)], container.name or ""


def _list_requests(spec: SchedulingPodSpec, resource: str) -> Iterator[_Request]:
    """Yield the requests for one resource: those of long-running containers, and the largest of init containers."""
    init = spec.init_containers or []
    containers: Sequence[Container] = [*init, *(spec.containers or [])]
    is_short = [index < len(init) and container.restart_policy != _ALWAYS for index, container in enumerate(containers)]
    lasting = [
        None if is_short[index] else _create_request(index, container, resource, ())
        for index, container in enumerate(containers)
    ]
    largest: _Request | None = None
    for index, container in enumerate(containers):
        if is_short[index]:
            request = _create_request(index, container, resource, lasting[index:])
            if request is not None and (largest is None or largest.number < request.number):
                largest = request
    if largest is not None:
        yield largest
    yield from (claim for claim in lasting if claim is not None)


def _create_request(
    index: int, container: Container, resource: str, reusable: Iterable[_Request | None]
) -> _Request | None:
    """Return the request of a container for what it cannot reuse; None if that is nothing, or no integer."""
    requests = get_requests(container)
    count = read_device_count(requests.get(resource))
    if not count:
        return None
    reused = sum(request.number for request in reusable if request is not None)
    if reused >= count:
        return None
    return _Request(f"container-{index}-request-{sorted(requests).index(resource)}", count - reused)


def read_device_count(raw: bytes | None) -> int:
    """Return a whole number of devices; 0 for any other quantity (Quantity.AsInt64)."""
    if raw is None:
        return 0
    try:
        quantity = Quantity.from_json(raw)
    except QuantityError:
        return 0
    return quantity.value() if quantity.is_whole and not quantity.is_beyond_int64 else 0
