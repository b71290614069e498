"""What a pod costs under a cap, name by name.

A cap counts what pods request (`nvidia.com/gpu`), what they are limited to (`limits.memory`) and the pods themselves
(`pods`). A pod that has ended costs nothing; one that is being deleted still does, and one that is being resized costs
the largest of what it asks for, was promised and has.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from webhook.accounting.amounts import Amounts, round_down_to_unit
from webhook.accounting.names import LIMITS_PREFIX
from webhook.accounting.pod_requests import compute_limits, compute_requests
from webhook.accounting.pod_resources import ContainerRole, PodResources, parse_pod_resources
from webhook.accounting.quantity import Quantity
from webhook.accounting.resize import ResizeView, apply_status
from webhook.objects.core import Pod, PodSpec

PODS = "pods"
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod costs: `amounts` by counted name, and the containers that set no limit where limits are counted."""

    amounts: Amounts = field(default_factory=Amounts)
    unlimited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def compute_charge(pod: Pod, names: Collection[str]) -> Charge:
    """What a pod costs under the counted names; names it has nothing of are absent.

    Raises:
        QuantityError: one of its quantities is none.
    """
    if has_ended(pod):
        return Charge()
    resources = apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.CHARGED)
    requests = compute_requests(resources).amounts
    amounts = {name: requests[name] for name in names if requests.get(name, 0) > 0}
    if PODS in names:
        amounts[PODS] = 1
    limit_names = [name for name in names if name.startswith(LIMITS_PREFIX)]
    if not limit_names:
        return Charge(Amounts(amounts))
    limits = compute_limits(resources).amounts
    amounts |= {
        name: limits[resource]
        for name in limit_names
        if limits.get(resource := name.removeprefix(LIMITS_PREFIX), 0) > 0
    }
    unlimited = {name: _find_unlimited_containers(resources, name.removeprefix(LIMITS_PREFIX)) for name in limit_names}
    return Charge(Amounts(amounts), {name: containers for name, containers in unlimited.items() if containers})


def compute_hard_limits(quantities: Mapping[str, Quantity]) -> Amounts:
    """What a cap allows, in amounts: rounded down, since half a unit of room is none."""
    return Amounts({name: round_down_to_unit(name, quantity) for name, quantity in quantities.items()})


def has_ended(pod: Pod) -> bool:
    """Whether it runs no more, so that it costs nothing (phase Succeeded or Failed)."""
    return pod.status is not None and pod.status.phase in _ENDED_PHASES


def is_as_requested(pod: Pod) -> bool:
    """Whether its status changes nothing of what it costs: it has neither ended, nor been given anything yet."""
    status = pod.status
    if status is None:
        return True
    has_actual_resources = status.container_statuses or status.init_container_statuses or status.resources
    return not has_actual_resources and status.phase not in _ENDED_PHASES


def _find_unlimited_containers(resources: PodResources, resource: str) -> tuple[str, ...]:
    """The containers and sidecars without a limit, unless the pod level sets one for them all."""
    if resource in resources.limits:
        return ()
    return tuple(
        each.name
        for each in (*resources.containers, *resources.init)
        if each.role is not ContainerRole.INIT and resource not in each.limits
    )
