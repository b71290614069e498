"""New nodes: whether a pod could run on nodes that do not exist yet, and how many of them its copies would need.

A new node is put into the cluster for one trial and removed again, so that the filters are those of real nodes. It has
no pods and no devices. The result is unknown for a pod that needs devices, that names a label whose value is open, or
that is too large for the example of a shape, unless something else excludes the node. Where a pool may choose the value
of a label that the pod names, a new node of each is tried (`shape_choices`). A new node gives no verdict about the
present.

The shapes that a shape stands for where a pool may choose the value of a label: one for each possible value.

Only labels that a pod names matter for it. Of a combination of labels that decides the amounts, such as the type of the
machine, they are known by a node that has it, and unknown without one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from math import prod

import msgspec
import numpy as np
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.pool_shapes import INSTANCE_TYPE, has_size
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.diagnosis import Diagnosis
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import (
    count_max_copies,
    count_max_pods,
    is_independent,
    open_placement_session,
)
from tallygate.accounting.scheduling.plugins.node_eligibility import get_required_affinity
from tallygate.accounting.scheduling.prediction import mask_unresolvable_without_devices
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring
from tallygate.objects.scheduling import SchedulingPodSpec

MAX_NEW_NODES = 100
"""The new nodes of one shape that a trial adds one by one, for copies with constraints on each other."""

_MAX_ALTERNATIVES = 200  # of all shapes together, for a rule: 0.2 ms each; of further shapes the labels stay open
_MAX_TRIED_CHOICES = 8  # of one shape, for a rule

_UNKNOWN_DEVICES = "a shape has no devices, and the pod needs some"
_UNKNOWN_SIZE = "it is an example of its pool, whose other nodes may be larger"
_UNSIZED = "no such node has been seen, so its amounts are not known"
_COPY_NAME = "copy on new nodes"


@dataclass(frozen=True, slots=True)
class NewNodeFit:
    """Whether the copies without a node would fit on new nodes of a shape.

    Of `count` copies, `copies` would fit on `node_count` new nodes together. If none would, `reasons` are those of the
    scheduler for a new node, and `unknown` is the reason why there is no result. If `is_cut`, further new nodes were
    not tried. `chosen` are the values of labels that the pool chooses for the new nodes, with the number of nodes.
    """

    shape: NodeShape
    count: int
    copies: int = 0
    node_count: int = 0
    reasons: tuple[str, ...] = ()
    unknown: str = ""
    is_cut: bool = False
    chosen: tuple[tuple[Mapping[str, str], int], ...] = ()


@dataclass(frozen=True, slots=True)
class NewNodeCapacity:
    """The copies that would fit on the first new node of a shape, after the existing nodes are full.

    `unknown` is the reason why that is not known.
    """

    shape: NodeShape
    copies: int
    unknown: str = ""


def select_shapes(pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape]) -> list[NodeShape]:
    """Return the shapes whose labels, taints and amounts suffice for a pod, regardless of other pods and of devices.

    A shape for which the result is unknown is among them.
    """
    alternatives: list[tuple[NodeShape, NodeShape]] = []
    for shape in shapes:
        found = list_alternatives(pod, shape)
        tried = found if len(alternatives) + len(found) <= _MAX_ALTERNATIVES else (shape,)
        alternatives += ((shape, alternative) for alternative in tried)
    is_excluded = _mask_excluded(pod, cluster, [each for _, each in alternatives])
    selected = {
        shape.name
        for (shape, choice), excluded in zip(alternatives, is_excluded, strict=True)
        if not excluded or _find_unknown(pod, cluster, choice)
    }
    return [shape for shape in shapes if shape.name in selected]


def find_fitting(pod: IncomingPod, cluster: Cluster, shape: NodeShape) -> NodeShape | None:
    """Return the shape, with its chosen labels, if one pod would fit on a new node besides the pods of the cluster.

    Return None if that is unknown, or if it fits with none of a few choices.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    alternatives = list_alternatives(pod, shape)
    is_excluded = _mask_excluded(pod, cluster, alternatives)
    possible = [alternative for alternative, excluded in zip(alternatives, is_excluded, strict=True) if not excluded]
    for possible_shape in possible[:_MAX_TRIED_CHOICES]:
        if not _find_unknown(pod, cluster, possible_shape):
            with _add_new_nodes(cluster, [possible_shape]) as nodes:
                if len(run_filters(pod, cluster, nodes).feasible):
                    return possible_shape
    return None


