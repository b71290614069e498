"""The product's scheduling functions, called with objects as the API server stores them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.device_index import DeviceIndex
from tallygate.webhook.accounting.cluster.ingest import ingest
from tallygate.webhook.accounting.cluster.scheduler_version import NEWEST_VERSION, SchedulerVersion
from tallygate.webhook.accounting.cluster.storage_index import StorageIndex
from tallygate.webhook.accounting.scheduling.filters import run_filters
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.placement import PlacementResult, PlacementSession, open_placement_session
from tallygate.webhook.accounting.scheduling.prediction import find_unmodelled
from tallygate.webhook.accounting.scheduling.schedule import ScheduleResult, schedule_one
from tallygate.webhook.objects.scheduling import SchedulingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod

Json = Mapping[str, Any]
_PLACEMENT = re.compile(r"(found a potential placement for pod on node )[^,]+,")


@dataclass(frozen=True, slots=True)
class ProductAnswer:
    """The feasible nodes, the nodes that may be nominated, the message, and the features that are not modelled."""

    nodes: frozenset[str]
    nominated: frozenset[str]
    message: str
    unknown: tuple[str, ...] = field(default=(), compare=False)


def mask_placement(message: str) -> str:
    """Return a message without the name of the node on which a pod preempts: the scheduler takes any of equal nodes."""
    return _PLACEMENT.sub(r"\1…,", message)


def decide(
    nodes: Iterable[Json],
    pods: Iterable[Json],
    others: Iterable[Json],
    pod: Json,
    version: SchedulerVersion = NEWEST_VERSION,
) -> ProductAnswer:
    """Return the product's answer for a new pod, given the nodes, the other pods and all other objects.

    A namespace that is not among the other objects has no labels.
    """
    pods, others = list(pods), list(others)
    objects = [*others, *_bare_namespaces([*pods, pod], others)]
    cluster, new = create_full_cluster(nodes, pods, objects, version), decode_pod(pod)
    result = attempt(new, cluster)
    return ProductAnswer(
        frozenset(result.nodes), frozenset(result.nominated_nodes), result.message, list_unmodelled(new, cluster)
    )


def attempt(pod: SchedulingPod, cluster: Cluster) -> ScheduleResult:
    """Return the result of one attempt, with the filters run first."""
    incoming = IncomingPod.from_pod(pod, cluster.priority_classes)
    return schedule_one(incoming, cluster, run_filters(incoming, cluster))


def list_unmodelled(pod: SchedulingPod, cluster: Cluster) -> tuple[str, ...]:
    """Return the features of a pod that are not modelled."""
    return tuple(find_unmodelled(IncomingPod.from_pod(pod, cluster.priority_classes), cluster))


def place(session: PlacementSession, pod: SchedulingPod, cluster: Cluster, count: int) -> PlacementResult:
    """Place copies in a session, with the filters run first."""
    incoming = IncomingPod.from_pod(pod, cluster.priority_classes)
    return session.place(incoming, count, run_filters(incoming, cluster))


def place_copies(pod: SchedulingPod, cluster: Cluster, count: int) -> PlacementResult:
    """Place copies, and remove them at the end."""
    with open_placement_session(cluster) as session:
        return place(session, pod, cluster, count)


def _bare_namespaces(pods: Iterable[Json], others: Iterable[Json]) -> list[Json]:
    """Return the namespaces of these pods that are not among the other objects."""
    described = {each["metadata"]["name"] for each in others if each.get("kind") == "Namespace"}
    used = {(each.get("metadata") or {}).get("namespace") or "default" for each in pods}
    return [{"kind": "Namespace", "metadata": {"name": name}} for name in sorted(used - described)]


def create_full_cluster(
    nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], version: SchedulerVersion = NEWEST_VERSION
) -> Cluster:
    """Create a cluster with a complete storage index and all other objects."""
    cluster = create_cluster(nodes, pods, version)
    cluster.storage, cluster.devices = StorageIndex(), DeviceIndex()
    for each in others:
        ingest(cluster, each.get("kind", ""), msgspec.json.encode(each))
    return cluster
