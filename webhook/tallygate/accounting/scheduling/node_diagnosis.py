"""The diagnosis of one node: the reasons of the scheduler, what is short there, and the pods that use it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.node_fit import Shortfall, UnhealthyDevices
from tallygate.accounting.scheduling.device_shortfalls import DeviceInspector, DeviceShortfall
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import get_free_amounts
from tallygate.accounting.scheduling.plugins import node_eligibility, node_resources_fit
from tallygate.accounting.scheduling.plugins.dynamic_resources import CANNOT_ALLOCATE

_MAX_CONSUMERS = 5
_ELIGIBILITY_FILTERS = (
    node_eligibility.filter_node_unschedulable,
    node_eligibility.filter_node_name,
    node_eligibility.filter_taint_toleration,
    node_eligibility.filter_node_affinity,
)
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class NodeConsumer:
    """A pod on a node, and the amounts that it uses of the resources which are short there."""

    pod: PodInfo
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """The diagnosis of one node: `reasons` are the scheduler's, empty if the pod fits.

    `shortfalls` are all resources that are short, `can_ever_run` is whether the pod could run there after other pods
    left, `consumers` are the pods that use most of the resources in short supply, at most five. `device_shortfalls` are
    the requests of claims without devices.
    """

    name: str
    reasons: tuple[str, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    can_ever_run: bool = True
    consumers: tuple[NodeConsumer, ...] = ()
    device_shortfalls: tuple[DeviceShortfall, ...] = ()


def diagnose_node(
    inspector: DeviceInspector, diagnosis: Diagnosis, node_index: int, *, can_ever_run: bool
) -> NodeDiagnosis:
    """Return the diagnosis of one of the evaluated nodes for the pod of the inspector."""
    pod, cluster = inspector.pod, inspector.cluster
    name, reasons = cluster.nodes.get_name(node_index), diagnosis.reasons(node_index)
    if not reasons:
        return NodeDiagnosis(name, ())
    shortfalls = node_resources_fit.find_shortfalls(pod, cluster, node_index)
    consumers = _find_top_consumers(cluster, node_index, shortfalls) if can_ever_run else ()
    devices = inspector.find_shortfalls(node_index) if CANNOT_ALLOCATE in reasons else ()
    return NodeDiagnosis(name, reasons, shortfalls, can_ever_run, consumers, devices)


def _find_top_consumers(cluster: Cluster, node_index: int, shortfalls: Iterable[Shortfall]) -> tuple[NodeConsumer, ...]:
    """Return the pods that use most of the short resources; the first resource decides."""
    names = [shortfall.resource for shortfall in shortfalls if shortfall.resource != _PODS]
    consumers = [
        NodeConsumer(pod, amounts)
        for pod in cluster.get_node_pods(node_index).values()
        if (amounts := {name: pod.group.requests[name] for name in names if name in pod.group.requests})
    ]
    consumers.sort(key=lambda each: ([-each.amounts.get(name, 0) for name in names], each.pod.namespace, each.pod.name))
    return tuple(consumers[:_MAX_CONSUMERS])


class ScatteredAmount(NamedTuple):
    """A resource of which the nodes have enough free for a pod together, and no single one.

    `free` is the amount that is free on the nodes that the pod may use by their labels, taints and cordons, `most` the
    largest on one of them. It `is_restricted` if other nodes have some free, too.
    """

    resource: str
    requested: int
    free: int
    most: int
    is_restricted: bool


def find_scattered_amounts(pod: IncomingPod, cluster: Cluster) -> Iterator[ScatteredAmount]:
    """Yield the resources that a pod cannot get because what is free is scattered over the nodes."""
    nodes = cluster.nodes.get_indices()
    is_usable = np.ones(len(nodes), dtype=np.bool_)
    for filter_nodes in _ELIGIBILITY_FILTERS:
        for status in filter_nodes(pod, cluster, nodes):
            is_usable &= ~status.rejected
    for name, requested in pod.requests.items():
        free = np.maximum(get_free_amounts(cluster, nodes, name), 0)
        total, most = int(free[is_usable].sum()), int(free[is_usable].max(initial=0))
        if most < requested <= total:
            yield ScatteredAmount(name, requested, total, most, is_restricted=bool(free[~is_usable].any()))


def list_unhealthy_devices(pod: IncomingPod, cluster: Cluster) -> tuple[UnhealthyDevices, ...]:
    """Return the unhealthy devices of the resources that a pod requests, by node and resource."""
    return tuple(sorted(_find_unhealthy(pod, cluster), key=lambda each: (each.node, each.resource)))


def _find_unhealthy(pod: IncomingPod, cluster: Cluster) -> Iterator[UnhealthyDevices]:
    nodes = cluster.nodes.get_indices()
    for name in pod.requests:
        column = cluster.nodes.find_unhealthy_column(name)
        if column is None:
            continue
        with_unhealthy = nodes[np.flatnonzero(column.array[nodes])]
        capacities = cluster.nodes.find_capacity(name, with_unhealthy)
        for index, capacity in zip(with_unhealthy.tolist(), capacities.tolist(), strict=True):
            yield UnhealthyDevices(cluster.nodes.get_name(index), name, column[index], capacity)
