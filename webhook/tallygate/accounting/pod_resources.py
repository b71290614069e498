"""Requests and limits of a pod: parsed, and completed as the API server completes them.

Every computation that adds up, charges or places a pod starts from this form, so that all of them use the same numbers.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.names import is_hugepage, is_overcommit_allowed
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import Container, PodSpec, ResourceList

Quantities = Mapping[str, Quantity]
"""Resource name to exact quantity."""

_MAX_CACHED_LENGTH = 40  # bytes, as for quantities
_MAX_CACHED_TOKENS = 4096
_UNLIMITED_BY_ZERO = frozenset({"cpu", "memory"})

NO_QUANTITIES: Quantities = MappingProxyType({})


class ContainerRole(StrEnum):
    """The source of a figure in the formula; a sidecar is an init container with `restartPolicy: Always`."""

    CONTAINER = "container"
    SIDECAR = "sidecar"
    INIT = "init step"
    POD = "pod level"
    OVERHEAD = "overhead"


class ContainerResources(NamedTuple):
    """Requests and limits of one container."""

    name: str
    role: ContainerRole
    requests: Quantities
    limits: Quantities


class PodResources(NamedTuple):
    """Requests and limits of a pod: `init` in their order, `requests` and `limits` those of the pod level."""

    containers: tuple[ContainerResources, ...]
    init: tuple[ContainerResources, ...] = ()
    requests: Quantities = NO_QUANTITIES
    limits: Quantities = NO_QUANTITIES
    overhead: Quantities = NO_QUANTITIES


def parse_resource_list(resource_list: ResourceList | None) -> Quantities:
    """Return every quantity of a list, rounded up to thousandths as the API server stores it.

    Source: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go, v1.36.

    Raises:
        QuantityError: if a value is no quantity.
    """
    if not resource_list:
        return NO_QUANTITIES
    return {
        name: _parse_cached_quantity(token)
        if len(token := bytes(raw)) <= _MAX_CACHED_LENGTH
        else _parse_stored_quantity(token)
        for name, raw in resource_list.items()
    }


def parse_pod_resources(spec: PodSpec, *, complete: bool = True) -> PodResources:
    """Return the resources of a pod with this spec: as the API server completes it, or as it is written.

    A completed template reads as the pods that will be made from it. Completing a complete spec changes nothing.
    Source: SetDefaults_Pod in pkg/apis/core/v1/defaults.go, v1.36.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    if spec.resources is None or not complete:
        return _parse_pod(spec, parse_resource_list, complete=complete)
    # The missing values of the pod level are summed up before any quantity is rounded.
    return _round_up_pod(_complete_pod_level(_parse_pod(spec, _parse_list_exactly, complete=True)))


def complete_pod_level(spec: PodSpec, version: KubernetesVersion) -> PodResources:
    """Return the resources of a new pod whose containers are complete, with a complete pod level.

    An API server of this version completes it.

    A pod level with any amount gets requests, and limits of huge pages, from the containers. It also gets a limit of
    each resource that it requests and all containers limit: the sum of these, or the request if that is larger. Source:
    DefaultPodLevelResources in pkg/api/pod/util.go, v1.37.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = _parse_pod(spec, _parse_list_exactly, complete=True)
    if resources.requests or resources.limits:
        resources = resources._replace(limits=_complete_pod_limits(resources))
        resources = resources._replace(requests=_complete_pod_requests(resources))
        resources = resources._replace(limits=_default_pod_limits(resources, version))
    return _round_up_pod(resources)


def aggregate_containers(
    containers: tuple[ContainerResources, ...], init: tuple[ContainerResources, ...], *, limits: bool
) -> dict[str, Quantity]:
    """Return the amounts that the containers need together at their peak.

    Containers and sidecars add up; an init step runs alone above the sidecars declared before it; the larger of both
    is the sum. Source: AggregateContainerRequests and AggregateContainerLimits in component-helpers
    resource/helpers.go, v1.36.
    """
    total: dict[str, Quantity] = {}
    for container in containers:
        add_quantities(total, container.limits if limits else container.requests)
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in init:
        quantities = container.limits if limits else container.requests
        if container.role is ContainerRole.SIDECAR:
            add_quantities(total, quantities)
            add_quantities(sidecars, quantities)
            update_maximum(peak, sidecars)
        else:
            step = dict(quantities)
            add_quantities(step, sidecars)
            update_maximum(peak, step)
    update_maximum(total, peak)
    return total


def add_quantities(total: dict[str, Quantity], quantities: Quantities) -> None:
    """Add quantities to a running sum. The first quantity keeps its text, as in Kubernetes."""
    for name, quantity in quantities.items():
        total[name] = total[name] + quantity if name in total else quantity


def update_maximum(maximum: dict[str, Quantity], quantities: Quantities) -> None:
    """Raise a running maximum to the larger of itself and the quantities."""
    for name, quantity in quantities.items():
        if name not in maximum or quantity > maximum[name]:
            maximum[name] = quantity


def is_pod_level_resource(name: str) -> bool:
    """Return whether a resource may be set for the whole pod (component-helpers IsSupportedPodLevelResource, v1.36)."""
    return name in ("cpu", "memory") or is_hugepage(name)


def _parse_stored_quantity(token: bytes) -> Quantity:
    return Quantity.from_json(token).round_up_to_milli()


# Most pods of a cluster use a few distinct quantities.
_parse_cached_quantity = lru_cache(maxsize=_MAX_CACHED_TOKENS)(_parse_stored_quantity)


def _parse_pod(
    spec: PodSpec, parse_list: Callable[[ResourceList | None], Quantities], *, complete: bool
) -> PodResources:
    """Parse every list of a pod; if `complete`, take every container's missing requests from its limits."""
    containers = [
        _parse_container(container, ContainerRole.CONTAINER, parse_list, complete=complete)
        for container in spec.containers or ()
    ]
    init = [
        _parse_container(container, _get_role(container), parse_list, complete=complete)
        for container in spec.init_containers or ()
    ]
    resources = PodResources(tuple(containers), tuple(init), overhead=parse_list(spec.overhead))
    if spec.resources is None:
        return resources
    return resources._replace(requests=parse_list(spec.resources.requests), limits=parse_list(spec.resources.limits))


