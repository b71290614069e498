"""The check `advertised` for resource names of pods: a node advertises them, or the devices of a class serve them."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.names import DEVICE_CLASS_PREFIX
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.policy.matching import matches_resource
from tallygate.policy.model import ResourceRule, Schedulable
from tallygate.policy.suggest import suggest_resource
from tallygate.review.cluster_snapshot import SnapshotProvider
from tallygate.review.device_messages import describe_missing_class
from tallygate.review.pending_amounts import PendingAmounts
from tallygate.review.possible_nodes import PossibleNodes, describe_unsized

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
        self._incoming, self._cluster, self._possible_nodes, self._pending = incoming, cluster, possible_nodes, pending
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

    @cached_property
    def unsized_pool(self) -> str:
        """The pool that may run the pod, and of which no amount is known; empty without one, and if no name lacks."""
        return self._possible_nodes.find_unsized(self._incoming) if self.unserved and self.are_known else ""

    def list_unserved(self, rule: ResourceRule) -> Sequence[str]:
        """Return the names without nodes and classes that a rule selects."""
        return [name for name in self.unserved if matches_resource(rule.resources, name)]

    def list_unadvertised(self, rule: ResourceRule) -> Sequence[str]:
        """Return the names that a rule selects, and no node will advertise as far as the pools are known."""
        return () if self.unsized_pool else self.list_unserved(rule)

    def describe_unserved(self, name: str) -> str:
        """Return the message about a name without nodes and classes, with the nearest one that exists."""
        if name.startswith(DEVICE_CLASS_PREFIX):
            return describe_missing_class(name.removeprefix(DEVICE_CLASS_PREFIX), self._cluster.device_classes.by_name)
        nodes = self._cluster.nodes
        known_names = list(
            islice((resource for resource in nodes.list_advertised_resources() if resource != PODS), _MAX_NAMES)
        )
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

    def list_unevaluated(self, rules: Sequence[ResourceRule]) -> Iterator[str]:
        """Yield why rules were not evaluated on the pod: a pool of which no node is known may run it."""
        for rule in rules:
            unserved = self.list_unserved(rule) if rule.checks.advertised and self.unsized_pool else ()
            is_never = rule.checks.schedulable is Schedulable.NEVER
            pool = self.unsized_pool if unserved else self._possible_nodes.deciding_pool if is_never else ""
            if pool:
                fact = (
                    f"no node advertises {', '.join(unserved)}" if unserved else "no node that exists can run this pod"
                )
                yield f"rule {rule.name} was not evaluated: {fact}; {describe_unsized(pool)}"
