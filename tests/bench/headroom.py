"""How many more of a pod there is room for, and whole commands: 500 nodes with 2,000 pods, 5,000 with 100,000.

The commands read a snapshot. Time and memory are the process's own, from its start to its end; the median of several.
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

from tests.bench.placing import PODS, WORKLOADS, kept_away, made_up, node_json, pod_json
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from webhook.objects.scheduling import SchedulingPod

_SIZES = ((500, 2_000), (5_000, 100_000))
_REPEATS, _RUNS = 50, 5
_ENOUGH = 20_000.0  # milliseconds
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
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, used = os.wait4(process, 0)
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""
Json = dict[str, Any]


def main() -> None:
    """Print what it costs."""
    print("| nodes | pods | headroom | room | p50 ms |\n| ---: | ---: | --- | ---: | ---: |")
    for nodes, pods in _SIZES:
        cluster, _ = made_up(nodes, pods)
        _counted(cluster, "of a pod by itself", pod_json(3, {}))
        if (nodes, pods) == _SIZES[0]:  # copies that mind each other are placed one by one
            _counted(cluster, "of a pod that is spread over zones", pod_json(3, _SPREAD))
    print("\n| nodes | pods | command | s | CPU s | peak MiB |\n| ---: | ---: | --- | ---: | ---: | ---: |")
    with TemporaryDirectory() as folder:
        for nodes, pods in _SIZES:
            _commands(Path(folder), nodes, pods)


def _counted(cluster: Cluster, name: str, written: Json) -> None:
    """Milliseconds for one question, which is repeated as long as that does not take too long."""
    pod = msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod)
    room, times = compute_remaining_capacity(IncomingPod.from_pod(pod), cluster).total, list[float]()
    while len(times) < _REPEATS and sum(times) < _ENOUGH:
        begun = time.perf_counter()
        compute_remaining_capacity(IncomingPod.from_pod(pod), cluster)
        times.append((time.perf_counter() - begun) * 1e3)
    print(f"| {len(cluster.nodes):,} | {len(cluster):,} | {name} | {room:,} | {statistics.median(times):,.2f} |")


def _commands(folder: Path, nodes: int, pods: int) -> None:
    """Whole commands on a snapshot of this size."""
    snapshot, manifest = folder / "snapshot.json", folder / "pod.json"
    _write(snapshot, nodes, pods)
    manifest.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "Pod"} | _named(pod_json(3, {}), "new")))
    source = ("-f", str(manifest), "--snapshot", str(snapshot))
    for name, arguments in (
        ("headroom", ("headroom", *source)),
        ("predict", ("predict", *source)),
        ("predict -v", ("predict", *source, "-v")),
    ):
        runs = [_run(arguments) for _ in range(_RUNS)]
        seconds, cpu, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"| {nodes:,} | {pods:,} | `{name}` | {seconds:.2f} | {cpu:.2f} | {peak:.0f} |")


def _write(path: Path, nodes: int, pods: int) -> None:
    workloads = pods * WORKLOADS // PODS
    items = [{"kind": "Node", "apiVersion": "v1"} | node_json(number) for number in range(nodes)]
    items += [_stored(number, number % workloads, number * 7919 % nodes) for number in range(pods)]
    path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))


def _stored(number: int, workload: int, place: int) -> Json:
    made = _named(pod_json(workload, kept_away(workload), f"n{place}"), f"p{number}")
    made["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
    return {"kind": "Pod", "apiVersion": "v1"} | made


def _named(made: Json, name: str) -> Json:
    return made | {"metadata": made["metadata"] | {"name": name}}


def _run(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, processor seconds, and MiB at the most, of a command that is started by a small process.

    Linux hands the most that a process ever held on to whatever it starts.
    """
    command = [sys.executable, "-c", _STARTER, sys.executable, "-m", "webhook.cli", *arguments]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 -- ours, and no shell
    seconds, cpu, peak = map(float, said.stdout.split())
    return seconds, cpu, peak
