"""The number of further copies of a pod that fit, on each node and in all, and the limiting reasons.

Copies in a PodGroup count by themselves, beside the pods of the group that have a node. Where these and the copies
are fewer than the quorum, the message says so: then none starts before other pods of the group do.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.pod_groups import find_group_key
from tallygate.accounting.node_fit import UnhealthyDevices
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.diagnosis import Diagnosis, format_fit_error, format_reason_counts
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import NewNodeCapacity, find_new_node_capacities
from tallygate.accounting.scheduling.node_choice import find_bind_errors
from tallygate.accounting.scheduling.node_diagnosis import list_unhealthy_devices
from tallygate.accounting.scheduling.placement import (
    count_max_copies,
    count_max_pods,
    get_free_amounts,
    needs_amounts_only,
    open_placement_session,
)
from tallygate.accounting.scheduling.plugins.node_resources_fit import NO_FREE_PORTS
from tallygate.accounting.scheduling.pod_group_cycle import (
    GroupCycle,
    find_group_problem,
    find_hold_reason,
    get_quorum,
)
from tallygate.accounting.scheduling.prediction import find_unmodelled
from tallygate.accounting.scheduling.scoring import ExactIntegerArray

_PODS = "pods"


@dataclass(frozen=True, slots=True)
class RemainingCapacity:
    """The number of copies by node, without zeros; `message` is the fit error of the next copy.

    The message is the first part of the scheduler's own. `limiting_reasons` has the number of nodes for each reason.
    `unmodelled` names the features that were not evaluated. `new_nodes` has the copies on new nodes, by shape, and
    `unhealthy` the unhealthy devices of the resources.
    """

    copies_by_node: Mapping[str, int]
    message: str
    limiting_reasons: Mapping[str, int] = field(default_factory=dict)
    unmodelled: tuple[str, ...] = ()
    new_nodes: tuple[NewNodeCapacity, ...] = ()
    unhealthy: tuple[UnhealthyDevices, ...] = ()

    @property
    def total(self) -> int:
        """The number of copies on all nodes together."""
        return sum(self.copies_by_node.values())


def compute_remaining_capacity(
    pod: IncomingPod,
    cluster: Cluster,
    shapes: Sequence[NodeShape] = (),
    check_time: Callable[[], None] = lambda: None,
) -> RemainingCapacity:
    """Return the number of copies of a pod that fit, and for each shape the number that would on a new node.

    `check_time` is called before each copy and each trial, and may raise. The cluster is unchanged afterwards.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
        SelectorError: if a claim has an invalid selector.
    """
    if needs_amounts_only(pod, cluster):
        copies_by_node, diagnosis, reason_counts, bind_error = _count_independent(pod, cluster)
    else:
        copies_by_node, diagnosis, reason_counts, bind_error = _count_by_placement(pod, cluster, check_time)
    message = bind_error or (
        format_fit_error(diagnosis)
        if diagnosis.pre_filter_status or not len(diagnosis.nodes)
        else format_reason_counts(len(diagnosis.nodes), reason_counts)
    )
    key = find_group_key(pod.pod)
    in_group = key is not None and not find_group_problem(pod, cluster)
    if key is not None and in_group and (missing := _find_group_shortage(key, cluster, sum(copies_by_node.values()))):
        message = f"{message} {missing}"
    return RemainingCapacity(
        copies_by_node,
        message,
        dict(reason_counts.most_common()),
        tuple(find_unmodelled(pod, cluster, in_group_cycle=in_group)),
        find_new_node_capacities(pod, cluster, shapes, check_time),
        list_unhealthy_devices(pod, cluster),
    )


def _find_group_shortage(key: tuple[str, str], cluster: Cluster, copies: int) -> str:
    """Return the scheduler's message about a PodGroup for which too few pods fit; empty if enough do."""
    groups = cluster.pod_groups
    group = groups.find(key)
    if group is None:
        return find_hold_reason(group, key[1], 0)
    cycle = GroupCycle(get_quorum(group), len(groups.list_placed(key)) + copies, 0)
    return "" if cycle.may_succeed else cycle.shortage


class _Count(NamedTuple):
    """The copies by node, and why the next one has none: its diagnosis, reasons, and the error of its binding."""

    copies_by_node: Mapping[str, int]
    diagnosis: Diagnosis
    reason_counts: Counter[str]
    bind_error: str = ""


def _count_independent(pod: IncomingPod, cluster: Cluster) -> _Count:
    """Count independent copies: the free amounts of each node give its number."""
    diagnosis = run_filters(pod, cluster)
    feasible = diagnosis.feasible
    capacity = count_max_copies(pod, cluster, feasible)
    copies_by_node = {
        cluster.nodes.get_name(node_index): int(copies)
        for node_index, copies in zip(feasible.tolist(), capacity, strict=True)
    }
    reason_counts = diagnosis.count_reasons()
    for reason, rejected in _find_next_shortfalls(pod, cluster, feasible, capacity):
        reason_counts[reason] += int(rejected.sum())
    return _Count(copies_by_node, diagnosis, +reason_counts)


def _count_by_placement(pod: IncomingPod, cluster: Cluster, check_time: Callable[[], None]) -> _Count:
    with open_placement_session(cluster, check_time=check_time) as session:
        placement = session.place(pod, count_max_pods(cluster), run_filters(pod, cluster))
        diagnosis = placement.unplaced or run_filters(pod, cluster)
        bind_error = next(iter(find_bind_errors(pod, cluster, diagnosis.feasible).values()), "")
    copies_by_node = Counter(cluster.nodes.get_name(node_index) for node_index in placement.nodes)
    return _Count(dict(copies_by_node), diagnosis, +diagnosis.count_reasons(), bind_error)


def _find_next_shortfalls(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, capacity: ExactIntegerArray
) -> Iterator[tuple[str, Mask]]:
    """Yield the reasons of the nodes for one copy more than fits, and their masks."""
    if pod.ports:
        yield NO_FREE_PORTS, np.ones(len(nodes), dtype=np.bool_)
        return
    yield "Too many pods", _mask_short(cluster, pod, nodes, _PODS, capacity + 1)
    for name, requested in pod.requests.items():
        yield f"Insufficient {name}", _mask_short(cluster, pod, nodes, name, (capacity + 1) * requested)


def _mask_short(cluster: Cluster, pod: IncomingPod, nodes: NodeIndices, name: str, needed: ExactIntegerArray) -> Mask:
    free = get_free_amounts(cluster, nodes, name)
    for node_index, nominated in cluster.get_nominated_pods().items():
        nominated_pods = [
            pods_of_node
            for pods_of_node in nominated.values()
            if pods_of_node.group.priority >= pod.priority and pods_of_node.uid != pod.uid
        ]
        nominated_amount = (
            len(nominated_pods)
            if name == _PODS
            else sum(other_pod.group.requests.get(name, 0) for other_pod in nominated_pods)
        )
        free = np.where(nodes == node_index, free - nominated_amount, free)
    return np.asarray(free < needed, dtype=np.bool_)
