"""Nodes that may come, by the shapes of policies: the checks of rules count them, but never as nodes of today.

A node of a pool of Karpenter is an example of others: they may be larger, so that a rule does not exclude them.
"""

from collections.abc import Sequence

from tallygate.webhook.accounting.amounts import format_amount
from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.node_pools import list_pool_examples, merge_shapes
from tallygate.webhook.accounting.node_shape import NodeShape
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.new_nodes import fits_new_node, select_shapes

_MAX_TRIED_SHAPES = 3  # each one takes as long as the filters for all nodes


class PossibleNodes:
    """The nodes that may come to a cluster, by their shapes."""

    def __init__(self, cluster: Cluster, shapes: Sequence[NodeShape]) -> None:
        self._cluster, self._shapes = cluster, shapes

    def find_advertising(self, resource: str) -> str:
        """Return the name of the first shape that has some of a resource; empty if none has."""
        return next((each.name for each in self._shapes if each.get_amount(resource)), "")

    def list_resources(self) -> frozenset[str]:
        """Return the names of the resources that a shape has some of."""
        return frozenset(name for each in self._shapes for name in each.resources)

    def may_run(self, pod: IncomingPod) -> bool:
        """Return whether a new node of a shape, or of a pool of Karpenter, may run a pod, regardless of other pods."""
        shapes = merge_shapes(self._shapes, list_pool_examples(self._cluster.nodes))
        return bool(select_shapes(pod, self._cluster, shapes))

    def describe_largest(self, name: str, largest: int) -> str:
        """Return the words on the largest amount that a node has, and on the shape that has most, if it has more."""
        text = f"the largest node has {format_amount(name, largest)}" if largest else "no node has any"
        shape = max(self._shapes, key=lambda each: each.get_amount(name), default=None)
        if shape is None or shape.get_amount(name) <= largest:
            return text
        return f"{text}, a new node of shape {shape.name} has {format_amount(name, shape.get_amount(name))}"

    def describe_fit(self, pod: IncomingPod) -> str:
        """Return the words on the first shape of which a new node would fit a pod; empty if none of a few would.

        Raises:
            QuantityError: if the size of a claim or volume is invalid.
        """
        shapes = select_shapes(pod, self._cluster, self._shapes)[:_MAX_TRIED_SHAPES]
        shape = next((each for each in shapes if fits_new_node(pod, self._cluster, each)), None)
        return f"; a new node of shape {shape} would fit" if shape else ""
