"""The plugin DynamicResources: claims for devices, and extended resources that devices back.

A claim that is allocated fits the nodes from which its devices can be reached. Any other claim fits the nodes whose
devices suffice for all claims of the pod. Source: plugins/dynamicresources/dynamicresources.go and
extendeddynamicresources.go, resourceclaim in dynamic-resource-allocation, v1.36 and v1.37.

Conditions under which the devices of a claim are bound to a node: their driver reports them after the allocation.

A pod with such a claim waits for the conditions. A device whose binding has failed, or takes too long, is available on
no node. Source: isClaimReadyForBinding and isClaimTimeout in plugins/dynamicresources/dynamicresources.go, v1.36.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np

from tallygate.accounting.allocation.allocations import Allocation
from tallygate.accounting.allocation.planned_requests import (
    TOO_MUCH_WORK,
    AllocationError,
    NodeAllocationError,
    UndecidedAllocationError,
)
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.diagnosis import Diagnosis, FilterStatus, PreFilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import resource_claims
from tallygate.accounting.scheduling.plugins.node_eligibility import match_selector
from tallygate.accounting.scheduling.plugins.node_resources_fit import mask_device_backed
from tallygate.accounting.scheduling.plugins.special_claim import create_special_claim
from tallygate.objects.devices import AllocatedDeviceStatus, DeviceClass, DeviceRequest, DeviceResult, ResourceClaim
from tallygate.objects.meta import NodeSelector, ObjectMeta

CANNOT_ALLOCATE = "cannot allocate all claims"
"""The reason of a node whose devices do not suffice."""

NOT_AVAILABLE = "resourceclaim not available on the node"
"""The reason of a node from which the devices of an allocated claim cannot be reached."""

_UNKNOWN_WAIT = "devices: a claim waits for the driver of its devices, and whether its time is up is not known"
_OLD_SPECIAL_CLAIM = "cannot schedule extended resource claim"


def pre_filter_dynamic_resources(pod: IncomingPod, cluster: Cluster) -> PreFilterStatus | None:
    """Return the reason why a pod fits no node: a request that names no class, or one that is missing."""
    devices = cluster.devices
    if devices is None or not resource_claims.needs_devices(pod, cluster):
        return None
    try:
        of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
    except resource_claims.ClaimNotReadyError as error:
        return PreFilterStatus(str(error), is_by_devices=True)
    for claim in of_pod.claims:
        if resource_claims.get_allocation(claim) is not None:
            continue
        for request in resource_claims.list_requests(claim):
            status = _check_request(claim, request, cluster.device_classes.by_name)
            if status is not None:
                return status
    return None


def filter_dynamic_resources(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes from which allocated devices cannot be reached, and nodes whose devices do not suffice."""
    devices = cluster.devices
    if devices is None or not resource_claims.needs_devices(pod, cluster):
        return
    try:
        of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
    except resource_claims.ClaimNotReadyError:
        return
    if of_pod.special is not None:
        yield mark_unresolvable(_OLD_SPECIAL_CLAIM, np.ones(len(nodes), dtype=np.bool_))
        return
    rejections = _find_rejections(pod, cluster, nodes, of_pod)
    remaining = np.ones(len(nodes), dtype=np.bool_)
    for rejection in dict.fromkeys(rejection for rejection in rejections if rejection is not None):
        mask = np.array([other == rejection for other in rejections], dtype=np.bool_)
        remaining &= ~mask
        yield FilterStatus(
            rejection.reason, mask, mask, is_error=rejection.is_error, is_undecided=rejection.is_undecided
        )
    unavailable = _mask_unavailable(of_pod.claims, cluster, nodes)
    yield mark_unresolvable(NOT_AVAILABLE, unavailable & remaining)
    if any(find_binding_state(claim, cluster.now) is BindingState.UNKNOWN for claim in of_pod.claims):
        remaining &= ~unavailable
        yield FilterStatus(_UNKNOWN_WAIT, remaining, remaining, is_undecided=True)


