"""The devices that claims lack on a node, by request and pool: those in use, with their claims, and those unfit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tallygate.webhook.accounting.allocation.allocator import Allocator
from tallygate.webhook.accounting.allocation.mismatch import NOT_OF_CLASS, find_mismatch
from tallygate.webhook.accounting.allocation.planned_requests import AllocationError, PlannedRequest, format_name
from tallygate.webhook.accounting.allocation.pools import Pool
from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.devices.device_meter import DeviceId
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.plugins.dynamic_resources import (
    ClusterNode,
    find_devices_of_pod,
    find_hold_reason,
    list_claims_on_node,
    needs_devices,
)
from tallygate.webhook.objects.devices import ResourceClaim


class DeviceHolder(NamedTuple):
    """A claim with a device, and the pods that it is reserved for."""

    claim: str
    pods: tuple[str, ...]

    def __str__(self) -> str:
        return self.claim if not self.pods else f"{', '.join(self.pods)}, claim {self.claim}"


class PoolShortfall(NamedTuple):
    """The devices of one pool for a request: all, the free ones that suit, the users of others, and why the rest fail.

    `problem` is set for a pool from which nothing is allocated.
    """

    pool: str
    devices: int
    free: int
    in_use: Mapping[DeviceHolder, int]
    mismatches: Mapping[str, int]
    problem: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether no device of the pool is of the class."""
        return all(each.startswith(NOT_OF_CLASS) for each in self.mismatches)

    def __str__(self) -> str:
        if self.problem:
            return f"pool {self.pool}: {self.problem}"
        used = sum(self.in_use.values())
        users = "; ".join(str(each) for each in self.in_use)
        parts = [
            *([f"{used} allocated ({users})"] if used else []),
            *(f"{count} {_agree(reason, count)}" for reason, count in self.mismatches.items()),
            f"{self.free} free",
        ]
        return f"pool {self.pool}: {self.devices} device{'s' * (self.devices != 1)}, {', '.join(parts)}"


class DeviceShortfall(NamedTuple):
    """What one request of a claim lacks on a node; `requested` is a number of devices, or `all`."""

    claim: str
    request: str
    class_name: str
    requested: str
    pools: tuple[PoolShortfall, ...]

    def __str__(self) -> str:
        wanted = f"request {self.request} for {self.requested} of class {self.class_name}"
        pools = "; ".join(map(str, self.pools)) or "no pool of devices"
        return f"claim {self.claim}, {wanted}: {pools}"


def find_device_shortfalls(pod: IncomingPod, cluster: Cluster, node_index: int) -> tuple[DeviceShortfall, ...]:
    """Return what each request without enough free devices lacks on a node.

    Without such a request the result has all requests: they compete for the same devices, or a constraint excludes
    their combinations.
    """
    devices = cluster.devices
    if devices is None or not needs_devices(pod, cluster) or find_hold_reason(pod, cluster):
        return ()
    allocator = devices.get_allocator(cluster.scheduler_version, cluster.device_classes.by_name)
    of_pod = find_devices_of_pod(pod, cluster, devices)
    pools = allocator.slices.gather_pools(ClusterNode(cluster, node_index))
    holders = _find_holders(devices.claims.values())
    shortfalls = [
        (DeviceShortfall(format_name(claim), request.full_name, request.class_name, wanted, by_pool), is_short)
        for claim in list_claims_on_node(pod, cluster, node_index, of_pod)
        for request in _list_requests(allocator, claim)
        for wanted, by_pool, is_short in [_compare(allocator, request, pools, holders)]
    ]
    short = tuple(shortfall for shortfall, is_short in shortfalls if is_short)
    return short or tuple(shortfall for shortfall, _ in shortfalls)


def _list_requests(allocator: Allocator, claim: ResourceClaim) -> Iterator[PlannedRequest]:
    try:
        for alternatives in allocator.plan(claim):
            yield from alternatives
    except AllocationError:
        return


def _compare(
    allocator: Allocator,
    request: PlannedRequest,
    pools: Sequence[Pool],
    holders: Mapping[DeviceId, DeviceHolder],
) -> tuple[str, tuple[PoolShortfall, ...], bool]:
    by_pool = tuple(_describe_pool(allocator, request, pool, holders) for pool in pools)
    relevant = tuple(each for each in by_pool if each.problem or each.free or each.in_use or not each.is_foreign)
    free = sum(each.free for each in by_pool)
    if request.is_all:
        in_use = any(each.in_use for each in by_pool)
        return "all devices", relevant, not free or in_use
    number = f"{request.number} device{'s' * (request.number != 1)}"
    return number, relevant, free < request.number


def _describe_pool(
    allocator: Allocator, request: PlannedRequest, pool: Pool, holders: Mapping[DeviceId, DeviceHolder]
) -> PoolShortfall:
    name = str(pool.id)
    if not pool.is_complete:
        return PoolShortfall(name, 0, 0, {}, {}, "its driver is replacing its slices")
    if pool.invalid_reason:
        return PoolShortfall(name, 0, 0, {}, {}, f"it is invalid: {pool.invalid_reason}")
    in_use: Counter[DeviceHolder] = Counter()
    mismatches: Counter[str] = Counter()
    devices = [device for each in pool.slices for device in each.devices]
    for device in devices:
        mismatch = find_mismatch(allocator, request, device)
        if mismatch:
            mismatches[mismatch] += 1
        elif device.id in allocator.state.whole and not request.has_admin_access:
            in_use[holders.get(device.id, DeviceHolder("of another pod", ()))] += 1
    free = len(devices) - sum(in_use.values()) - sum(mismatches.values())
    return PoolShortfall(name, len(devices), free, in_use, mismatches)


def _find_holders(claims: Iterable[ResourceClaim]) -> dict[DeviceId, DeviceHolder]:
    holders = {}
    for claim in claims:
        allocation = claim.status.allocation if claim.status else None
        reserved = (claim.status.reserved_for if claim.status else None) or ()
        namespace = (claim.metadata.namespace if claim.metadata else None) or ""
        holder = DeviceHolder(format_name(claim), tuple(f"{namespace}/{each.name}" for each in reserved))
        for result in (allocation.devices.results if allocation and allocation.devices else None) or ():
            if not result.admin_access:
                holders[DeviceId(result.driver, result.pool, result.device)] = holder
    return holders


def _agree(reason: str, count: int) -> str:
    """Return the reason with a verb for several devices."""
    if count == 1:
        return reason
    return reason.replace("fails ", "fail ", 1).replace("has ", "have ", 1) if reason[:3] in {"fai", "has"} else reason
