"""The product's verdict on a pod, from objects as the API server shows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.accounting.fit.clusters import cluster_of, pod_of
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.accounting.scheduling.schedule import schedule_one

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """`nodes` of which one is chosen, `nominated` of which one is promised, and the sentence."""

    nodes: frozenset[str]
    nominated: frozenset[str]
    message: str


def decided(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], pod: Json) -> Decided:
    """What the product says of a new pod, given nodes, the other pods and all else."""
    said = schedule_one(pod_of(pod), whole(nodes, pods, others))
    return Decided(frozenset(said.nodes), frozenset(said.nominated_nodes), said.message)


def whole(nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json]) -> Cluster:
    """A cluster of which everything is known."""
    cluster = cluster_of(nodes, pods)
    cluster.storage = StorageIndex()
    for each in others:
        ingest(cluster, each.get("kind", ""), msgspec.json.encode(each))
    return cluster
