"""Nodes that may come, by the shapes of policies and of pools: rules count them, but never as nodes of today.

A pool may have nodes of several sizes, or none that is known: then a rule does not exclude what is not known.
"""

from collections.abc import Sequence
from functools import cached_property

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import find_fitting, select_shapes

_MAX_TRIED_SHAPES = 3  # each one takes as long as the filters for all nodes


class PossibleNodes:
    """The nodes that may come to a cluster, by written shapes and those of its pools, for the pods of one review.

    Without `are_pools_known`, any node may come. `deciding_pool` is the pool because of which alone `may_run` was true,
    and of which no amount is known.
    """

    def __init__(self, cluster: Cluster, shapes: Sequence[NodeShape], *, are_pools_known: bool = True) -> None:
        self._cluster, self._written, self._are_pools_known = cluster, shapes, are_pools_known
        self.deciding_pool = ""

    @cached_property
    def shapes(self) -> Sequence[NodeShape]:
        """The written shapes, and those of pools without a written one."""
        return merge_shapes(self._written, self._cluster.pools.list_shapes())

    def find_advertising(self, resource: str) -> str:
        """Return the name of the first shape that has some of a resource; empty if none has."""
        return next((shape.name for shape in self.shapes if shape.get_amount(resource)), "")

    def list_resources(self) -> frozenset[str]:
        """Return the names of the resources that a shape has some of."""
        return frozenset(name for shape in self.shapes for name in shape.resources)

    def may_run(self, pod: IncomingPod) -> bool:
        """Return whether a new node may run a pod, regardless of other pods."""
        selected = select_shapes(pod, self._cluster, self.shapes)
        self.deciding_pool = selected[0].name if selected and all(shape.is_unsized for shape in selected) else ""
        return bool(selected) or not self._are_pools_known

    def find_unsized(self, pod: IncomingPod) -> str:
        """Return the name of the first pool that may run a pod and has no known amount; empty without one."""
        unsized = [shape for shape in self.shapes if shape.is_unsized]
        return next((shape.name for shape in select_shapes(pod, self._cluster, unsized)), "")

    def describe_largest(self, name: str, largest: int) -> str:
        """Return the words on the largest amount that a node has, and on the shape that has most, if it has more."""
        text = f"the largest node has {format_amount(name, largest)}" if largest else "no node has any"
        shape = max(self.shapes, key=lambda each: each.get_amount(name), default=None)
        if shape is None or shape.get_amount(name) <= largest:
            return text
        return f"{text}, a new node of shape {shape.name} has {format_amount(name, shape.get_amount(name))}"

    def describe_fit(self, pod: IncomingPod) -> str:
        """Return the words on the first shape of which a new node would fit a pod; empty if none of a few would.

        Raises:
            QuantityError: if the size of a claim or volume is invalid.
        """
        shapes = select_shapes(pod, self._cluster, self.shapes)[:_MAX_TRIED_SHAPES]
        fitting = (find_fitting(pod, self._cluster, shape) for shape in shapes)
        shape = next((fit for fit in fitting if fit is not None), None)
        return f"; a new node of shape {shape} would fit" if shape else ""


def describe_unsized(pool: str) -> str:
    """Return the words on a pool of which no node is known, and on the remedy."""
    remedy = f"a NodeShape {pool.partition('/')[2]} among the policies describes them"
    return f"nodes of {pool}, of which none was seen, may: {remedy}"