def _mask_excluded(pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape]) -> list[bool]:
    """Return for each shape whether its labels, taints and amounts exclude a pod."""
    if not shapes:
        return []
    with _add_new_nodes(cluster, shapes) as nodes:
        is_excluded: list[bool] = mask_unresolvable_without_devices(pod, cluster, nodes).tolist()
    return is_excluded


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
    pod: IncomingPod,
    cluster: Cluster,
    shapes: Sequence[NodeShape],
    check_time: Callable[[], None] = lambda: None,
) -> tuple[NewNodeCapacity, ...]:
    """Return for each shape the copies that would fit on a new node after the existing nodes are full.

    `check_time` is called before each trial and each copy, and may raise.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    return tuple(_find_capacity(pod, cluster, shape, check_time) for shape in shapes)


def _find_fit(pod: IncomingPod, cluster: Cluster, shape: NodeShape, count: int, scoring: Scoring) -> NewNodeFit:
    """Return the fit of the alternative with most copies; without a copy, the first reason why that is unknown."""
    all_reasons = [
        (alternative, _find_unknown(pod, cluster, alternative)) for alternative in list_alternatives(pod, shape)
    ]
    known = [found_reason for found_reason, unknown in all_reasons if not unknown]
    fits = [_find_first_fit(pod, cluster, reason, count) for reason in known]
    feasible = [reason for reason, fit in zip(known, fits, strict=True) if fit.copies]
    if feasible:
        if is_independent(pod):
            return max(fits, key=lambda each: each.copies)
        return _place_on_new_nodes(pod, cluster, feasible, count, scoring)
    if unknown := next((reason for _, reason in all_reasons if reason), ""):
        return NewNodeFit(shape, count, unknown=unknown)
    return NewNodeFit(shape, count, reasons=tuple(sorted({reason for fit in fits for reason in fit.reasons})))


def _find_first_fit(pod: IncomingPod, cluster: Cluster, shape: NodeShape, count: int) -> NewNodeFit:
    """Return the fit on new nodes of a shape, for copies with constraints on each other that of the first one."""
    with _add_new_nodes(cluster, [shape]) as nodes:
        diagnosis = run_filters(pod, cluster, nodes)
        if not len(diagnosis.feasible):
            return NewNodeFit(shape, count, reasons=_list_reasons(diagnosis))
        if not is_independent(pod):
            return NewNodeFit(shape, count, 1, 1)
        copies_per_node = int(count_max_copies(pod, cluster, nodes)[0])
    needed = -(-count // copies_per_node)
    node_count = needed if shape.most is None else min(needed, shape.most)
    chosen = ((shape.chosen, node_count),) if shape.chosen else ()
    return NewNodeFit(shape, count, min(count, copies_per_node * node_count), node_count, chosen=chosen)


def _place_on_new_nodes(
    pod: IncomingPod, cluster: Cluster, shapes: Sequence[NodeShape], count: int, scoring: Scoring
) -> NewNodeFit:
    """Place copies with constraints on each other: a new node comes whenever no node has room for the next copy.

    It is of the first alternative that gets a copy. A copy may then find room on an existing node, too, as constraints
    on topologies change with each new node.
    """
    limits = [shape.most for shape in shapes if shape.most is not None]
    most = max(limits) if len(limits) == len(shapes) else None
    max_nodes = MAX_NEW_NODES if most is None else min(MAX_NEW_NODES, most)
    placed_count, chosen = 0, Counter[int]()
    new_names: list[str] = []
    try:
        with open_placement_session(cluster, scoring, _COPY_NAME) as session:
            while placed_count < count and chosen.total() < max_nodes:
                for shape in shapes:
                    new_names.append(_put_new_node(cluster, shape, len(new_names) + 1))
                    placed = len(session.place(pod, count - placed_count, run_filters(pod, cluster)).nodes)
                    if placed:
                        placed_count += placed
                        chosen[shapes.index(shape)] += 1
                        break
                    cluster.remove_node(new_names[-1])
                else:
                    break
    finally:
        for name in new_names:
            cluster.remove_node(name)
    node_count = chosen.total()
    is_cut = placed_count < count and node_count == MAX_NEW_NODES != most
    choices = tuple((shapes[number].chosen, nodes) for number, nodes in chosen.items() if shapes[number].chosen)
    named = shapes[next(iter(chosen))] if len(chosen) == 1 else replace(shapes[0], chosen={})
    return NewNodeFit(named, count, placed_count, node_count, is_cut=is_cut, chosen=choices)


def _find_capacity(
    pod: IncomingPod, cluster: Cluster, shape: NodeShape, check_time: Callable[[], None]
) -> NewNodeCapacity:
    """Return the capacity of the alternative with most copies; without a copy, the first reason why it is unknown."""
    found = [
        _find_alternative_capacity(pod, cluster, alternative, check_time)
        for alternative in list_alternatives(pod, shape)
    ]
    best = max(found, key=lambda each: each.copies)
    unknown = next((prediction.unknown for prediction in found if prediction.unknown), "")
    return best if best.copies else NewNodeCapacity(shape, 0, unknown)


def _find_alternative_capacity(
    pod: IncomingPod, cluster: Cluster, shape: NodeShape, check_time: Callable[[], None]
) -> NewNodeCapacity:
    check_time()
    if unknown := _find_unknown(pod, cluster, shape):
        return NewNodeCapacity(shape, 0, unknown)
    if is_independent(pod):
        with _add_new_nodes(cluster, [shape]) as nodes:
            feasible = run_filters(pod, cluster, nodes).feasible
            return NewNodeCapacity(shape, int(count_max_copies(pod, cluster, feasible).sum()))
    name = ""
    try:
        with open_placement_session(cluster, name=_COPY_NAME, check_time=check_time) as session:
            session.place(pod, count_max_pods(cluster), run_filters(pod, cluster))
            name = _put_new_node(cluster, shape, 1)
            return NewNodeCapacity(
                shape, len(session.place(pod, count_max_pods(cluster), run_filters(pod, cluster)).nodes)
            )
    finally:
        cluster.remove_node(name)


def _find_unknown(pod: IncomingPod, cluster: Cluster, shape: NodeShape) -> str:
    """Return the reason why a new node is unknown for a pod; empty if the filters decide.

    What is open cannot exclude the node; if something else does, nothing is unknown.
    """
    reasons, settled = [], pod
    if named := sorted(shape.open_labels & {*(pod.spec.node_selector or ()), *list_constraint_keys(pod)}):
        keys = ", ".join(named)
        too_many = f": it has more than {MAX_CHOICES} possible combinations" if shape.choices.keys() & named else ""
        reasons.append(f"the value of {keys} on a new node is not known{too_many}")
        settled = replace(settled, spec=_drop_open_constraints(pod, shape))
    if _lacks_devices(pod, cluster, shape):
        reasons.append(_UNKNOWN_DEVICES)
    if shape.is_unsized:
        reasons.append(_UNSIZED)
        settled = replace(settled, requests=Amounts({}))
    elif shape.is_example and any(shape.get_amount(name) < amount for name, amount in pod.requests.items()):
        reasons.append(_UNKNOWN_SIZE)
        lacking = {name: amount for name, amount in pod.requests.items() if not shape.advertises(name)}
        settled = replace(settled, requests=Amounts(lacking))
    if not reasons:
        return ""
    with _add_new_nodes(cluster, [shape]) as nodes:
        is_excluded = mask_unresolvable_without_devices(settled, cluster, nodes).any()
    return "" if is_excluded else "; ".join(reasons)


def _drop_open_constraints(pod: IncomingPod, shape: NodeShape) -> SchedulingPodSpec:
    """Return the spec of a pod without the selected labels that are open, and without affinity if that names one."""
    selector = {key: value for key, value in (pod.spec.node_selector or {}).items() if key not in shape.open_labels}
    is_open = any(key in shape.open_labels for key in list_constraint_keys(pod))
    return msgspec.structs.replace(
        pod.spec, node_selector=selector or None, affinity=None if is_open else pod.spec.affinity
    )


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
        names.extend(_put_new_node(cluster, shape, number) for number, shape in enumerate(shapes, 1))
        indices = [index for name in names if (index := cluster.nodes.find_index(name)) is not None]
        yield np.array(indices, dtype=np.intp)
    finally:
        for name in names:
            cluster.remove_node(name)


def _put_new_node(cluster: Cluster, shape: NodeShape, number: int) -> str:
    node = shape.create_node(number)
    cluster.put_node(node)
    return (node.metadata.name if node.metadata else None) or ""


MAX_CHOICES = 64
"""The combinations of values of one shape that are tried; with more of them the labels stay open."""

_DO_NOT_SCHEDULE = "DoNotSchedule"


def list_alternatives(pod: IncomingPod, shape: NodeShape) -> Sequence[NodeShape]:
    """Return a shape for each combination of the possible values of the labels that a pod names.

    If the pod names none of these labels, or if there are too many combinations, that is the shape itself.
    """
    values_by_label = _list_values(pod, shape)
    if not values_by_label or prod(map(len, values_by_label.values())) > MAX_CHOICES:
        return (shape,)
    combinations = product(*values_by_label.values())
    return tuple(_choose(shape, dict(zip(values_by_label, values, strict=True))) for values in combinations)


def list_constraint_keys(pod: IncomingPod) -> Iterator[str]:
    """Yield the keys of the labels of nodes in the required affinity of a pod, and in its constraints on topologies."""
    spec, affinity = pod.spec, pod.spec.affinity
    required = get_required_affinity(pod)
    for term in (required.node_selector_terms if required else None) or ():
        yield from (expression.key for expression in term.match_expressions or ())
    for constraint in spec.topology_spread_constraints or ():
        if constraint.when_unsatisfiable == _DO_NOT_SCHEDULE:
            yield constraint.topology_key
    for rule in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        terms = (rule.required_during_scheduling_ignored_during_execution if rule else None) or ()
        yield from (term.topology_key for term in terms)


def _list_values(pod: IncomingPod, shape: NodeShape) -> dict[str, Sequence[str]]:
    """Return the values to try for each label. The pod's own choice is enough, and any other excludes the node."""
    selector = pod.spec.node_selector or {}
    named = shape.choices.keys() & {*selector, *list_constraint_keys(pod)}
    if INSTANCE_TYPE in shape.choices and not shape.is_unsized and _is_too_large(pod, shape):
        named |= {INSTANCE_TYPE}
    values_by_label: dict[str, Sequence[str]] = {}
    for key in sorted(named):
        values = shape.choices[key]
        values_by_label[key] = (
            (selector[key],) if selector.get(key) in values else values[: 1 if key in selector else None]
        )
    return values_by_label


def _is_too_large(pod: IncomingPod, shape: NodeShape) -> bool:
    return any(shape.get_amount(name) < amount for name, amount in pod.requests.items())


def _choose(shape: NodeShape, labels: Mapping[str, str]) -> NodeShape:
    chosen = replace(
        shape,
        labels={**shape.labels, **labels},
        open_labels=shape.open_labels - labels.keys(),
        choices={},
        chosen=labels,
        is_example=shape.is_example and INSTANCE_TYPE not in labels,
    )
    deciding = {key: value for key, value in labels.items() if has_size(key)}
    if not deciding or shape.is_unsized:
        return chosen
    size = next((size for size in shape.sizes if deciding.items() <= size.labels.items()), None)
    if size is None:
        return replace(chosen, allocatable={}, most=None, is_unsized=True)
    return replace(chosen, allocatable=size.allocatable, most=size.most)
