"""The scheduler's snapshot: nodes with their pods, and all other objects by kind (backend/cache/snapshot.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.amounts import compute_allocatable, compute_requests
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    get_labels,
    get_name,
    get_namespace,
    get_spec,
    get_status,
)
from tests.accounting.scheduling.reference.ports import Port, list_host_ports
from tests.accounting.scheduling.reference.terms import AffinityTerm, read_required_terms

_OVER = ("Succeeded", "Failed")


@dataclass(slots=True, eq=False)
class PodInfo:
    """framework/types.go PodInfo: a pod, and the values that are read from it once."""

    pod: Json
    on_node: bool
    requests: dict[str, int] = field(init=False)
    affinity: list[AffinityTerm] = field(init=False)
    anti_affinity: list[AffinityTerm] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = compute_requests(self.pod, on_node=self.on_node)
        self.affinity = read_required_terms(self.pod, "podAffinity")
        self.anti_affinity = read_required_terms(self.pod, "podAntiAffinity")


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
        return get_name(self.node)

    @property
    def labels(self) -> Labels:
        """The node's labels."""
        return get_labels(self.node)

    def get_used(self, resource: str) -> int:
        """Return the sum of the requests of its pods (GetRequested)."""
        return sum(each.requests.get(resource, 0) for each in self.pods)

    def snapshot(self) -> NodeInfo:
        """Return a copy from which pods may be removed."""
        return NodeInfo(self.node, self.allocatable, list(self.pods), set(self.used_ports))

    def add(self, pod: PodInfo) -> None:
        """Implement AddPodInfo."""
        self.pods.append(pod)
        self.used_ports.update(list_host_ports(pod.pod))

    def remove(self, pod: PodInfo) -> None:
        """Implement RemovePod. Ports are a set: a port that two pods share is free when one of them is removed."""
        self.pods.remove(pod)
        self.used_ports.difference_update(list_host_ports(pod.pod))


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes, the pods that wait with a node nominated, and the other objects."""

    nodes: list[NodeInfo]
    nominated: list[PodInfo]
    others: list[Json]

    def find_node(self, name: str) -> NodeInfo | None:
        """Return a node by its name."""
        return next((each for each in self.nodes if each.name == name), None)

    def list_objects(self, kind: str) -> list[Json]:
        """Return the objects of a kind, as a lister's List."""
        return [each for each in self.others if each.get("kind") == kind]

    def find(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """Return an object, as a lister's Get."""
        named = (each for each in self.list_objects(kind) if get_name(each) == name)
        return next((each for each in named if namespace is None or get_namespace(each) == namespace), None)


def create_cluster(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json]) -> Cluster:
    """Create the snapshot of the informers, without pods that have ended (scheduler.go NewInformerFactory)."""
    infos = {get_name(each): NodeInfo(each, compute_allocatable(each)) for each in nodes}
    nominated = []
    for pod in (each for each in pods if get_status(each).get("phase") not in _OVER):
        node = get_spec(pod).get("nodeName")
        if node in infos:
            infos[node].add(PodInfo(pod, on_node=True))
        elif not node and get_status(pod).get("nominatedNodeName"):
            nominated.append(PodInfo(pod, on_node=True))
    return Cluster(list(infos.values()), nominated, list(others))