def _parse_container(
    container: Container,
    role: ContainerRole,
    parse_list: Callable[[ResourceList | None], Quantities],
    *,
    complete: bool,
) -> ContainerResources:
    name, resources = container.name or "", container.resources
    if resources is None:
        return ContainerResources(name, role, NO_QUANTITIES, NO_QUANTITIES)
    requests, limits = parse_list(resources.requests), parse_list(resources.limits)
    return ContainerResources(name, role, _fill_in_requests(requests, limits) if complete else requests, limits)


def _parse_list_exactly(resource_list: ResourceList | None) -> Quantities:
    return {name: Quantity.from_json(raw) for name, raw in resource_list.items()} if resource_list else NO_QUANTITIES


def _round_up_pod(resources: PodResources) -> PodResources:
    return PodResources(
        tuple(
            [
                container._replace(requests=_round_up_list(container.requests), limits=_round_up_list(container.limits))
                for container in resources.containers
            ]
        ),
        tuple(
            [
                step._replace(requests=_round_up_list(step.requests), limits=_round_up_list(step.limits))
                for step in resources.init
            ]
        ),
        _round_up_list(resources.requests),
        _round_up_list(resources.limits),
        _round_up_list(resources.overhead),
    )


def _round_up_list(quantities: Quantities) -> Quantities:
    return {name: quantity.round_up_to_milli() for name, quantity in quantities.items()}


def _get_role(init_container: Container) -> ContainerRole:
    return ContainerRole.SIDECAR if init_container.restart_policy == "Always" else ContainerRole.INIT


def _fill_in_requests(requests: Quantities, limits: Quantities) -> Quantities:
    if not requests:
        return limits
    missing = {name: quantity for name, quantity in limits.items() if name not in requests}
    return {**requests, **missing} if missing else requests


def _complete_pod_level(resources: PodResources) -> PodResources:
    """Fill in the missing values of the pod level: first hugepages limits, then requests."""
    resources = (
        resources._replace(limits=_complete_pod_limits(resources))
        if resources.limits or resources.requests
        else resources
    )
    return resources._replace(requests=_complete_pod_requests(resources)) if resources.limits else resources


def _complete_pod_limits(resources: PodResources) -> Quantities:
    """Return the pod level's limits, with missing hugepages limits from the containers (defaultHugePagePodLimits)."""
    filled = dict(resources.limits)
    for name, quantity in aggregate_containers(resources.containers, resources.init, limits=True).items():
        if is_hugepage(name) and name not in resources.requests:
            filled.setdefault(name, quantity)
    return filled


def limits_every_container(name: str, resources: PodResources, version: KubernetesVersion) -> bool:
    """Return whether all containers of a pod limit a resource.

    Where OMITS_PARTIAL_LIMITS applies, cpu or memory of 0 is no limit, as for a kubelet.
    """
    containers = (*resources.containers, *resources.init)
    if name in _UNLIMITED_BY_ZERO and version.has(Switch.OMITS_PARTIAL_LIMITS):
        return all(container.limits.get(name) for container in containers)
    return all(name in container.limits for container in containers)


def _default_pod_limits(resources: PodResources, version: KubernetesVersion) -> Quantities:
    """Return the pod level's limits with those that all containers have (defaultPodLevelLimits)."""
    filled = dict(resources.limits)
    total = aggregate_containers(resources.containers, resources.init, limits=True)
    for name, request in resources.requests.items():
        if not is_pod_level_resource(name) or name in filled or name not in total:
            continue
        if limits_every_container(name, resources, version):
            filled[name] = max(total[name], request)
    return filled


def _complete_pod_requests(resources: PodResources) -> Quantities:
    """Return the pod level's requests; missing ones come from the containers, else its limits (defaultPodRequests)."""
    filled = dict(resources.requests)
    for name, quantity in aggregate_containers(resources.containers, resources.init, limits=False).items():
        if is_pod_level_resource(name) and is_overcommit_allowed(name):
            filled.setdefault(name, quantity)
    for name, quantity in resources.limits.items():
        if is_pod_level_resource(name):
            filled.setdefault(name, quantity)
    return filled
