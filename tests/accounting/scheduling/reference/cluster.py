"""What the scheduler sees: nodes with the pods on them, and everything else by kind (backend/cache/snapshot.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.amounts import allocatable, requested
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from tests.accounting.scheduling.reference.ports import Port, host_ports
from tests.accounting.scheduling.reference.terms import AffinityTerm, required_terms

_OVER = ("Succeeded", "Failed")


@dataclass(slots=True, eq=False)
class PodInfo:
    """framework/types.go PodInfo: a pod, and what is read from it once."""

    pod: Json
    on_node: bool
    requests: dict[str, int] = field(init=False)
    affinity: list[AffinityTerm] = field(init=False)
    anti_affinity: list[AffinityTerm] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = requested(self.pod, on_node=self.on_node)
        self.affinity = required_terms(self.pod, "podAffinity")
        self.anti_affinity = required_terms(self.pod, "podAntiAffinity")


@dataclass(slots=True, eq=False)
class NodeInfo:
    """framework/types.go NodeInfo: a node and the pods on it."""

    node: Json
    allocatable: dict[str, int]
    pods: list[PodInfo] = field(default_factory=list)
    used_ports: set[Port] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def labels(self) -> Labels:
        """The node's labels."""
        return labels_of(self.node)

    def used(self, resource: str) -> int:
        """GetRequested: what the pods on it request together."""
        return sum(each.requests.get(resource, 0) for each in self.pods)

    def snapshot(self) -> NodeInfo:
        """A copy of which pods may be taken away."""
        return NodeInfo(self.node, self.allocatable, list(self.pods), set(self.used_ports))

    def add(self, pod: PodInfo) -> None:
        """AddPodInfo."""
        self.pods.append(pod)
        self.used_ports.update(host_ports(pod.pod))

    def remove(self, pod: PodInfo) -> None:
        """RemovePod. Ports are a set: what two pods share is free when one of them has gone."""
        self.pods.remove(pod)
        self.used_ports.difference_update(host_ports(pod.pod))


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes, the pods that wait with a node nominated, and the other objects."""

    nodes: list[NodeInfo]
    nominated: list[PodInfo]
    others: list[Json]

    def node(self, name: str) -> NodeInfo | None:
        """A node by its name."""
        return next((each for each in self.nodes if each.name == name), None)

    def all(self, kind: str) -> list[Json]:
        """A lister's List."""
        return [each for each in self.others if each.get("kind") == kind]

    def find(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """A lister's Get."""
        named = (each for each in self.all(kind) if name_of(each) == name)
        return next((each for each in named if namespace is None or namespace_of(each) == namespace), None)


def cluster_of(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json]) -> Cluster:
    """What the informers would have; a pod that is over is not among them (scheduler.go NewInformerFactory)."""
    infos = {name_of(each): NodeInfo(each, allocatable(each)) for each in nodes}
    nominated = []
    for pod in (each for each in pods if status_of(each).get("phase") not in _OVER):
        node = spec_of(pod).get("nodeName")
        if node in infos:
            infos[node].add(PodInfo(pod, on_node=True))
        elif not node and status_of(pod).get("nominatedNodeName"):
            nominated.append(PodInfo(pod, on_node=True))
    return Cluster(list(infos.values()), nominated, list(others))
