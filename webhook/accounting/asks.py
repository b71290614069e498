"""What a pod asks for, read into numbers and completed as the API server completes it.

Everything that adds up, charges or places a pod starts from here, so that all of it sees the same numbers.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from webhook.accounting.names import is_hugepage, is_overcommit_allowed
from webhook.accounting.quantity import Quantity
from webhook.objects.pods import Container, PodSpec, ResourceList

Quantities = Mapping[str, Quantity]
"""Resource name to exact quantity."""

_REMEMBERED_LENGTH = 40  # bytes, as for quantities
_REMEMBERED_TOKENS = 4096

NOTHING: Quantities = MappingProxyType({})


class Role(StrEnum):
    """What a figure in the formula stands for; a sidecar is an init container with `restartPolicy: Always`."""

    CONTAINER = "container"
    SIDECAR = "sidecar"
    INIT = "init step"
    POD = "pod level"
    OVERHEAD = "overhead"


class ContainerAsk(NamedTuple):
    """What one container asks for."""

    name: str
    role: Role
    requests: Quantities
    limits: Quantities


class PodAsk(NamedTuple):
    """What a pod asks for: `init` in their order, `requests` and `limits` those of the pod level."""

    containers: tuple[ContainerAsk, ...]
    init: tuple[ContainerAsk, ...] = ()
    requests: Quantities = NOTHING
    limits: Quantities = NOTHING
    overhead: Quantities = NOTHING


def read_list(listed: ResourceList | None) -> Quantities:
    """Every quantity, rounded up to thousandths as the API server stores it.

    Source: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go, v1.36.

    Raises:
        QuantityError: one of them is no quantity.
    """
    if not listed:
        return NOTHING
    return {
        name: _remembered(token) if len(token := bytes(raw)) <= _REMEMBERED_LENGTH else _stored(token)
        for name, raw in listed.items()
    }


def read_pod(spec: PodSpec, *, complete: bool = True) -> PodAsk:
    """What a pod of this spec asks for once the API server has completed it, or as it is written.

    A template that is completed is read as the pods that will be made from it. Completing what is complete already
    changes nothing. Source: SetDefaults_Pod in pkg/apis/core/v1/defaults.go, v1.36.

    Raises:
        QuantityError: one of its quantities is none.
    """
    if spec.resources is None or not complete:
        return _read(spec, read_list, complete=complete)
    # What the pod level leaves open is summed up before anything is rounded.
    return _rounded(_with_pod_level(_read(spec, _read_exactly, complete=True)))


def aggregate(
    containers: tuple[ContainerAsk, ...], init: tuple[ContainerAsk, ...], *, limits: bool
) -> dict[str, Quantity]:
    """What the containers need together at their most demanding moment.

    Containers and sidecars add up; an init step runs alone above the sidecars declared before it; the larger of both
    is the sum. Source: AggregateContainerRequests and AggregateContainerLimits in component-helpers
    resource/helpers.go, v1.36.
    """
    total: dict[str, Quantity] = {}
    for each in containers:
        add(total, each.limits if limits else each.requests)
    beneath: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for each in init:
        asked = each.limits if limits else each.requests
        if each.role is Role.SIDECAR:
            add(total, asked)
            add(beneath, asked)
            keep_larger(peak, beneath)
        else:
            step = dict(asked)
            add(step, beneath)
            keep_larger(peak, step)
    keep_larger(total, peak)
    return total


def add(total: dict[str, Quantity], more: Quantities) -> None:
    """Add to a running sum. The first quantity keeps its text, as in Kubernetes."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def keep_larger(most: dict[str, Quantity], other: Quantities) -> None:
    """Raise a running maximum."""
    for name, quantity in other.items():
        if name not in most or quantity > most[name]:
            most[name] = quantity


def _stored(token: bytes) -> Quantity:
    return Quantity.from_json(token).rounded_up_to_milli()


# Most pods of a cluster ask in a handful of ways.
_remembered = lru_cache(maxsize=_REMEMBERED_TOKENS)(_stored)


def is_pod_level(name: str) -> bool:
    """Whether a resource may be set for the whole pod (component-helpers IsSupportedPodLevelResource, v1.36)."""
    return name in ("cpu", "memory") or is_hugepage(name)


def _read(spec: PodSpec, read: Callable[[ResourceList | None], Quantities], *, complete: bool) -> PodAsk:
    """Every list of a pod; if `complete` with every container's missing requests taken from its limits."""
    containers = [_read_container(each, Role.CONTAINER, read, complete=complete) for each in spec.containers or ()]
    init = [_read_container(each, _role_of(each), read, complete=complete) for each in spec.init_containers or ()]
    pod = PodAsk(tuple(containers), tuple(init), overhead=read(spec.overhead))
    if spec.resources is None:
        return pod
    return pod._replace(requests=read(spec.resources.requests), limits=read(spec.resources.limits))


def _read_container(
    container: Container, role: Role, read: Callable[[ResourceList | None], Quantities], *, complete: bool
) -> ContainerAsk:
    name, resources = container.name or "", container.resources
    if resources is None:
        return ContainerAsk(name, role, NOTHING, NOTHING)
    requests, limits = read(resources.requests), read(resources.limits)
    return ContainerAsk(name, role, _filled(requests, limits) if complete else requests, limits)


def _read_exactly(listed: ResourceList | None) -> Quantities:
    return {name: Quantity.from_json(raw) for name, raw in listed.items()} if listed else NOTHING


def _rounded(pod: PodAsk) -> PodAsk:
    """Every quantity rounded up as by `read_list`."""
    return PodAsk(
        tuple([each._replace(requests=_up(each.requests), limits=_up(each.limits)) for each in pod.containers]),
        tuple([each._replace(requests=_up(each.requests), limits=_up(each.limits)) for each in pod.init]),
        _up(pod.requests),
        _up(pod.limits),
        _up(pod.overhead),
    )


def _up(listed: Quantities) -> Quantities:
    return {name: quantity.rounded_up_to_milli() for name, quantity in listed.items()}


def _role_of(init_container: Container) -> Role:
    return Role.SIDECAR if init_container.restart_policy == "Always" else Role.INIT


def _filled(requests: Quantities, limits: Quantities) -> Quantities:
    """The requests, those that are missing taken from the limits."""
    if not requests:
        return limits
    missing = {name: quantity for name, quantity in limits.items() if name not in requests}
    return {**requests, **missing} if missing else requests


def _with_pod_level(pod: PodAsk) -> PodAsk:
    """The pod with what its pod level leaves open filled in: first hugepages limits, then requests."""
    pod = pod._replace(limits=_pod_limits(pod)) if pod.limits or pod.requests else pod
    return pod._replace(requests=_pod_requests(pod)) if pod.limits else pod


def _pod_limits(pod: PodAsk) -> Quantities:
    """Hugepages limits that the pod level lacks, from the containers (defaultHugePagePodLimits)."""
    filled = dict(pod.limits)
    for name, quantity in aggregate(pod.containers, pod.init, limits=True).items():
        if is_hugepage(name) and name not in pod.requests:
            filled.setdefault(name, quantity)
    return filled


def _pod_requests(pod: PodAsk) -> Quantities:
    """Requests that the pod level lacks: from the containers, else from its own limits (defaultPodRequests)."""
    filled = dict(pod.requests)
    for name, quantity in aggregate(pod.containers, pod.init, limits=False).items():
        if is_pod_level(name) and is_overcommit_allowed(name):
            filled.setdefault(name, quantity)
    for name, quantity in pod.limits.items():
        if is_pod_level(name):
            filled.setdefault(name, quantity)
    return filled
