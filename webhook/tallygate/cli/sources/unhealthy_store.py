"""The store of the unhealthy devices of nodes, with nothing else of a node."""

from collections.abc import Collection
from typing import NamedTuple

from tallygate.accounting.node_fit import UnhealthyDevices, iterate_unhealthy
from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects.core import Node
from tallygate.objects.meta import ObjectMeta
from tallygate.state.informers.named_stores import ObjectStore

NODES = "nodes"


class UnhealthyNodeRecord(NamedTuple):
    """A node and its unhealthy devices."""

    uid: str
    name: str
    revision: int
    devices: tuple[UnhealthyDevices, ...]
    namespace: str = ""

    @property
    def compared_value(self) -> object:
        """The unhealthy devices."""
        return self.devices


def create_unhealthy_record(node: Node) -> UnhealthyNodeRecord:
    """Return the record of a stored node.

    Raises:
        ValueError: if the node has no name, or an invalid revision.
    """
    meta = node.metadata or ObjectMeta()
    if not meta.name:
        raise ValueError("a node without name")
    revision = parse_revision(meta.resource_version or "0")
    return UnhealthyNodeRecord(meta.uid or meta.name, meta.name, revision, tuple(iterate_unhealthy(meta.name, node)))


UNHEALTHY_NODE_CODEC = ResourceCodec(NODES, "/api/v1/nodes", Node, create_unhealthy_record)
"""The codec of nodes of which only the unhealthy devices are kept."""


class UnhealthyStore(ObjectStore[UnhealthyNodeRecord]):
    """The nodes of a cluster with their unhealthy devices; without a revision, the nodes were not read."""

    def list_devices(self, resources: Collection[str]) -> tuple[UnhealthyDevices, ...]:
        """Return the unhealthy devices of these resources, by resource and node."""
        found = [device for record in self.list_records() for device in record.devices if device.resource in resources]
        return tuple(sorted(found, key=lambda each: (each.resource, each.node)))
