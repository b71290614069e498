"""The product's scheduling functions, called with objects as the API server stores them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from tallygate.accounting.allocation.allocations import ChosenDevice
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.cluster.storage_index import StorageIndex
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.node_choice import find_choices
from tallygate.accounting.scheduling.placement import PlacementResult, PlacementSession, open_placement_session
from tallygate.accounting.scheduling.plugins.dynamic_resources import (
    NodeRejection,
    allocate_on_node,
    list_claims_on_node,
)
from tallygate.accounting.scheduling.plugins.resource_claims import (
    find_devices_of_pod,
)
from tallygate.accounting.scheduling.plugins.special_claim import NAME_IN_MEMORY
from tallygate.accounting.scheduling.prediction import find_unmodelled
from tallygate.accounting.scheduling.schedule import ScheduleResult, schedule_one
from tallygate.objects.scheduling import SchedulingPod
from tests.accounting.scheduling.clusters import create_cluster, decode_pod

Json = Mapping[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
"""The time of each cluster."""

_COMPARED_FIELDS = frozenset({"request", "driver", "pool", "device", "adminAccess", "consumedCapacity"})
_PLACEMENT = re.compile(r"(found a potential placement for pod on node )[^,]+,")


@dataclass(frozen=True, slots=True)
class ProductAnswer:
    """The feasible nodes, the nodes that may be nominated, the message, and the features that are not modelled.

    `hold_reason` keeps the pod out of the queue. `choices` are the feasible nodes that may be chosen, `bind_errors` has
    those of them on which the binding fails.
    """

    nodes: frozenset[str]
    nominated: frozenset[str]
    message: str
    unknown: tuple[str, ...] = field(default=(), compare=False)
    hold_reason: str = field(default="", compare=False)
    choices: frozenset[str] = field(default=frozenset(), compare=False)
    bind_errors: Mapping[str, str] = field(default_factory=dict, compare=False)


def mask_placement(message: str) -> str:
    """Return a message without the name of the node on which a pod preempts: the scheduler takes any of equal nodes."""
    return _PLACEMENT.sub(r"\1…,", message)


def decide(
    nodes: Iterable[Json],
    pods: Iterable[Json],
    others: Iterable[Json],
    pod: Json,
    version: KubernetesVersion = DEFAULT_VERSION,
) -> ProductAnswer:
    """Return the product's answer for a new pod, given the nodes, the other pods and all other objects.

    A namespace that is not among the other objects has no labels.
    """
    pods, others = list(pods), list(others)
    objects = [*others, *_bare_namespaces([*pods, pod], others)]
    cluster, new = create_full_cluster(nodes, pods, objects, version), decode_pod(pod)
    result = attempt(new, cluster)
    return ProductAnswer(
        frozenset(result.nodes),
        frozenset(result.nominated_nodes),
        result.message,
        list_unmodelled(new, cluster),
        result.hold_reason,
        _find_choices(new, cluster, result.nodes),
        result.bind_errors,
    )


def _find_choices(pod: SchedulingPod, cluster: Cluster, names: Iterable[str]) -> frozenset[str]:
    """Return those of the feasible nodes that may be chosen."""
    nodes = np.array([cluster.nodes.find_index(name) for name in names], dtype=np.intp)
    choices = find_choices(IncomingPod.from_pod(pod, cluster.priority_classes), cluster, nodes)
    return frozenset(cluster.nodes.get_name(node_index) for node_index in choices.tolist())


def find_devices(cluster: Cluster, pod: Json, node: str) -> dict[str, list[dict[str, Any]]]:
    """Return the devices that the product allocates for a pod on a node, by claim, in the form of the API."""
    incoming = IncomingPod.from_pod(decode_pod(pod), cluster.priority_classes)
    node_index = cluster.nodes.find_index(node)
    assert cluster.devices is not None
    assert node_index is not None
    of_pod = find_devices_of_pod(incoming, cluster, cluster.devices)
    allocations = allocate_on_node(incoming, cluster, node_index, of_pod)
    assert not isinstance(allocations, NodeRejection), allocations.reason
    claims = list_claims_on_node(incoming, cluster, node_index, of_pod)
    names = [(each.metadata.name if each.metadata else None) or "" for each in claims]
    return {
        name: [_write_result(each) for each in allocation.results]
        for name, allocation in zip(names, allocations, strict=True)
    }


def find_device_differences(
    cluster: Cluster, pod: Json, node: str, recorded: Mapping[str, Iterable[Json]]
) -> Iterator[str]:
    """Yield a sentence for each claim to which the product allocates other devices on a node than recorded."""
    found = find_devices(cluster, pod, node)
    special = f"{pod['metadata']['name']}-extended-resources-"
    expected = {
        NAME_IN_MEMORY if name.startswith(special) else name: [
            {field: value for field, value in each.items() if field in _COMPARED_FIELDS} for each in results
        ]
        for name, results in recorded.items()
    }
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield f"devices of {name} on {node}: Kubernetes {expected.get(name)}, tallygate {found.get(name)}"


def list_filter_errors(cluster: Cluster, pod: Json) -> set[str]:
    """Return the errors of filters on all nodes; kube-scheduler reports the one that comes first."""
    diagnosis = run_filters(IncomingPod.from_pod(decode_pod(pod), cluster.priority_classes), cluster)
    return {f'running "{each.plugin}" filter plugin: {each.reason}' for each in diagnosis.statuses if each.is_error}


def _write_result(result: ChosenDevice) -> dict[str, Any]:
    written: dict[str, Any] = {"request": result.request, **result.device._asdict()}
    if result.has_admin_access:
        written["adminAccess"] = True
    if result.consumed:
        written["consumedCapacity"] = result.format_consumed()
    return written


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
    nodes: Iterable[Json], pods: Iterable[Json], others: Iterable[Json], version: KubernetesVersion = DEFAULT_VERSION
) -> Cluster:
    """Create a cluster with a complete storage index and all other objects."""
    cluster = create_cluster(nodes, pods, version)
    cluster.storage, cluster.devices, cluster.now = StorageIndex(), DeviceIndex(), NOW
    for each in others:
        ingest(cluster, each.get("kind", ""), msgspec.json.encode(each))
    return cluster
