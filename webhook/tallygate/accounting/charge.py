"""The charge of a pod under a cap, by counted name.

A cap counts the requests of pods (`nvidia.com/gpu`), their limits (`limits.memory`) and the pods themselves (`pods`).
Under names of its own a cap counts amounts that it derives from several resources and annotations (`derived_amounts`).
A pod that has ended is charged nothing. A pod that is being deleted is still charged. A pod that is being resized is
charged the largest of its requested, allocated and actual amounts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from tallygate.accounting.amounts import Amounts, round_down_to_unit
from tallygate.accounting.claim_charge import DeviceSources
from tallygate.accounting.derived_amounts import CountedPod, DerivedAmount
from tallygate.accounting.names import LIMITS_PREFIX, is_overcommit_allowed
from tallygate.accounting.pod_requests import ResizeView, apply_status, compute_limits, compute_requests
from tallygate.accounting.pod_resources import PodResources, parse_pod_resources
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import Pod, PodSpec

PODS = "pods"


class ConsumerKind(StrEnum):
    """The kinds of objects that are charged: pods, ResourceClaims for devices, and workloads as gangs of pods."""

    POD = "pod"
    CLAIM = "claim"
    WORKLOAD = "workload"


_NO_SOURCES: Mapping[str, DeviceSources] = MappingProxyType({})
_NO_DERIVED: Mapping[str, DerivedAmount] = MappingProxyType({})
_NO_LIMITS = Amounts()
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one pod: `amounts` by counted name, and by name the containers that lack what the cap counts.

    These have no limit where limits are counted, or request one factor of a product without the others. The kubelet
    ignores a limit of 0 of some resources, so that it is missing too. Under a name that counts annotations, they are
    the annotations that are no amount.
    """

    amounts: Amounts = field(default_factory=Amounts)
    unlimited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def compute_charge(
    pod: Pod,
    names: Collection[str],
    sources: Mapping[str, DeviceSources] = _NO_SOURCES,
    derived: Mapping[str, DerivedAmount] = _NO_DERIVED,
) -> Charge:
    """Return the charge of a pod under the counted names; names of which the pod has nothing are absent.

    `sources` are the names that stand for devices: the requests for all their resources count. `derived` are the names
    whose amounts are derived from several resources.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    if has_ended(pod):
        return Charge()
    written = parse_pod_resources(pod.spec or PodSpec())
    resources = apply_status(written, pod.status, ResizeView.CHARGED)
    requests = compute_requests(resources).amounts
    amounts = {name: requests[name] for name in names if requests.get(name, 0) > 0}
    for name, source in sources.items():
        total = sum(requests.get(resource, 0) for resource in source.resources)
        if total > 0:
            amounts[name] = total
    if PODS in names:
        amounts[PODS] = 1
    limit_names = sorted(name for name in names if name.startswith(LIMITS_PREFIX))
    if not (limit_names or derived):
        return Charge(Amounts(amounts))
    limits = compute_limits(_drop_zero_pod_limits(resources)).amounts if limit_names else _NO_LIMITS
    amounts |= {
        name: limits[resource]
        for name in limit_names
        if limits.get(resource := name.removeprefix(LIMITS_PREFIX), 0) > 0
    }
    unlimited = {name: _find_unlimited_containers(written, name.removeprefix(LIMITS_PREFIX)) for name in limit_names}
    counted = CountedPod.create(pod, resources, requests)
    for name, definition in derived.items():
        if (total := definition.compute_amount(counted)) > 0:
            amounts[name] = total
        unlimited[name] = definition.find_incomplete(counted)
    return Charge(Amounts(amounts), {name: containers for name, containers in unlimited.items() if containers})


def explain_derived(pod: Pod, derived: DerivedAmount, total: str) -> str:
    """Return the calculation of a derived amount of a pod in one line, which ends with `total`.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.CHARGED)
    return derived.explain(CountedPod.create(pod, resources), total)


def compute_hard_limits(quantities: Mapping[str, Quantity]) -> Amounts:
    """Return the hard limits of a cap in amounts, rounded down: half a free unit counts as zero."""
    return Amounts({name: round_down_to_unit(name, quantity) for name, quantity in quantities.items()})


def has_ended(pod: Pod) -> bool:
    """Return whether a pod has ended, so that it is charged nothing (phase Succeeded or Failed)."""
    return pod.status is not None and pod.status.phase in _ENDED_PHASES


def is_as_requested(pod: Pod) -> bool:
    """Return whether the status of a pod leaves its charge unchanged: it has not ended and has no actual resources."""
    status = pod.status
    if status is None:
        return True
    has_actual_resources = status.container_statuses or status.init_container_statuses or status.resources
    return not has_actual_resources and status.phase not in _ENDED_PHASES


def _find_unlimited_containers(resources: PodResources, resource: str) -> tuple[str, ...]:
    """Return the containers, sidecars and init steps without a limit, unless the pod level sets one for all of them.

    ResourceQuota requires a limit of the same containers (Constraints in pkg/quota/v1/evaluator/core/pods.go, v1.37).
    The kubelet sets no limit where that of cpu, memory or ephemeral-storage is 0 (getCPULimit and getMemoryLimit in
    pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, containerEphemeralStorageLimitEviction in
    pkg/kubelet/eviction/eviction_manager.go, v1.37). Of extended resources and huge pages no container gets more than
    it names.
    """
    if not is_overcommit_allowed(resource) or resources.limits.get(resource):
        return ()
    return tuple(
        container.name for container in (*resources.containers, *resources.init) if not container.limits.get(resource)
    )


def _drop_zero_pod_limits(resources: PodResources) -> PodResources:
    """Return the resources without limits of 0 at pod level, which would replace those of the containers."""
    if all(resources.limits.values()):
        return resources
    return resources._replace(limits={name: limit for name, limit in resources.limits.items() if limit})
