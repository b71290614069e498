"""The nodes of a cluster with what pods use on them, their devices, and the shapes of nodes that may come.

Amounts are milli-cpu for cpu and whole units otherwise. Nodes have names here, so that only someone who may list nodes
gets it; pods and claims have names where the asker may list pods, and are counted elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Final, Literal

import msgspec

from tallygate.accounting.amounts import format_amount, is_milli
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.names import is_extended
from tallygate.accounting.scheduling.device_shortfalls import NodePool, list_pools_of_nodes
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.columns import API_VERSION
from tallygate.answers.usage_report import format_time
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.policy.model import PolicySet

MAX_HOLDERS: Final = 10
"""The pods with names of one resource of a node: those that use most; the others are counted."""

_ALWAYS: Final = ("cpu", "memory", "pods")


class PodAmount(msgspec.Struct, frozen=True):
    """A pod, and the amount that it uses."""

    namespace: str
    name: str
    amount: int


class NodeAmount(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of a node: allocatable, used, free, and the devices that are not healthy.

    `pods` are those that use most of an extended resource, and `hiddenPods` the number of its other pods.
    """

    resource: str
    unit: Literal["milli", "whole"]
    allocatable: int
    used: int
    free: int
    unhealthy: int = 0
    pods: Sequence[PodAmount] = ()
    hidden_pods: int = 0


class NodeRecord(msgspec.Struct, frozen=True):
    """A node; its taints are as kubectl prints them."""

    node: str
    unschedulable: bool
    taints: Sequence[str]
    amounts: Sequence[NodeAmount]


class ResourceRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A resource over all nodes that have some.

    `most` is the largest free amount on one node, and `untouched` the number of nodes of which nothing is used.
    """

    resource: str
    unit: Literal["milli", "whole"]
    nodes: int
    allocatable: int
    used: int
    free: int
    most: int
    untouched: int

    def describe(self) -> str:
        """Return how what is free is scattered."""
        free, allocatable, most = (
            format_amount(self.resource, amount) for amount in (self.free, self.allocatable, self.most)
        )
        return (
            f"{free} of {allocatable} {self.resource} free on {self.nodes} node{'s' * (self.nodes != 1)}, at most "
            f"{most} on one; {self.untouched} with nothing used"
        )


class HoldingClaim(msgspec.Struct, frozen=True):
    """A claim that has a device, and the pods that it is reserved for."""

    claim: str
    pods: Sequence[str]


class DeviceRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A device, the claims that have it, and the taints that keep claims from it."""

    device: str
    taints: Sequence[str]
    claims: Sequence[HoldingClaim]
    hidden_claims: int


class PoolRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A pool of devices by driver and name, the first node that reaches it, and the number of all such nodes.

    `problem` is why nothing is allocated from it.
    """

    pool: str
    node: str
    nodes: int
    problem: str | None
    devices: Sequence[DeviceRecord]


class ShapeRecord(msgspec.Struct, frozen=True):
    """A shape of nodes that may come: at most `most`, null without a limit. It is `found` if it is that of a pool."""

    shape: str
    most: int | None
    found: bool
    amounts: Mapping[str, int]


class AskNodes(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes, from the state at `revision`; `pools` are null while devices are not known."""

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskNodes"]
    revision: str | None
    as_of: str
    resources: Sequence[ResourceRecord]
    nodes: Sequence[NodeRecord]
    pools: Sequence[PoolRecord] | None
    shapes: Sequence[ShapeRecord]


def describe_nodes(
    state: ClusterState,
    policies: PolicySet,
    as_of: datetime,
    visible: VisibleNames,
    check_time: Callable[[], None] = lambda: None,
) -> AskNodes:
    """Return the nodes by name; `as_of` is the time up to which the state is known."""
    cluster = state.require_columns()
    nodes = []
    for index in sorted(cluster.nodes.get_indices().tolist(), key=cluster.nodes.get_name):
        check_time()
        nodes.append(_describe_node(cluster, index, visible))
    revision = state.find_revision()
    return AskNodes(
        API_VERSION,
        "AskNodes",
        None if revision is None else str(revision),
        format_time(as_of),
        list(_sum_resources(nodes)),
        nodes,
        _list_pools(state, visible, check_time),
        list(_list_shapes(cluster, policies)),
    )


