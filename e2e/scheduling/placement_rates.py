"""`python -m e2e.scheduling.placement_rates`: a headroom beside the time that kube-scheduler takes for as many pods.

Nodes with eight devices each are all that the cluster has. The scheduler starts when all pods and their claims are
stored, so that no controller and no client competes with it, and no client limit slows it. Its time is the one between
the first and the last binding in its log, without its start. It also writes claims and pods, which a headroom does not:
the processor's time of the scheduler alone, without that of the API server and etcd, is the stricter comparison.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import msgspec

from e2e.errors import BuildError, ClusterError
from e2e.local.build import kubernetes_version
from e2e.scheduling.api import Api, Object, RejectedError
from e2e.scheduling.plane import Plane, plane
from e2e.waiting import until
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tallygate.cli.connection import Connection
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR
from tallygate.cli.predict.cluster_input import read_cluster
from tallygate.cli.sources.cluster_source import ClusterSource
from tallygate.objects.scheduling import SchedulingPod

CONTROLLER = "resourceclaim-controller"
"""The controller that makes claims from templates."""

_DEVICES = 8  # of each node
_DRIVER = "gpu.example.com"
_RESOURCE = "example.com/gpu"
_NAMESPACE = "default"
_RUNS = 3
_WITHIN = 900.0  # seconds for all pods
_BOUND = re.compile(rb'^I(\d{4} [\d:.]+) .*"Successfully bound pod to node"', re.MULTILINE)
_SELECTOR = f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
_SHAPES: dict[str, Object] = {
    "a claim for one device, from a template": {
        "containers": [{"name": "main", "image": "example.com/none:1"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    },
    "one of an extended resource": {
        "containers": [
            {
                "name": "main",
                "image": "example.com/none:1",
                "resources": {"requests": {_RESOURCE: "1"}, "limits": {_RESOURCE: "1"}},
            }
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, and seconds of the processor."""

    clock: float
    processor: float


@dataclass(frozen=True, slots=True)
class PlacementRate:
    """The pods of one shape: their number, and the costs of the scheduler, of the headroom and of the whole command."""

    shape: str
    pods: int
    scheduler: Cost
    function: Cost
    command: Cost


def measure_placement_rates(running: Plane, nodes: int) -> Iterator[PlacementRate]:
    """Yield the rates on a new control plane with this number of nodes.

    Raises:
        ClusterError: if a headroom is not the number of devices, or the scheduler does not place as many pods.
    """
    running.scheduler.stop()
    count = nodes * _DEVICES
    _create_all(running, [*_create_kinds(), *(each for number in range(nodes) for each in _create_node(number))])
    for number, (shape, spec) in enumerate(_SHAPES.items()):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": _NAMESPACE}, "spec": spec}
        function, command = _time_headroom(running.kubeconfig, pod, count)
        _create_all(running, [_set_name(pod, f"pod-{number}-{index}") for index in range(count)])
        if "resourceClaims" in spec:
            with closing(Api(running.access)) as api:
                until(f"{count:,} pods have claims", partial(_have_claims, api, count), _WITHIN)
        yield PlacementRate(shape, count, _time_scheduler(running, count), function, command)


def _time_headroom(kubeconfig: Path, pod: Object, expected: int) -> tuple[Cost, Cost]:
    """Return the median cost of the function, each time on a cluster that was just read, and of the command."""
    functions, commands = [], []
    decoded = msgspec.json.decode(json.dumps(_set_name(pod, "more")), type=SchedulingPod)
    for _ in range(_RUNS):
        cluster = read_cluster(ClusterSource(Connection(kubeconfig))).require_columns()
        begun = _read_clocks()
        total = compute_remaining_capacity(IncomingPod.from_pod(decoded), cluster).total
        functions.append(_compute_cost(begun, _read_clocks()))
        begun = _read_clocks()
        printed = _run_headroom(kubeconfig, json.dumps(_set_name(pod, "more")))
        commands.append(_compute_cost(begun, _read_clocks()))
        (found,) = json.loads(printed)["items"]
        if not total == found["copies"] == expected:
            raise ClusterError(f"the headroom is {total:,}, and by the command {found['copies']:,}, not {expected:,}")
    return _choose_median(functions), _choose_median(commands)


def _read_clocks() -> tuple[float, float]:
    """Return the time, and the processor's time of this process and of its ended children."""
    used = os.times()
    return time.perf_counter(), time.process_time() + used.children_user + used.children_system


def _compute_cost(begun: tuple[float, float], ended: tuple[float, float]) -> Cost:
    return Cost(ended[0] - begun[0], ended[1] - begun[1])


