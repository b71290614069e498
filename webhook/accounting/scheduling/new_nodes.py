"""New nodes: whether a pod could run on nodes that do not exist yet, and how many of them its copies would need.

A new node is put into the cluster for one trial and removed again, so that the filters are those of real nodes. It has
no pods and no devices: for a pod that needs devices the result is unknown, unless labels, taints or amounts exclude the
node. A new node gives no verdict about the present.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.columns import NodeIndices
from tallygate.webhook.accounting.node_shape import NodeShape
from tallygate.webhook.accounting.scheduling.diagnosis import Diagnosis
from tallygate.webhook.accounting.scheduling.filters import run_filters
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.placement import (
    count_max_copies,
    count_max_pods,
    is_independent,
    open_placement_session,
)
from tallygate.webhook.accounting.scheduling.prediction import mask_unresolvable_without_devices
from tallygate.webhook.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring

MAX_NEW_NODES = 100
"""The new nodes of one shape that a trial adds one by one, for copies with constraints on each other."""

_UNKNOWN_DEVICES = "a shape has no devices, and the pod needs some"
_COPY_NAME = "copy on new nodes"


@dataclass(frozen=True, slots=True)
class NewNodeFit:
    """Whether the copies without a node would fit on new nodes of a shape.

    Of `count` copies, `copies` would fit on `node_count` new nodes together. If none would, `reasons` are those of the
    scheduler for a new node, and `unknown` is the reason why there is no result. If `is_cut`, further new nodes were
    not tried.
    """

    shape: NodeShape
    count: int
    copies: int = 0
    node_count: int = 0
    reasons: tuple[str, ...] = ()
    unknown: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class NewNodeCapacity:
    """The copies that would fit on the first new node of a shape, after the existing nodes are full.

    `unknown` is the reason why that is not known.
    """

    shape: NodeShape
    copies: int
    unknown: str = ""


def select_shapes(pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape]) -> list[NodeShape]:
    """Return the shapes whose labels, taints and amounts suffice for a pod, regardless of other pods and of devices."""
    if not shapes:
        return []
    with _add_new_nodes(cluster, shapes) as nodes:
        is_excluded = mask_unresolvable_without_devices(pod, cluster, nodes).tolist()
    return [shape for shape, excluded in zip(shapes, is_excluded, strict=True) if not excluded]


def fits_new_node(pod: IncomingPod, cluster: Cluster, shape: NodeShape) -> bool:
    """Return whether one pod would fit on a new node beside the pods of the cluster; False if that is unknown.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    with _add_new_nodes(cluster, [shape]) as nodes:
        return not _lacks_devices(pod, cluster, shape) and bool(len(run_filters(pod, cluster, nodes).feasible))


def find_new_node_fits(
    pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape], count: int, scoring: Scoring = DEFAULT_SCORING
) -> tuple[NewNodeFit, ...]:
    """Return for each shape by itself whether `count` copies, for which no node has room, fit on new nodes.

    The cluster is unchanged afterwards.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    return tuple(_find_fit(pod, cluster, shape, count, scoring) for shape in shapes)


def find_new_node_capacities(
    pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape]
) -> tuple[NewNodeCapacity, ...]:
    """Return for each shape the copies that would fit on a new node after the existing nodes are full.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    return tuple(_find_capacity(pod, cluster, shape) for shape in shapes)