def _describe_node(cluster: Cluster, index: int, visible: VisibleNames) -> NodeRecord:
    columns, pods = cluster.nodes, cluster.get_node_pods(index)
    allocatable, used = columns.get_allocatable(index), columns.get_used(index)
    names = {*_ALWAYS, *filter(is_extended, (*allocatable, *used))}
    amounts = []
    for name in sorted(names, key=lambda name: (not is_extended(name), name)):
        has, uses = allocatable.get(name, 0), len(pods) if name == "pods" else used.get(name, 0)
        unhealthy = columns.find_unhealthy_column(name)
        shown, hidden = _list_users(name, pods.values(), visible) if is_extended(name) else ((), 0)
        amounts.append(
            NodeAmount(
                name,
                "milli" if is_milli(name) else "whole",
                has,
                uses,
                max(has - uses, 0),
                0 if unhealthy is None else int(unhealthy.array[index]),
                shown,
                hidden,
            )
        )
    taints = columns.taints.value(index) or ()
    texts = [f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints]
    return NodeRecord(columns.get_name(index), bool(columns.unschedulable[index]), texts, amounts)


def _list_users(name: str, pods: Iterable[PodInfo], visible: VisibleNames) -> tuple[Sequence[PodAmount], int]:
    """Return the pods that use most of a resource, and the number of the others that use it."""
    users = [PodAmount(pod.namespace, pod.name, pod.group.requests[name]) for pod in pods if name in pod.group.requests]
    shown = nlargest(
        MAX_HOLDERS, filter(lambda user: visible.shows(user.namespace), users), key=lambda user: user.amount
    )
    return shown, len(users) - len(shown)


def _sum_resources(nodes: Iterable[NodeRecord]) -> Iterator[ResourceRecord]:
    by_name: dict[str, list[NodeAmount]] = {}
    for node in nodes:
        for amount in node.amounts:
            if amount.allocatable:
                by_name.setdefault(amount.resource, []).append(amount)
    for name in sorted(by_name, key=lambda name: (not is_extended(name), name)):
        amounts = by_name[name]
        yield ResourceRecord(
            name,
            amounts[0].unit,
            len(amounts),
            sum(amount.allocatable for amount in amounts),
            sum(amount.used for amount in amounts),
            sum(amount.free for amount in amounts),
            max(amount.free for amount in amounts),
            sum(not amount.used for amount in amounts),
        )


def _list_pools(
    state: ClusterState, visible: VisibleNames, check_time: Callable[[], None]
) -> Sequence[PoolRecord] | None:
    """Return each pool once, with the devices that its first node reaches."""
    cluster = state.require_columns()
    if cluster.devices is None or not state.knows(kinds.SLICES):
        return None
    found: dict[tuple[str, tuple[str, ...]], tuple[str, NodePool, int]] = {}
    for node, pool in list_pools_of_nodes(cluster):
        check_time()
        key = pool.name, tuple(device.name for device in pool.devices)
        first = found.get(key, (node, pool, 0))
        found[key] = first[0], first[1], first[2] + 1
    return [_convert_pool(node, pool, nodes, visible) for node, pool, nodes in found.values()]


def _convert_pool(node: str, pool: NodePool, nodes: int, visible: VisibleNames) -> PoolRecord:
    devices = []
    for device in pool.devices:
        claims = [
            HoldingClaim(holder.claim, holder.pods)
            for holder in device.holders
            if holder.claim and visible.shows(holder.claim.partition("/")[0])
        ]
        devices.append(DeviceRecord(device.name, device.taints, claims, len(device.holders) - len(claims)))
    return PoolRecord(pool.name, node, nodes, pool.problem or None, devices)


def _list_shapes(cluster: Cluster, policies: PolicySet) -> Iterator[ShapeRecord]:
    for shape in merge_shapes(policies.node_shapes, cluster.pools.list_shapes()):
        amounts = {name: shape.get_amount(name) for name in shape.resources}
        yield ShapeRecord(shape.name, shape.most, shape.is_found, amounts)
