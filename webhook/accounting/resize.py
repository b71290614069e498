"""What a pod holds while a resize is under way: what it asks for, what is promised to it, what it has.

Source: determineEffectiveRequests, determineEffectiveLimits and PodRequests in component-helpers resource/helpers.go,
v1.36; KEP-1287.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from webhook.accounting.asks import (
    NOTHING,
    ContainerAsk,
    PodAsk,
    Quantities,
    Role,
    is_pod_level,
    keep_larger,
    read_list,
)
from webhook.accounting.quantity import Quantity
from webhook.objects.pods import ContainerStatus, PodStatus

_ZERO = Quantity.of(0)


class View(StrEnum):
    """Who looks at a pod that is being resized.

    SPEC sees what is asked for. QUOTA sees the larger of asked, promised and actual for each container; SCHEDULER for
    the pod level too; both leave out what is asked for when the node has said that it is infeasible. HELD is what a
    cap charges: the larger of all three, infeasible or not, since the spec may still be granted elsewhere.
    """

    SPEC = "spec"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    HELD = "held"


def as_seen(pod: PodAsk, status: PodStatus | None, view: View) -> PodAsk:
    """The pod with what its status says taken into account.

    Raises:
        QuantityError: a quantity in the status is none.
    """
    if status is None or view is View.SPEC:
        return pod
    statuses = {each.name: each for each in (*_some(status.container_statuses), *_some(status.init_container_statuses))}
    if not any(each.resources for each in statuses.values()) and status.resources is None:
        return pod
    refused = view is not View.HELD and _is_infeasible(status)
    seen = pod._replace(
        containers=tuple([_seen(each, statuses, refused=refused) for each in pod.containers]),
        init=tuple([_seen(each, statuses, refused=refused) for each in pod.init]),
    )
    return seen if view is View.QUOTA else _pod_level_seen(seen, status, refused=refused)


def _some(statuses: list[ContainerStatus] | None) -> Iterable[ContainerStatus]:
    return statuses or ()


def _is_infeasible(status: PodStatus) -> bool:
    """Whether the node can never grant the resize (IsPodResizeInfeasible: the first such condition decides)."""
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _seen(container: ContainerAsk, statuses: Mapping[str | None, ContainerStatus], *, refused: bool) -> ContainerAsk:
    """One container; init steps are over before anything can be resized."""
    status = statuses.get(container.name)
    if container.role is Role.INIT or status is None or status.resources is None:
        return container
    actual, promised = status.resources, read_list(status.allocated_resources)
    asked = (NOTHING, NOTHING) if refused else (container.requests, container.limits)
    requests = _largest(asked[0], read_list(actual.requests), promised)
    return container._replace(requests=requests, limits=_largest(asked[1], read_list(actual.limits)))


def _pod_level_seen(pod: PodAsk, status: PodStatus, *, refused: bool) -> PodAsk:
    """The pod level: only what the spec names counts, and what it names is zero when nobody says more."""
    actual = status.resources
    if actual is None:
        return pod
    asked = (NOTHING, NOTHING) if refused else (pod.requests, pod.limits)
    requests = _largest(asked[0], read_list(actual.requests), read_list(status.allocated_resources))
    if refused and actual.limits is None:  # Kubernetes takes absent limits here for no say at all, and keeps the spec's
        return pod._replace(requests=_named(pod.requests, requests))
    limits = _largest(asked[1], read_list(actual.limits))
    return pod._replace(requests=_named(pod.requests, requests), limits=_named(pod.limits, limits))


def _named(asked: Quantities, seen: Quantities) -> Quantities:
    return {name: seen.get(name, _ZERO) for name in asked if is_pod_level(name)}


def _largest(*lists: Quantities) -> Quantities:
    """The largest of each."""
    most: dict[str, Quantity] = {}
    for each in lists:
        keep_larger(most, each)
    return most