def _find_fit(pod: IncomingPod, cluster: Cluster, shape: NodeShape, count: int, scoring: Scoring) -> NewNodeFit:
    with _add_new_nodes(cluster, [shape]) as nodes:
        if mask_unresolvable_without_devices(pod, cluster, nodes).any():
            return NewNodeFit(shape, count, reasons=_list_reasons(run_filters(pod, cluster, nodes)))
        if _lacks_devices(pod, cluster, shape):
            return NewNodeFit(shape, count, unknown=_UNKNOWN_DEVICES)
        diagnosis = run_filters(pod, cluster, nodes)
        if not len(diagnosis.feasible):
            return NewNodeFit(shape, count, reasons=_list_reasons(diagnosis))
        if is_independent(pod):
            copies_per_node = int(count_max_copies(pod, cluster, nodes)[0])
            needed = -(-count // copies_per_node)
            node_count = needed if shape.most is None else min(needed, shape.most)
            return NewNodeFit(shape, count, min(count, copies_per_node * node_count), node_count)
    return _place_on_new_nodes(pod, cluster, shape, count, scoring)


def _place_on_new_nodes(
    pod: IncomingPod, cluster: Cluster, shape: NodeShape, count: int, scoring: Scoring
) -> NewNodeFit:
    """Place copies with constraints on each other: a new node comes whenever no node has room for the next copy.

    A copy may then find room on an existing node, too, as constraints on topologies change with each new node.
    """
    max_nodes = MAX_NEW_NODES if shape.most is None else min(MAX_NEW_NODES, shape.most)
    placed_count = node_count = 0
    new_names: list[str] = []
    try:
        with open_placement_session(cluster, scoring, _COPY_NAME) as session:
            while placed_count < count and node_count < max_nodes:
                new_names.append(_put_new_node(cluster, shape, node_count + 1))
                placed = session.place(pod, count - placed_count, run_filters(pod, cluster)).nodes
                if not placed:
                    break
                node_count += 1
                placed_count += len(placed)
    finally:
        for name in new_names:
            cluster.remove_node(name)
    is_cut = placed_count < count and node_count == MAX_NEW_NODES != shape.most
    return NewNodeFit(shape, count, placed_count, node_count, is_cut=is_cut)


def _find_capacity(pod: IncomingPod, cluster: Cluster, shape: NodeShape) -> NewNodeCapacity:
    if _lacks_devices(pod, cluster, shape):
        return NewNodeCapacity(shape, 0, _UNKNOWN_DEVICES if select_shapes(pod, cluster, [shape]) else "")
    if is_independent(pod):
        with _add_new_nodes(cluster, [shape]) as nodes:
            feasible = run_filters(pod, cluster, nodes).feasible
            return NewNodeCapacity(shape, int(count_max_copies(pod, cluster, feasible).sum()))
    name = ""
    try:
        with open_placement_session(cluster, name=_COPY_NAME) as session:
            session.place(pod, count_max_pods(cluster), run_filters(pod, cluster))
            name = _put_new_node(cluster, shape, 1)
            return NewNodeCapacity(
                shape, len(session.place(pod, count_max_pods(cluster), run_filters(pod, cluster)).nodes)
            )
    finally:
        cluster.remove_node(name)


def _lacks_devices(pod: IncomingPod, cluster: Cluster, shape: NodeShape) -> bool:
    """Return whether a pod needs devices on a new node: by claims, or since the shape lacks what a class backs."""
    find_class = cluster.device_classes.find_class
    return bool(pod.spec.resource_claims) or any(
        find_class(name) is not None and not shape.advertises(name) for name in pod.requests
    )


def _list_reasons(diagnosis: Diagnosis) -> tuple[str, ...]:
    if diagnosis.pre_filter_status is not None:
        return (diagnosis.pre_filter_status.reason,)
    return tuple(sorted(diagnosis.count_reasons()))


@contextmanager
def _add_new_nodes(cluster: Cluster, shapes: Sequence[NodeShape]) -> Iterator[NodeIndices]:
    """Yield the indices of new nodes, one of each shape in order, which are removed on exit."""
    names: list[str] = []
    try:
        names.extend(_put_new_node(cluster, shape, 1) for shape in shapes)
        indices = [index for name in names if (index := cluster.nodes.find_index(name)) is not None]
        yield np.array(indices, dtype=np.intp)
    finally:
        for name in names:
            cluster.remove_node(name)


def _put_new_node(cluster: Cluster, shape: NodeShape, number: int) -> str:
    node = shape.create_node(number)
    cluster.put_node(node)
    return (node.metadata.name if node.metadata else None) or ""