def _choose_median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(each.clock for each in costs), statistics.median(each.processor for each in costs))


def _run_headroom(kubeconfig: Path, written: str) -> str:
    command = (sys.executable, "-m", "tallygate.cli", "headroom", "-", "-o", "json")
    return subprocess.run(  # noqa: S603  ours, and no shell
        [*command, f"--kubeconfig={kubeconfig}"], input=written, capture_output=True, text=True, check=True
    ).stdout


def _time_scheduler(running: Plane, count: int) -> Cost:
    """Run the scheduler until it has bound this number of pods, and return its cost.

    Its start, of about a second, is in the processor's time.
    """
    position, times = running.scheduler.log.stat().st_size, list[datetime]()

    def has_bound_all() -> bool:
        running.scheduler.check()
        times[:] = _list_bindings(running.scheduler.log, position)
        return len(times) == count

    running.scheduler.start()
    until(f"{count:,} pods are bound", has_bound_all, _WITHIN, running.scheduler.log_end)
    processor = _read_processor_time(running.scheduler.pid)
    running.scheduler.stop()
    return Cost((max(times) - min(times)).total_seconds(), processor)


def _read_processor_time(pid: int) -> float:
    """Return the seconds of the processor that a process has used: utime and stime, as in proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _list_bindings(log: Path, position: int) -> list[datetime]:
    """Return the times of the bindings that the scheduler has logged since a position; klog has no year."""
    with log.open("rb") as file:
        file.seek(position)
        found = _BOUND.findall(file.read())
    year = time.localtime().tm_year
    return [datetime.strptime(f"{year}{each.decode()}", "%Y%m%d %H:%M:%S.%f") for each in found]  # noqa: DTZ007


def _create_all(running: Plane, objects: list[Object]) -> None:
    """Create objects by new connections: the API server closes those that were idle for minutes.

    Raises:
        ClusterError: if it rejects one.
    """
    with closing(Api(running.access)) as api:
        for each in api.make_all(objects):
            if isinstance(each, RejectedError):
                raise ClusterError(str(each))


def _have_claims(api: Api, count: int) -> bool:
    """Return whether the claims of this number of pods are made."""
    return sum("resourceClaimStatuses" in each["status"] for each in api.list_objects("Pod")) == count


def _set_name(pod: Object, name: str) -> Object:
    return pod | {"metadata": pod["metadata"] | {"name": name}}


def _create_kinds() -> Iterator[Object]:
    """Yield the class of the devices, and the template of the claims."""
    version = "resource.k8s.io/v1"
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    yield {"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": _SELECTOR}}]}
    yield {
        "apiVersion": version,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": _NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def _create_node(number: int) -> Iterator[Object]:
    """Yield a node and the slice of its devices, of which no two are alike."""
    name = f"node-{number}"
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", _RESOURCE: str(_DEVICES)}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": "a100"}, "uuid": {"string": f"GPU-{number:06}-{index}"}},
            "capacity": {"memory": {"value": "80Gi"}, "multiprocessors": {"value": "108"}},
        }
        for index in range(_DEVICES)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def format_rates(rates: list[PlacementRate]) -> list[str]:
    """Return the rows of a table in Markdown: the scheduler's cost, and how many times as much it is."""
    return [
        "| a pod with | pods | | s | scheduler's × | CPU s | scheduler's × |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {rate.shape} | {rate.pods:,} | {name} | {cost.clock:.3g} | {rate.scheduler.clock / cost.clock:,.1f} | "
            f"{cost.processor:.3g} | {rate.scheduler.processor / cost.processor:,.1f} |"
            for rate in rates
            for name, cost in (
                ("kube-scheduler", rate.scheduler),
                ("headroom, in process", rate.function),
                ("`tallygate headroom`", rate.command),
            )
        ),
    ]


@click.command()
@click.option("--nodes", type=click.IntRange(1), default=500, show_default=True, help="Number of nodes.")
def main(nodes: int) -> None:
    """Measure and print the table; progress on stderr."""
    rates: list[PlacementRate] = []
    load = os.getloadavg()[0]
    try:
        click.echo("starting etcd, an API server, a controller and a scheduler …", err=True)
        with plane(CONTROLLER) as running:
            for rate in measure_placement_rates(running, nodes):
                click.echo("\n".join(format_rates([rate])[2:]), err=True)
                rates.append(rate)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    click.echo(f"Kubernetes {kubernetes_version()}, {os.cpu_count()} cores, load before: {load:.1f}.\n")
    click.echo("\n".join(format_rates(rates)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
