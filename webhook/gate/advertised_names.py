"""The check `advertised` for resource names of pods: a node advertises them, or the devices of a class serve them."""

from collections.abc import Sequence
from itertools import islice

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.names import DEVICE_CLASS_PREFIX
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.gate.cluster_snapshot import SnapshotProvider
from tallygate.webhook.gate.device_messages import describe_missing_class
from tallygate.webhook.gate.pending_amounts import PendingAmounts
from tallygate.webhook.gate.possible_nodes import PossibleNodes
from tallygate.webhook.policy.matching import matches_resource
from tallygate.webhook.policy.model import ResourceRule
from tallygate.webhook.policy.suggest import suggest_resource

PODS = "pods"
_MAX_NODES = 3
_MAX_NAMES = 200


def may_be_advertised(resource: str, snapshots: SnapshotProvider) -> bool:
    """Return whether a node advertises a resource; True too if the nodes are unknown."""
    with snapshots.open_snapshot(pods=False) as snapshot:
        if snapshot is None or not len(snapshot.cluster.nodes):
            return True
        return snapshot.cluster.nodes.is_advertised(resource)


class AdvertisedNames:
    """The names that a pod requests and no node of a cluster advertises.

    Nor does any of the shapes of nodes that may come, nor will a node get some by a NodeResource.

    `unserved` are those for which no known device class exists. `served` are the others, with the name of the class.
    """

    def __init__(
        self, incoming: IncomingPod, cluster: Cluster, possible_nodes: PossibleNodes, pending: PendingAmounts
    ) -> None:
        self._cluster, self._possible_nodes, self._pending = cluster, possible_nodes, pending
        self.unserved: list[str] = []
        self.served: list[tuple[str, str]] = []
        for name in incoming.requests:
            is_advertised = cluster.nodes.is_advertised(name) or possible_nodes.find_advertising(name)
            if not (is_advertised or pending.find_publisher(name)):
                class_name = cluster.device_classes.find_class(name)
                if class_name is None:
                    self.unserved.append(name)
                else:
                    self.served.append((name, class_name))

    @property
    def are_known(self) -> bool:
        """False if the cluster has no nodes, since no node has been listed yet, or no classes of which one is named.

        Not every snapshot contains device classes.
        """
        has_device_class = any(name.startswith(DEVICE_CLASS_PREFIX) for name in self.unserved)
        return bool(len(self._cluster.nodes)) and not (has_device_class and not len(self._cluster.device_classes))

    def list_unserved(self, rule: ResourceRule) -> Sequence[str]:
        """Return the names without nodes and classes that a rule selects."""
        return [name for name in self.unserved if matches_resource(rule.resources, name)]

    def describe_unserved(self, name: str) -> str:
        """Return the message about a name without nodes and classes, with the nearest one that exists."""
        if name.startswith(DEVICE_CLASS_PREFIX):
            return describe_missing_class(name.removeprefix(DEVICE_CLASS_PREFIX), self._cluster.device_classes.by_name)
        nodes = self._cluster.nodes
        known_names = list(islice((each for each in nodes.list_advertised_resources() if each != PODS), _MAX_NAMES))
        possible_names = self._possible_nodes.list_resources() | self._pending.list_resources()
        suggestion = suggest_resource(name, sorted({*known_names, *possible_names} - {PODS}))
        if suggestion is None:
            return f"no node advertises {name}, so no node can run this pod"
        advertising = nodes.list_advertising_nodes(suggestion, _MAX_NODES + 1)
        if not advertising:
            return f"no node advertises {name}: did you mean {suggestion}?{self._describe_future(suggestion)}"
        more = " and others" if len(advertising) > _MAX_NODES else ""
        verb = "advertise" if len(advertising) > 1 else "advertises"
        node_list = f"node{'s' * (len(advertising) > 1)} {', '.join(advertising[:_MAX_NODES])}{more}"
        return f"no node advertises {name}: did you mean {suggestion}? {node_list} {verb} it"

    def _describe_future(self, name: str) -> str:
        """Return the sentence on what will advertise a name, with a space before it; empty if nothing will."""
        if shape := self._possible_nodes.find_advertising(name):
            return f" nodes of shape {shape} will advertise it"
        publisher = self._pending.find_publisher(name)
        return f" NodeResource {publisher} will publish it" if publisher else ""
