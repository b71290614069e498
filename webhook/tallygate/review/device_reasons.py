"""The text of a denial for devices that a pod lacks, and whether enough is known to deny.

A message names pools and nodes, and claims and pods of the namespace of the incoming pod only.
"""

from collections.abc import Iterator
from typing import Final

from tallygate.accounting.allocation.mismatch import TAINTED
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.device_shortfalls import (
    UNKNOWN_HOLDER,
    DeviceInspector,
    DeviceShortfall,
    PoolShortfall,
    format_mismatch,
)
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.dynamic_resources import ClusterNode
from tallygate.accounting.scheduling.plugins.resource_claims import needs_devices
from tallygate.accounting.scheduling.prediction import find_unresolvable_nodes

_PLUGIN: Final = "DynamicResources"
_MAX_NODES: Final = 8
_MAX_DEVICES: Final = 500  # of the pools of one node
_MAX_TEXT: Final = 120
_MAX_REASONS: Final = 3


def may_reach_incomplete_pool(pod: IncomingPod, cluster: Cluster) -> bool:
    """Return whether a node that nothing but devices excludes for ever may reach a pool that lacks slices.

    Its driver is publishing them, and what devices there are is not known yet.
    """
    devices = cluster.devices
    if devices is None or not needs_devices(pod, cluster):
        return False
    slices = devices.get_allocator(cluster.version, cluster.device_classes.by_name).slices
    names = slices.find_incomplete_nodes()
    if not names:
        return names is None
    every = cluster.nodes.get_indices()
    nodes = every[[cluster.nodes.get_name(index) in names for index in every.tolist()]]
    cluster.devices = None
    try:
        return len(find_unresolvable_nodes(pod, cluster, nodes)) < len(nodes)
    finally:
        cluster.devices = devices


def describe_missing_devices(pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, *, ever: bool) -> str:
    """Return the devices that the node closest to enough lacks, as a part of a sentence; empty if none lacks any.

    With `ever`, devices in use and devices with taints count as if they were free.
    """
    if cluster.devices is None or len(diagnosis.feasible):
        return ""
    nodes = [
        index
        for status in diagnosis.statuses
        if status.plugin == _PLUGIN
        for index in diagnosis.nodes[status.rejected].tolist()
    ]
    shortfalls = list(_inspect(pod, cluster, nodes[:_MAX_NODES]))
    if not shortfalls:
        return ""
    node, missing = min(shortfalls, key=lambda each: sum(one.missing for one in each[1]))
    return _describe(cluster.nodes.get_name(node), missing[0], ever=ever)


def _inspect(pod: IncomingPod, cluster: Cluster, nodes: list[int]) -> Iterator[tuple[int, tuple[DeviceShortfall, ...]]]:
    """Yield the shortfalls of nodes, without those that reach very many devices."""
    assert cluster.devices is not None  # noqa: S101  # the caller has asked
    slices = cluster.devices.get_allocator(cluster.version, cluster.device_classes.by_name).slices
    inspector = DeviceInspector(pod, cluster, only_own=True) if nodes else None
    for index in nodes:
        pools = slices.gather_pools(ClusterNode(cluster, index))
        if (
            inspector is not None
            and sum(len(resource_slice.devices) for pool in pools for resource_slice in pool.slices) <= _MAX_DEVICES
        ):
            shortfalls = inspector.find_shortfalls(index)
            if shortfalls:
                yield index, shortfalls


def _describe(node: str, shortfall: DeviceShortfall, *, ever: bool) -> str:
    number = "all devices" if shortfall.requested is None else _count(shortfall.requested, "device")
    owner = f"request {shortfall.request} of claim {shortfall.claim}" if shortfall.claim else "extended resources"
    wanted = f"{owner} for {number} of class {shortfall.class_name}"
    pools = "; ".join(_describe_pool(pool, node, ever=ever) for pool in shortfall.pools[:_MAX_REASONS])
    return f"{wanted}: {pools or f'node {node} has no such devices'}"


def _describe_pool(pool: PoolShortfall, node: str, *, ever: bool) -> str:
    where = f"pool {pool.pool} of node {node}"
    if pool.problem:
        return f"{where}: {pool.problem}"
    used = sum(pool.in_use.values())
    tainted = sum(count for reason, count in pool.mismatches.items() if reason.startswith(TAINTED)) if ever else 0
    mismatches = [item for item in pool.mismatches.items() if not (ever and item[0].startswith(TAINTED))]
    parts = [format_mismatch(_shorten(reason), count) for reason, count in mismatches[:_MAX_REASONS]]
    if used and not ever:
        parts.append(f"{used} in use{_describe_users(pool)}")
    suitable = pool.free + used + tainted if ever else pool.free
    parts.append(f"{suitable} {'suitable' if ever else 'free'}")
    return f"{where}: {_count(pool.devices, 'device')}, {', '.join(parts)}"


def _describe_users(pool: PoolShortfall) -> str:
    """Return the claims of the own namespace that have devices of a pool, in brackets."""
    users = [str(holder) for holder in pool.in_use if holder != UNKNOWN_HOLDER]
    more = "; …" if len(users) > _MAX_REASONS else ""
    return f" ({'; '.join(users[:_MAX_REASONS])}{more})" if users else ""


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
