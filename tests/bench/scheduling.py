"""Filters of pods in a large cluster, in process: 5,000 nodes, 20 resources, 100,000 pods of 10,000 workloads.

Four workloads in ten repel their own pods from a node, and twenty repel whole tiers. Before every run of the filters a
pod moves, so that no result for the whole cluster can be reused.
"""

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any

import msgspec
from msgspec.structs import replace

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.pod_info import PodInfo, create_pod_info
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.objects.scheduling import SchedulingNode, SchedulingPod

NODES, WORKLOADS, PODS, NAMESPACES = 5_000, 10_000, 100_000, 500
_ZONES, _RACKS, _TIERS, _EXTENDED = 10, 200, 4, 18
_REPEATS = 300
ZONE, _RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"


def main() -> None:
    """Print the cost of the filters and of the change of one pod."""
    cluster, pods = create_cluster()
    pod_cycle = cycle(pods)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = f"{len(cluster.nodes):,} nodes, {len(cluster):,} pods, {len(cluster.groups):,} shapes"
    print(f"{counts}, {len(cluster.anti_affinity_index):,} terms that keep pods away: {peak:.0f} MiB at most.\n")
    print("| what | p50 | p99 |\n| --- | ---: | ---: |")
    _print("a pod leaves, and is back (each)", [each / 2 for each in _time_calls(_create_moves(cluster, pod_cycle))])
    constraint_sets: dict[str, dict[str, Any]] = {
        "no word of other pods": {},
        "spread, and affinity to pods, by app": _create_narrow_constraints(),
        "spread, and affinity to pods, by tier, in all namespaces": create_broad_constraints(),
    }
    for name, constraints in constraint_sets.items():
        _print(f"{name}: all nodes", _time_calls(_create_filter_runs(cluster, pod_cycle, constraints)))
        _print(
            f"{name}: one node",
            _time_calls(_create_filter_runs(cluster, pod_cycle, constraints, cluster.nodes.get_indices()[:1])),
        )


def create_cluster(nodes: int = NODES, pod_count: int = PODS) -> tuple[Cluster, list[PodInfo]]:
    """Return a cluster of this number of nodes, and its pods."""
    cluster, workloads = Cluster(), pod_count * WORKLOADS // PODS
    for number in range(nodes):
        cluster.put_node(_read(create_node(number), SchedulingNode))
    for number in range(NAMESPACES):
        cluster.namespaces[_get_namespace(number)] = {"team": f"team-{number % 50}"}
    pods = []
    for workload in range(workloads):
        first = create_pod_info(
            _read(create_pod(workload, get_anti_affinity(workload), node="n0"), SchedulingPod), cluster.groups
        )
        assert first is not None
        copies = range(workload, pod_count, workloads)
        pods += [replace(first, uid=f"u{number}", node=f"n{number * 7919 % nodes}") for number in copies]
    for pod in pods:
        cluster.put_pod(pod)
    return cluster, pods


def create_node(number: int) -> dict[str, Any]:
    """Return a node with twenty resources."""
    has = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    has |= {f"example.com/device-{each}": "8" for each in range(_EXTENDED)}
    labels = {HOST: f"n{number}", ZONE: f"zone-{number % _ZONES}", _RACK: f"rack-{number % _RACKS}"}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": has}}


def create_pod(workload: int, constraints: dict[str, Any], node: str = "") -> dict[str, Any]:
    """Return a pod of a workload with these constraints on other pods."""
    requests = {"cpu": "500m", "memory": "1Gi", f"example.com/device-{workload % _EXTENDED}": "1"}
    labels = {"app": f"app-{workload}", "tier": f"tier-{workload % _TIERS}", "pod-template-hash": f"{workload:x}"}
    return {
        "metadata": {"namespace": _get_namespace(workload % NAMESPACES), "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]} | constraints,
        "status": {"phase": "RunningServer"},
    }


def _get_namespace(number: int) -> str:
    return f"project-{number}"


def get_anti_affinity(workload: int) -> dict[str, Any]:
    """Return the constraints of a workload on other pods."""
    if workload % 500 == 0:  # twenty
        return create_affinity(
            away=[create_term(_RACK, {"tier": f"tier-{_TIERS}"}, {"matchLabels": {"team": "team-1"}})]
        )
    return create_affinity(away=[create_term(HOST, {"app": f"app-{workload}"})]) if workload % 5 < 2 else {}


def _create_narrow_constraints() -> dict[str, Any]:
    near, away = [create_term(ZONE, {"app": "app-@"})], [create_term(HOST, {"app": "app-@"})]
    evenly = [create_spread(ZONE, 5, {"app": "app-@"}), create_spread(HOST, 1, {"app": "app-@"})]
    return create_affinity(near, away) | {"topologySpreadConstraints": evenly}


def create_broad_constraints() -> dict[str, Any]:
    others = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["tier-0"]}]}
    near, away = [create_term(_RACK, {}, {}) | {"labelSelector": others}], [create_term(HOST, {"tier": "tier-2"}, {})]
    evenly = [create_spread(ZONE, 5, {"tier": "tier-0"}), create_spread(_RACK, 5, {"tier": "tier-0"})]
    return create_affinity(near, away) | {"topologySpreadConstraints": evenly}


def create_affinity(near: list[Any] | None = None, away: list[Any] | None = None) -> dict[str, Any]:
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAffinity": {must: near or []}, "podAntiAffinity": {must: away or []}}}


def create_term(key: str, labels: dict[str, str], namespaces: dict[str, Any] | None = None) -> dict[str, Any]:
    about = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return about if namespaces is None else about | {"namespaceSelector": namespaces}


def create_spread(key: str, skew: int, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _create_moves(cluster: Cluster, pod_cycle: Iterator[PodInfo]) -> Iterator[Callable[[], object]]:
    return (partial(_move, cluster, pod) for pod in pod_cycle)


def _move(cluster: Cluster, pod: PodInfo) -> None:
    cluster.remove_pod(pod.uid)
    cluster.put_pod(pod)


def _create_filter_runs(
    cluster: Cluster, pod_cycle: Iterator[PodInfo], constraints: dict[str, Any], nodes: NodeIndices | None = None
) -> Iterator[Callable[[], object]]:
    """Yield runs of the filters for a pod of one workload after another, each after a pod has moved."""
    for number, pod in enumerate(pod_cycle):
        cluster.put_pod(replace(pod, node=f"n{number}"))
        workload = number * 37 % WORKLOADS
        text = msgspec.json.encode(create_pod(workload, constraints)).replace(b"@", str(workload).encode())
        yield partial(_run_filters, cluster, msgspec.json.decode(text, type=SchedulingPod), nodes)
        cluster.put_pod(pod)


def _run_filters(cluster: Cluster, pod: SchedulingPod, nodes: NodeIndices | None) -> NodeIndices:
    return run_filters(IncomingPod.from_pod(pod), cluster, nodes).feasible


def _time_calls(calls: Iterator[Callable[[], object]]) -> list[float]:
    """Return the microseconds of each of some calls."""
    times = []
    for call in islice(calls, _REPEATS):
        started_at = time.perf_counter()
        call()
        times.append((time.perf_counter() - started_at) * 1e6)
    return times


def _print(name: str, times: list[float]) -> None:
    median, p99 = compute_percentiles(times)
    print(f"| {name} | {median:,.0f} µs | {p99:,.0f} µs |")


def compute_percentiles(times: list[float]) -> tuple[float, float]:
    """Return the 50th and the 99th percentile."""
    found = statistics.quantiles(times, n=100)
    return found[49], found[98]


def _read(thing: dict[str, Any], kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(thing), type=kind)
