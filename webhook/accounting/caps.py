"""What a pod costs under a cap, name by name.

A cap counts what pods request (`nvidia.com/gpu`), what they are limited to (`limits.memory`) and the pods themselves
(`pods`). A pod that has ended costs nothing; one that is being deleted still does, and one that is being resized costs
the largest of what it asks for, was promised and has.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from webhook.accounting.amounts import Amounts, bound
from webhook.accounting.asks import PodAsk, Role, read_pod
from webhook.accounting.names import LIMITS_PREFIX
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import limits_of, requests_of
from webhook.accounting.resize import View, as_seen
from webhook.objects.pods import Pod, PodSpec

PODS = "pods"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Charge:
    """What one pod costs: `amounts` by counted name, and the containers that set no limit where limits are counted."""

    amounts: Amounts = field(default_factory=Amounts)
    unlimited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def charge(pod: Pod, names: Collection[str]) -> Charge:
    """What a pod costs under the counted names; names it has nothing of are absent.

    Raises:
        QuantityError: one of its quantities is none.
    """
    if has_ended(pod):
        return Charge()
    ask = as_seen(read_pod(pod.spec or PodSpec()), pod.status, View.HELD)
    requests = requests_of(ask).amounts
    costs = {name: requests[name] for name in names if requests.get(name, 0) > 0}
    if PODS in names:
        costs[PODS] = 1
    limited = [name for name in names if name.startswith(LIMITS_PREFIX)]
    if not limited:
        return Charge(Amounts(costs))
    limits = limits_of(ask).amounts
    costs |= {
        name: limits[resource] for name in limited if limits.get(resource := name.removeprefix(LIMITS_PREFIX), 0) > 0
    }
    unlimited = {name: _unlimited(ask, name.removeprefix(LIMITS_PREFIX)) for name in limited}
    return Charge(Amounts(costs), {name: found for name, found in unlimited.items() if found})


def ceilings(written: Mapping[str, Quantity]) -> Amounts:
    """What a cap allows, in amounts: rounded down, since half a unit of room is none."""
    return Amounts({name: bound(name, quantity) for name, quantity in written.items()})


def has_ended(pod: Pod) -> bool:
    """Whether it runs no more, so that it costs nothing (phase Succeeded or Failed)."""
    return pod.status is not None and pod.status.phase in _ENDED


def is_as_asked(pod: Pod) -> bool:
    """Whether its status changes nothing of what it costs: it has neither ended, nor been given anything yet."""
    status = pod.status
    if status is None:
        return True
    given = status.container_statuses or status.init_container_statuses or status.resources
    return not given and status.phase not in _ENDED


def _unlimited(ask: PodAsk, resource: str) -> tuple[str, ...]:
    """The containers and sidecars without a limit, unless the pod level sets one for them all."""
    if resource in ask.limits:
        return ()
    return tuple(
        each.name for each in (*ask.containers, *ask.init) if each.role is not Role.INIT and resource not in each.limits
    )
