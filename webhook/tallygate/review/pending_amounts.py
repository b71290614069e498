"""Amounts that NodeResources will publish: a resource counts as advertised before the gate has written it.

The gate writes within seconds. The range of addresses, the annotations and the written capacity of a node are not in
the columns of a cluster, so that an amount from these is not known, and may suffice.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.prediction import find_largest_amounts
from tallygate.objects.owned_nodes import OwnedNode, OwnedNodeMeta
from tallygate.policy.node_resources import NodeResource, PublishedAmount, compute_amount


class PendingAmounts:
    """The amounts that NodeResources give the nodes of a cluster, and new nodes of shapes."""

    def __init__(
        self, cluster: Cluster, shapes: Sequence[NodeShape] = (), definitions: Sequence[NodeResource] = ()
    ) -> None:
        self._cluster, self._shapes, self._definitions = cluster, shapes, definitions

    def find_publisher(self, resource: str, amount: int = 1) -> str:
        """Return the name of the first NodeResource that may give a node this amount; empty if none does."""
        for node_resource in self._definitions:
            definition = node_resource.resources.get(resource)
            if definition is not None and any(
                node_resource.nodes.matches(labels) and _may_give(labels, definition, amount)
                for labels in self._list_labels()
            ):
                return node_resource.name
        return ""

    def list_resources(self) -> frozenset[str]:
        """Return the names that a NodeResource gives to some nodes, which may not exist."""
        return frozenset(name for definition in self._definitions for name in definition.resources)

    def remove_from(self, pod: IncomingPod) -> IncomingPod:
        """Return a pod without the requests that no node fulfils until its amount is published.

        The result is the same object if there are none.
        """
        if not self._definitions:
            return pod
        pending = [
            name for name in find_largest_amounts(pod, self._cluster) if self.find_publisher(name, pod.requests[name])
        ]
        if not pending:
            return pod
        return replace(pod, requests=Amounts({name: pod.requests[name] for name in pod.requests.keys() - pending}))

    def _list_labels(self) -> Iterator[Mapping[str, str]]:
        nodes = self._cluster.nodes
        yield from map(nodes.get_labels, nodes.get_indices().tolist())
        yield from (shape.labels for shape in self._shapes)


def _may_give(labels: Mapping[str, str], definition: int | PublishedAmount, amount: int) -> bool:
    """Return whether a node with these labels gets at least this amount, or that is not known."""
    if isinstance(definition, PublishedAmount) and definition.label is None:
        return True
    try:
        given = compute_amount(OwnedNode(OwnedNodeMeta(labels=dict(labels))), definition)
    except (QuantityError, ValueError):
        return False
    return given is not None and given >= amount
