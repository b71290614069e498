"""The calculation of the amounts that pods are charged under a cap, in one line each."""

from collections.abc import Iterator
from typing import NamedTuple

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import PODS
from tallygate.accounting.claim_charge import DeviceSources
from tallygate.accounting.derived_amounts import CountedPod
from tallygate.accounting.names import LIMITS_PREFIX
from tallygate.accounting.pod_requests import (
    ResizeView,
    apply_status,
    compute_limits,
    compute_requests,
    explain_request,
)
from tallygate.accounting.pod_resources import PodResources, parse_pod_resources
from tallygate.admission.cap_index import ActiveCap
from tallygate.objects.core import Pod, PodSpec


class ExplainedAmount(NamedTuple):
    """The amount that a pod is charged under a name of a cap, and its calculation."""

    name: str
    amount: int
    calculation: str


def explain_charge(cap: ActiveCap, pod: Pod) -> Iterator[ExplainedAmount]:
    """Yield the amounts that a pod is charged under a cap.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    amounts = cap.compute_charge(pod).amounts
    resources = apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.CHARGED)
    for name, amount in amounts.items():
        if name in cap.derived:
            calculation = cap.derived[name].explain(CountedPod.create(pod, resources), format_amount(name, amount))
        else:
            calculation = _explain_amount(resources, name, cap)
        yield ExplainedAmount(name, amount, calculation)


def _explain_amount(resources: PodResources, name: str, cap: ActiveCap) -> str:
    if name == PODS:
        return "one pod"
    if (sources := cap.device_sources.get(name)) is not None:
        return _explain_devices(resources, name, sources)
    resource = name.removeprefix(LIMITS_PREFIX)
    effective = compute_requests(resources) if resource == name else compute_limits(resources)
    return explain_request(effective, resource).removeprefix(f"{resource} = ")


def _explain_devices(resources: PodResources, name: str, sources: DeviceSources) -> str:
    """Return the sum of the requests for devices, with the resource of each if it is not the counted name."""
    effective = compute_requests(resources)
    requested = sorted(resource for resource in sources.resources if effective.amounts.get(resource))
    if requested == [name]:
        return explain_request(effective, name).removeprefix(f"{name} = ")
    return "; ".join(explain_request(effective, resource) for resource in requested)
