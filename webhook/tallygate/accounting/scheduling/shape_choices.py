"""The shapes that a shape stands for where a pool may choose the value of a label: one for each possible value.

Only labels that a pod names matter for it. Of a combination of labels that decides the amounts, such as the type of the
machine, they are known by a node that has it, and unknown without one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from msgspec.structs import replace

from tallygate.accounting.cluster.pool_shapes import INSTANCE_TYPE, has_size
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.node_eligibility import get_required_affinity

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
    """Return the shape of a new node with these labels."""
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
