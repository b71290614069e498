"""The remaining capacity for a pod, and whole commands: 500 nodes with 2,000 pods, 5,000 with 100,000.

The commands read a snapshot. Time and memory are the process's own, from its start to its end; medians of several runs.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tallygate.objects.scheduling import SchedulingPod
from tests.bench.scheduling import PODS, WORKLOADS, create_cluster, create_node, create_pod, get_anti_affinity

_SIZES = ((500, 2_000), (5_000, 100_000))
_REPEATS, RUNS = 50, 5
_MAX_MILLISECONDS = 20_000.0  # of all repetitions
_SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "app-3"}},
        }
    ]
}
_STARTER = """\
import os, sys, time
begun = time.perf_counter()
discard = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=discard)
_, status, used = os.wait4(process, 0)
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""
Json = dict[str, Any]


def main() -> None:
    """Measure and print the tables."""
    print("| nodes | pods | headroom | room | p50 ms |\n| ---: | ---: | --- | ---: | ---: |")
    for nodes, pods in _SIZES:
        cluster, _ = create_cluster(nodes, pods)
        _measure_capacity(cluster, "of a pod by itself", create_pod(3, {}))
        if (nodes, pods) == _SIZES[0]:  # copies that restrict each other are placed one by one
            _measure_capacity(cluster, "of a pod that is spread over zones", create_pod(3, _SPREAD))
    print("\n| nodes | pods | command | s | CPU s | peak MiB |\n| ---: | ---: | --- | ---: | ---: | ---: |")
    with TemporaryDirectory() as folder:
        for nodes, pods in _SIZES:
            _measure_commands(Path(folder), nodes, pods)


def _measure_capacity(cluster: Cluster, name: str, manifest: Json) -> None:
    """Print the milliseconds of one computation; it is repeated within a limit of time."""
    pod = msgspec.json.decode(msgspec.json.encode(manifest), type=SchedulingPod)
    capacity, times = compute_remaining_capacity(IncomingPod.from_pod(pod), cluster).total, list[float]()
    while len(times) < _REPEATS and sum(times) < _MAX_MILLISECONDS:
        begun = time.perf_counter()
        compute_remaining_capacity(IncomingPod.from_pod(pod), cluster)
        times.append((time.perf_counter() - begun) * 1e3)
    print(f"| {len(cluster.nodes):,} | {len(cluster):,} | {name} | {capacity:,} | {statistics.median(times):,.2f} |")


def _measure_commands(folder: Path, nodes: int, pods: int) -> None:
    """Print the figures of whole commands on a snapshot of this size."""
    snapshot, manifest = folder / "snapshot.json", folder / "pod.json"
    _write(snapshot, nodes, pods)
    manifest.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "Pod"} | _set_name(create_pod(3, {}), "new")))
    source = ("-f", str(manifest), "--snapshot", str(snapshot))
    for name, arguments in (
        ("headroom", ("headroom", *source)),
        ("predict", ("predict", *source)),
        ("predict -v", ("predict", *source, "-v")),
    ):
        runs = [run_command(arguments) for _ in range(RUNS)]
        seconds, cpu, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"| {nodes:,} | {pods:,} | `{name}` | {seconds:.2f} | {cpu:.2f} | {peak:.0f} |")


def _write(path: Path, nodes: int, pods: int) -> None:
    workloads = pods * WORKLOADS // PODS
    items = [{"kind": "Node", "apiVersion": "v1"} | create_node(number) for number in range(nodes)]
    items += [_create_stored_pod(number, number % workloads, number * 7919 % nodes) for number in range(pods)]
    path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))


def _create_stored_pod(number: int, workload: int, place: int) -> Json:
    pod = _set_name(create_pod(workload, get_anti_affinity(workload), f"n{place}"), f"p{number}")
    pod["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
    return {"kind": "Pod", "apiVersion": "v1"} | pod


def _set_name(pod: Json, name: str) -> Json:
    return pod | {"metadata": pod["metadata"] | {"name": name}}


def run_command(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Return seconds, processor seconds and peak MiB of a command, which a small process starts.

    Linux passes the peak memory of a process on to every process that it starts.
    """
    command = [sys.executable, "-c", _STARTER, sys.executable, "-m", "tallygate.cli", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 -- ours, and no shell
    seconds, cpu, peak = map(float, done.stdout.split())
    return seconds, cpu, peak