def filter_published_devices(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes whose devices do not suffice for the claims without devices, even if no other claim had any."""
    devices = cluster.devices
    if (
        devices is None
        or not resource_claims.needs_devices(pod, cluster)
        or resource_claims.find_hold_reason(pod, cluster)
    ):
        return
    of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
    if of_pod.special is None:
        rejections = _find_rejections(pod, cluster, nodes, of_pod, is_idle=True)
        is_short = [
            rejection is not None and not rejection.is_undecided and not rejection.is_error for rejection in rejections
        ]
        yield mark_unresolvable(CANNOT_ALLOCATE, np.array(is_short, dtype=np.bool_))


class NodeRejection(NamedTuple):
    """The reason why no devices are allocated on a node; an error ends the attempt.

    `is_undecided`: kube-scheduler has a result, and the allocator here has none.
    """

    reason: str
    is_error: bool = False
    is_undecided: bool = False


_NOT_ENOUGH = NodeRejection(CANNOT_ALLOCATE)
_TOO_MUCH_WORK = NodeRejection(f"devices: {TOO_MUCH_WORK}", is_undecided=True)


def allocate_on_node(
    pod: IncomingPod, cluster: Cluster, node_index: int, of_pod: resource_claims.DevicesOfPod, *, is_idle: bool = False
) -> Sequence[Allocation] | NodeRejection:
    """Return the allocations of the claims without devices on a node, or the reason why there are none.

    If `is_idle`, no other claim has devices.
    """
    claims = list_claims_on_node(pod, cluster, node_index, of_pod)
    if not claims:
        return ()
    assert cluster.devices is not None  # noqa: S101  # the callers have asked
    classes = cluster.device_classes.by_name
    allocator = cluster.devices.get_allocator(cluster.version, classes, is_idle=is_idle)
    try:
        allocations = allocator.allocate(ClusterNode(cluster, node_index), claims)
    except NodeAllocationError as error:
        return NodeRejection(str(error))
    except UndecidedAllocationError as error:
        return NodeRejection(f"devices: {error}", is_undecided=True)
    except AllocationError as error:
        return NodeRejection(str(error), is_error=True)
    return NodeRejection(CANNOT_ALLOCATE) if allocations is None else allocations


def list_claims_on_node(
    pod: IncomingPod, cluster: Cluster, node_index: int, of_pod: resource_claims.DevicesOfPod
) -> tuple[ResourceClaim, ...]:
    """Return the claims that need devices on a node, with the one for extended resources that the node lacks."""
    classes = _list_backed_resources(cluster, node_index, of_pod.classes)
    special = (create_special_claim(pod.namespace, pod.spec, classes),) if classes else ()
    return (*of_pod.to_allocate, *special)


def _list_backed_resources(cluster: Cluster, node_index: int, classes: Mapping[str, str]) -> dict[str, str]:
    """Return those of the extended resources that devices back on a node, with their classes."""
    nodes = np.array([node_index])
    return {name: class_name for name, class_name in classes.items() if mask_device_backed(cluster, nodes, name)[0]}


def _find_rejections(
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    of_pod: resource_claims.DevicesOfPod,
    *,
    is_idle: bool = False,
) -> list[NodeRejection | None]:
    """Return for each node the reason why devices do not suffice; None if they do."""
    assert cluster.devices is not None  # noqa: S101  # the callers have asked
    work = cluster.devices.work
    work.begin_attempt()
    rejections: list[NodeRejection | None] = [None] * len(nodes)
    for positions, claims in _group_by_claims(pod, cluster, nodes, of_pod):
        rejected, undecided = _count_devices(cluster, nodes[positions], claims, is_idle=is_idle)
        for position in positions[rejected].tolist():
            rejections[position] = _NOT_ENOUGH
        for position in positions[undecided].tolist():
            if work.is_exhausted:
                rejections[position] = _TOO_MUCH_WORK
                continue
            result = allocate_on_node(pod, cluster, int(nodes[position]), of_pod, is_idle=is_idle)
            rejections[position] = result if isinstance(result, NodeRejection) else None
    return rejections


def _group_by_claims(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, of_pod: resource_claims.DevicesOfPod
) -> Iterator[tuple[NodeIndices, tuple[ResourceClaim, ...]]]:
    """Yield the positions of nodes on which the same claims need devices, and these claims."""
    is_backed = [mask_device_backed(cluster, nodes, name) for name in of_pod.classes]
    groups: Mapping[tuple[bool, ...], list[int]] = {}
    if is_backed:
        groups = defaultdict(list)
        for position, key in enumerate(zip(*(row.tolist() for row in is_backed), strict=True)):
            groups[key].append(position)
    for positions in groups.values() if is_backed else [list(range(len(nodes)))]:
        claims = list_claims_on_node(pod, cluster, int(nodes[positions[0]]), of_pod) if positions else ()
        if claims:
            yield np.array(positions, dtype=np.intp), claims


def _count_devices(
    cluster: Cluster, nodes: NodeIndices, claims: Sequence[ResourceClaim], *, is_idle: bool
) -> tuple[list[int], Sequence[int]]:
    """Return the positions of the nodes without enough devices, and of those that a search must decide."""
    assert cluster.devices is not None  # noqa: S101  # the callers have asked
    classes = cluster.device_classes.by_name
    columns = cluster.devices.get_columns(cluster.version, classes)
    found = columns.find_nodes(claims, is_idle=is_idle)
    if found is None:
        return [], range(len(nodes))
    get_name, positions = cluster.nodes.get_name, columns.positions
    rows = np.array([positions.get(get_name(index), -1) for index in nodes.tolist()], dtype=np.intp)
    is_known = rows >= 0
    is_decided = ~is_known
    is_rejected = ~is_known
    is_decided[is_known] = found.is_decided[rows[is_known]]
    is_rejected[is_known] = found.is_decided[rows[is_known]] & ~found.has_enough[rows[is_known]]
    return np.flatnonzero(is_rejected).tolist(), np.flatnonzero(~is_decided).tolist()


class ClusterNode:
    """A node of the cluster, as the allocator asks for it."""

    def __init__(self, cluster: Cluster, index: int) -> None:
        self._columns = cluster.nodes
        self._index = index

    @property
    def name(self) -> str:
        return self._columns.get_name(self._index)

    def matches(self, selector: NodeSelector) -> bool:
        return bool(match_selector(selector, self._columns)[self._index])


def describe_post_filter(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis) -> str:
    """Return the message of the post-filter for a pod that fits no node: it may free the devices of an idle claim."""
    is_reported = not cluster.version.has(Switch.OMITS_CLAIM_NOTE)
    devices = cluster.devices
    nothing = "no new claims to deallocate" if is_reported else ""
    if devices is None or diagnosis.pre_filter_status is not None or not resource_claims.needs_devices(pod, cluster):
        return nothing
    of_pod = resource_claims.find_devices_of_pod(pod, cluster, devices)
    if not of_pod.claims and not of_pod.classes:
        return nothing
    if find_idle_claim(pod, cluster, diagnosis, pod.uid):
        return "deallocation of ResourceClaim completed"
    if of_pod.special is not None:
        return "deletion of ResourceClaim completed"
    return "still not schedulable" if is_reported else ""


def find_idle_claim(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, uid: str) -> str:
    """Return the name of a claim that some node cannot reach, and that nothing but the pod or PodGroup of a UID uses.

    It is empty without one. Of several kube-scheduler takes any.
    """
    devices, nodes = cluster.devices, diagnosis.nodes
    if devices is None or diagnosis.pre_filter_status is not None or not pod.spec.resource_claims:
        return ""
    is_unavailable = np.zeros(len(nodes), dtype=np.bool_)
    for status in diagnosis.statuses:
        if status.reason == NOT_AVAILABLE:
            is_unavailable |= status.rejected
    idle = (
        (claim.metadata or ObjectMeta()).name or ""
        for claim in resource_claims.find_devices_of_pod(pod, cluster, devices).claims
        if resource_claims.is_idle_claim(claim, uid)
        and _mask_unavailable((claim,), cluster, nodes[is_unavailable]).any()
    )
    return next(idle, "")


def _check_request(
    claim: ResourceClaim, request: DeviceRequest, classes: Mapping[str, DeviceClass]
) -> PreFilterStatus | None:
    """Return the reason why a request can have no devices anywhere (validateDeviceClass)."""
    if request.exactly is not None:
        named = [(request.name, request.exactly.device_class_name)]
    else:
        named = [
            (f"{request.name}/{alternative.name}", alternative.device_class_name)
            for alternative in request.first_available or ()
        ]
    if not named:
        meta = claim.metadata or ObjectMeta()
        place = f"resource claim {meta.namespace}/{meta.name}, request {request.name}"
        return PreFilterStatus(f"{place}: unknown request type", is_by_devices=True)
    for name, class_name in named:
        if not class_name:
            return PreFilterStatus(f"request {name}: unsupported request type", is_error=True)
        if class_name not in classes:
            return PreFilterStatus(f"request {name}: device class {class_name} does not exist", is_by_devices=True)
    return None


def _mask_unavailable(claims: Iterable[ResourceClaim], cluster: Cluster, nodes: NodeIndices) -> Mask:
    """Return a mask of the nodes from which the devices of an allocated claim cannot be reached.

    Devices that their driver could not bind, or not in time, are reached from none.
    """
    unavailable = np.zeros(len(nodes), dtype=np.bool_)
    for claim in claims:
        allocation = resource_claims.get_allocation(claim)
        if find_binding_state(claim, cluster.now) is BindingState.FAILED:
            return np.ones(len(nodes), dtype=np.bool_)
        if allocation is not None and allocation.node_selector is not None:
            unavailable |= ~match_selector(allocation.node_selector, cluster.nodes)[nodes]
    return unavailable


_TIMEOUT: Final = timedelta(seconds=600)  # DynamicResourcesBindingTimeoutDefault
_TRUE: Final = "True"


class BindingState(Enum):
    """Whether the devices of an allocated claim can be bound: `UNKNOWN` needs the time, which is not known."""

    READY = auto()
    WAITING = auto()
    FAILED = auto()
    UNKNOWN = auto()


def find_binding_state(claim: ResourceClaim, now: datetime | None) -> BindingState:
    """Return the state of a claim, ready without devices and without conditions."""
    allocation = claim.status.allocation if claim.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or ()
    states = (_find_device_state(claim, result) for result in results)
    state = next((state for state in states if state is not BindingState.READY), BindingState.READY)
    if state is not BindingState.WAITING or allocation is None or not allocation.allocation_timestamp:
        return state
    if now is None:
        return BindingState.UNKNOWN
    is_late = _read_time(allocation.allocation_timestamp) + _TIMEOUT < now
    return BindingState.FAILED if is_late else BindingState.WAITING


def _find_device_state(claim: ResourceClaim, result: DeviceResult) -> BindingState:
    if not result.binding_conditions:
        return BindingState.READY
    status = _find_status(claim, result)
    if status is None:
        return BindingState.WAITING
    true = {condition.type for condition in status.conditions or () if condition.status == _TRUE}
    if not true.isdisjoint(result.binding_failure_conditions or ()):
        return BindingState.FAILED
    return BindingState.READY if true.issuperset(result.binding_conditions) else BindingState.WAITING


def _find_status(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    """Return the first status of a device; parts of a shared device have one (getAllocatedDeviceStatus)."""
    reported = (claim.status.devices if claim.status else None) or ()
    device = result.driver, result.pool, result.device
    return next(
        (
            device_status
            for device_status in reported
            if (device_status.driver, device_status.pool, device_status.device) == device
        ),
        None,
    )


def _read_time(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
