"""One cluster as a scheduler knows it, changed by one object at a time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from webhook.accounting.cluster.devices import DeviceClasses
from webhook.accounting.cluster.labelled import Labelled
from webhook.accounting.cluster.nodes import Nodes
from webhook.accounting.cluster.pods import Placed
from webhook.accounting.cluster.ranks import Ranks
from webhook.accounting.cluster.repelling import Repelling
from webhook.accounting.cluster.shapes import Port, Shapes
from webhook.accounting.cluster.storage import Storage
from webhook.accounting.cluster.tallies import Tallies
from webhook.objects.scheduling import DisruptionBudget, PlacingNode, PriorityClass

K = TypeVar("K")

_NOBODY: Mapping[str, Placed] = MappingProxyType({})
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Cluster:
    """Nodes, the pods on them, and namespaces with their labels.

    `labelled` are the shapes of pods that are on a node, `repelling` what they keep away, `tallies` count them, `ranks`
    say what they take by their priority.
    `storage` is None where nothing is known of volumes. `supposed` are the pods that are thought away (-1), back
    again (0) or there (1) on their node for the time being, by UID, the latest last (see `supposing`).
    """

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.shapes = Shapes()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.priorities: dict[str, PriorityClass] = {}
        self.budgets: list[DisruptionBudget] = []
        self.storage: Storage | None = None
        self.devices = DeviceClasses()
        self.supposed: dict[str, tuple[Placed, int]] = {}
        self.labelled = Labelled()
        self.repelling = Repelling()
        self.tallies = Tallies(self.labelled)
        self.ranks = Ranks()
        self._pods: dict[str, Placed] = {}
        self._on: dict[int, dict[str, Placed]] = {}
        self._nominated: dict[int, dict[str, Placed]] = {}
        self._ports: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        self._claims: dict[tuple[str, str], dict[int, int]] = {}
        self._mounting: dict[int, int] = {}
        self._making: dict[int, int] = {}

    def __len__(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def put_node(self, node: PlacingNode) -> None:
        """Keep a node as it is now.

        Raises:
            QuantityError: a quantity of its allocatable is none; nothing has changed then.
        """
        self.nodes.put(node)

    def remove_node(self, name: str) -> None:
        """Keep a node no longer; the pods on it stay where they are until they are removed."""
        self.nodes.remove(name)

    def put_pod(self, pod: Placed) -> None:
        """Keep a pod as it is now."""
        self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        place = self.nodes.reserve(pod.node or pod.nominated)
        if pod.node:
            self._on.setdefault(place, {})[pod.uid] = pod
            self._stand(pod, place, 1)
        else:
            self._nominated.setdefault(place, {})[pod.uid] = pod

    def remove_pod(self, uid: str) -> Placed | None:
        """Keep a pod no longer; what it was, if it was there."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        place = self.nodes.reserve(pod.node or pod.nominated)
        there = self._on if pod.node else self._nominated
        del there[place][uid]
        if not there[place]:
            del there[place]
        if pod.node:
            self._stand(pod, place, -1)
        if place not in self._nominated:
            self.nodes.release(place)
        return pod

    def pod(self, uid: str) -> Placed | None:
        """A pod that is there."""
        return self._pods.get(uid)

    def pods(self) -> Iterable[Placed]:
        """Every pod that is there."""
        return self._pods.values()

    def on(self, place: int) -> Mapping[str, Placed]:
        """The pods on the node at a place, by UID."""
        return self._on.get(place, _NOBODY)

    def nominated(self) -> Mapping[int, Mapping[str, Placed]]:
        """The pods to which a node is promised, by its place and by UID."""
        return self._nominated

    def arrange(self, place: int, uids: Iterable[str]) -> None:
        """Let the pods on a node follow one another in this order, which is the one in which `on` tells them."""
        there = self._on.get(place, {})
        self._on[place] = {uid: there[uid] for uid in uids}

    def claimants(self, namespace: str, claim: str) -> int:
        """How many volumes of pods on nodes that are there name this claim."""
        nodes, on = self.nodes, self._claims.get((namespace, claim), {})
        return sum(volumes for place, volumes in on.items() if nodes.place(nodes.name(place)) is not None)

    def mounting(self) -> Mapping[int, int]:
        """How many volumes, of those that say something about nodes, pods have at each place that has any."""
        return self._mounting

    def making(self) -> Mapping[int, int]:
        """How many volumes with a claim that was made for the pod there are at each place that has any."""
        return self._making

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none where it is not known."""
        return self.namespaces.get(namespace, _NO_LABELS)

    def takers(self, port: Port) -> Mapping[int, Counter[str]]:
        """Who has this port at some address: how many pods, by address, by place."""
        return self._ports.get((port.protocol, port.number), {})

    def _stand(self, pod: Placed, place: int, pods: int) -> None:
        """Count a pod (1) on a node, or count it no more (-1)."""
        shape = pod.shape
        self.nodes.use(place, shape.requests, shape.weight, pods)
        self.ranks.count(shape.priority, place, shape.requests, pods, self.nodes.size)
        if not shape.on:
            self.labelled.add(shape)
        _count(shape.on, place, pods)
        if not shape.on:
            self.labelled.remove(shape)
        if pod.is_leaving:
            _count(shape.leaving, place, pods)
        self.tallies.change(shape, place, pods, pods if pod.is_leaving else 0)
        for term in shape.anti_affinity:
            self.repelling.count(term, place, pods)
        for port in shape.ports:
            self._take(port, place, pods)
        if pod.volumes:
            self._mount(pod, place, pods)

    def _mount(self, pod: Placed, place: int, pods: int) -> None:
        """Count a pod's volumes, or count them no more."""
        _count(self._mounting, place, pods * len(pod.volumes))
        for volume in pod.volumes:
            if volume.persistent_volume_claim is not None:
                self._claim((pod.namespace, volume.persistent_volume_claim.claim_name), place, pods)
            elif volume.ephemeral is not None:
                _count(self._making, place, pods)

    def _claim(self, claim: tuple[str, str], place: int, pods: int) -> None:
        on = self._claims.setdefault(claim, {})
        _count(on, place, pods)
        if not on:
            del self._claims[claim]

    def _take(self, port: Port, place: int, pods: int) -> None:
        takers = self._ports.setdefault((port.protocol, port.number), {})
        addresses = takers.setdefault(place, Counter())
        _count(addresses, port.address, pods)
        if not addresses:
            del takers[place]
        if not takers:
            del self._ports[port.protocol, port.number]


def _count(counts: dict[K, int], key: K, more: int) -> None:
    total = counts.get(key, 0) + more
    if total:
        counts[key] = total
    else:
        del counts[key]
