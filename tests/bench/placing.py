"""Verdicts on pods in a large cluster, in process: 5,000 nodes, 20 resources, 100,000 pods of 10,000 workloads.

Four workloads in ten keep others of their kind off their node, and twenty keep whole tiers away. Before every verdict a
pod comes or goes, so that nothing that is remembered of the cluster as a whole can help.
"""

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import NodeIndices
from webhook.accounting.cluster.pod_info import PodInfo, create_pod_info
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.objects.scheduling import SchedulingNode, SchedulingPod

NODES, WORKLOADS, PODS, NAMESPACES = 5_000, 10_000, 100_000, 500
_ZONES, _RACKS, _TIERS, _EXTENDED = 10, 200, 4, 18
_REPEATS = 300
ZONE, _RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"


def main() -> None:
    """Print what a verdict costs, and the change of one pod."""
    cluster, pods = made_up()
    turn = cycle(pods)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = f"{len(cluster.nodes):,} nodes, {len(cluster):,} pods, {len(cluster.groups):,} shapes"
    print(f"{counts}, {len(cluster.anti_affinity_index):,} terms that keep pods away: {peak:.0f} MiB at most.\n")
    print("| what | p50 | p99 |\n| --- | ---: | ---: |")
    _print("a pod leaves, and is back (each)", [each / 2 for each in _timed(_moves(cluster, turn))])
    words: dict[str, dict[str, Any]] = {
        "no word of other pods": {},
        "spread, and affinity to pods, by app": _narrow(),
        "spread, and affinity to pods, by tier, in all namespaces": broad(),
    }
    for name, company in words.items():
        _print(f"{name}: all nodes", _timed(_verdicts(cluster, turn, company)))
        _print(f"{name}: one node", _timed(_verdicts(cluster, turn, company, cluster.nodes.get_indices()[:1])))


def made_up(nodes: int = NODES, many: int = PODS) -> tuple[Cluster, list[PodInfo]]:
    """A cluster of so many nodes, and its pods."""
    cluster, workloads = Cluster(), many * WORKLOADS // PODS
    for number in range(nodes):
        cluster.put_node(_read(node_json(number), SchedulingNode))
    for number in range(NAMESPACES):
        cluster.namespaces[_namespace(number)] = {"team": f"team-{number % 50}"}
    pods = []
    for workload in range(workloads):
        first = create_pod_info(
            _read(pod_json(workload, kept_away(workload), node="n0"), SchedulingPod), cluster.groups
        )
        assert first is not None
        copies = range(workload, many, workloads)
        pods += [first._replace(uid=f"u{number}", node=f"n{number * 7919 % nodes}") for number in copies]
    for pod in pods:
        cluster.put_pod(pod)
    return cluster, pods


def node_json(number: int) -> dict[str, Any]:
    """A node with twenty resources."""
    has = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    has |= {f"example.com/device-{each}": "8" for each in range(_EXTENDED)}
    labels = {HOST: f"n{number}", ZONE: f"zone-{number % _ZONES}", _RACK: f"rack-{number % _RACKS}"}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": has}}


def pod_json(workload: int, company: dict[str, Any], node: str = "") -> dict[str, Any]:
    """A pod of a workload, and what it says of others."""
    asks = {"cpu": "500m", "memory": "1Gi", f"example.com/device-{workload % _EXTENDED}": "1"}
    labels = {"app": f"app-{workload}", "tier": f"tier-{workload % _TIERS}", "pod-template-hash": f"{workload:x}"}
    return {
        "metadata": {"namespace": _namespace(workload % NAMESPACES), "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": asks}}]} | company,
        "status": {"phase": "Running"},
    }


def _namespace(number: int) -> str:
    return f"project-{number}"


def kept_away(workload: int) -> dict[str, Any]:
    """What a workload says of other pods."""
    if workload % 500 == 0:  # twenty
        return company(away=[term(_RACK, {"tier": f"tier-{_TIERS}"}, {"matchLabels": {"team": "team-1"}})])
    return company(away=[term(HOST, {"app": f"app-{workload}"})]) if workload % 5 < 2 else {}


def _narrow() -> dict[str, Any]:
    near, away = [term(ZONE, {"app": "app-@"})], [term(HOST, {"app": "app-@"})]
    evenly = [spread(ZONE, 5, {"app": "app-@"}), spread(HOST, 1, {"app": "app-@"})]
    return company(near, away) | {"topologySpreadConstraints": evenly}


def broad() -> dict[str, Any]:
    others = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["tier-0"]}]}
    near, away = [term(_RACK, {}, {}) | {"labelSelector": others}], [term(HOST, {"tier": "tier-2"}, {})]
    evenly = [spread(ZONE, 5, {"tier": "tier-0"}), spread(_RACK, 5, {"tier": "tier-0"})]
    return company(near, away) | {"topologySpreadConstraints": evenly}


def company(near: list[Any] | None = None, away: list[Any] | None = None) -> dict[str, Any]:
    must = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"podAffinity": {must: near or []}, "podAntiAffinity": {must: away or []}}}


def term(key: str, labels: dict[str, str], namespaces: dict[str, Any] | None = None) -> dict[str, Any]:
    about = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return about if namespaces is None else about | {"namespaceSelector": namespaces}


def spread(key: str, skew: int, labels: dict[str, str]) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _moves(cluster: Cluster, turn: Iterator[PodInfo]) -> Iterator[Callable[[], object]]:
    return (partial(_move, cluster, pod) for pod in turn)


def _move(cluster: Cluster, pod: PodInfo) -> None:
    cluster.remove_pod(pod.uid)
    cluster.put_pod(pod)


def _verdicts(
    cluster: Cluster, turn: Iterator[PodInfo], company: dict[str, Any], places: NodeIndices | None = None
) -> Iterator[Callable[[], object]]:
    """Verdicts on a pod of one workload after another, after a pod has moved."""
    for number, pod in enumerate(turn):
        cluster.put_pod(pod._replace(node=f"n{number}"))
        workload = number * 37 % WORKLOADS
        text = msgspec.json.encode(pod_json(workload, company)).replace(b"@", str(workload).encode())
        yield partial(_verdict, cluster, msgspec.json.decode(text, type=SchedulingPod), places)
        cluster.put_pod(pod)


def _verdict(cluster: Cluster, pod: SchedulingPod, places: NodeIndices | None) -> NodeIndices:
    return run_filters(IncomingPod.from_pod(pod), cluster, places).feasible


def _timed(calls: Iterator[Callable[[], object]]) -> list[float]:
    """How long each of some calls takes, in microseconds."""
    times = []
    for call in islice(calls, _REPEATS):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e6)
    return times


def _print(name: str, times: list[float]) -> None:
    middle, most = cuts(times)
    print(f"| {name} | {middle:,.0f} µs | {most:,.0f} µs |")


def cuts(times: list[float]) -> tuple[float, float]:
    """What half of them stay under, and all but one in a hundred."""
    found = statistics.quantiles(times, n=100)
    return found[49], found[98]


def _read(thing: dict[str, Any], kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(thing), type=kind)
