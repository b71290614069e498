"""Predictions for pods with claims for devices: 500 nodes with 4,000 devices, 5,000 with 40,000.

Half of the devices are allocated. Each device has attributes of its own, so that no two are alike. The memory is that
of this process with the whole cluster.

The second table has whole commands on a snapshot of the larger cluster. The third has pods without claims, on the
smaller cluster and on the same one without any device: the calls on the two alternate, so that other load on the
machine slows both.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.cluster.storage_index import StorageIndex
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.schedule import schedule_one
from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.rule_index import RuleIndex
from tallygate.objects.scheduling import SchedulingPod
from tallygate.review.cluster_snapshot import FixedSnapshot
from tallygate.review.schedulability import check_schedulability
from tests.admission.case import parse_policies
from tests.bench.headroom import RUNS, run_command
from tests.bench.schedulability import RULE, RequestedPod, create_request
from tests.bench.scheduling import create_pod

_SIZES = (500, 5_000)
_DEVICES = 8
_REPEATS = 50
_PAIRS = 5_000  # calls on each of two clusters
_DRIVER = "gpu.example.com"
_SELECTOR = f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
_SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu",
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "selectors": [{"cel": {"expression": _SELECTOR}}],
                },
            }
        ]
    }
}
Json = dict[str, Any]


def main() -> None:
    """Measure and print the table."""
    print("| nodes | devices | first verdict ms | verdict p50 ms | copies | µs for each copy | MiB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for nodes in _SIZES:
        cluster = _create_cluster(nodes)
        pod = _create_claiming_pod({"resourceClaimName": "mine"}, uid="uid-pod")
        times = [_measure_verdict(cluster, pod) for _ in range(_REPEATS)]
        copies, each = _measure_copies(cluster, _create_claiming_pod({"resourceClaimTemplateName": "gpu"}))
        print(
            f"| {nodes:,} | {nodes * _DEVICES:,} | {times[0]:,.1f} | {statistics.median(times):,.2f} | {copies:,} | "
            f"{each:,.0f} | {read_memory():,.0f} |"
        )
    _measure_commands(_SIZES[1])
    _compare_without_claims()


def _measure_commands(nodes: int) -> None:
    """Measure and print the table of whole commands on a snapshot."""
    print("\n| nodes | devices | command | s | CPU s | peak MiB |\n| ---: | ---: | --- | ---: | ---: | ---: |")
    with TemporaryDirectory() as folder:
        snapshot, manifest = Path(folder) / "snapshot.json", Path(folder) / "pod.json"
        items = [*_list_nodes(nodes), *_list_devices(nodes)]
        snapshot.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
        written = {"apiVersion": "v1", "kind": "Pod"} | _write_claiming_pod({"resourceClaimTemplateName": "gpu"})
        manifest.write_bytes(msgspec.json.encode(written))
        for name in ("predict", "headroom"):
            runs = [run_command((name, "-f", str(manifest), "--snapshot", str(snapshot))) for _ in range(RUNS)]
            seconds, cpu, peak = (statistics.median(column) for column in zip(*runs, strict=True))
            print(f"| {nodes:,} | {nodes * _DEVICES:,} | `{name}` | {seconds:.2f} | {cpu:.2f} | {peak:.0f} |")


def _compare_without_claims() -> None:
    """Measure and print the table of pods without claims."""
    with_devices, without = _create_cluster(_SIZES[0]), _create_cluster(_SIZES[0], has_devices=False)
    print("\n| a pod without claims | no devices: p50 µs | 4,000 devices: p50 µs | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name, create_call in (
        ("`predict`: all filters, and a node", _create_placement),
        ("the gate's check `never`, fits", partial(_create_check, "never", "500m")),
        ("the gate's check `not-now`, fits", partial(_create_check, "not-now", "500m")),
        ("the gate's check `not-now`, fits nowhere", partial(_create_check, "not-now", "65")),
    ):
        first, second = _time_pairs(create_call(without), create_call(with_devices))
        print(f"| {name} | {first:,.1f} | {second:,.1f} | {second / first:.3f} |")


def _create_placement(cluster: Cluster) -> Callable[[], object]:
    """Return a call that places one copy of a pod and removes it."""
    written = create_pod(0, {}) | {"metadata": {"name": "pod", "namespace": "default"}}
    pod = IncomingPod.from_pod(msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod))

    def place() -> None:
        with open_placement_session(cluster) as session:
            assert session.place(pod, 1, run_filters(pod, cluster)).nodes

    return place


def _create_check(rule: str, cpu: str, cluster: Cluster) -> Callable[[], object]:
    """Return a call of the gate's check on a review of a pod."""
    request = create_request(0, {}, RequestedPod("", cpu, "1", 0, "", ""))
    index = RuleIndex(parse_policies(RULE % rule))
    selection = index.select(request.kind, request.namespace, None)
    return partial(check_schedulability, DecodedRequest(request, index.targets), selection, FixedSnapshot(cluster))


def _time_pairs(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Return the median microseconds of two calls that alternate; each begins as often as the other."""
    times: dict[Callable[[], object], list[float]] = {first: [], second: []}
    for number in range(_PAIRS):
        for call in (first, second) if number % 2 else (second, first):
            begun = time.perf_counter()
            call()
            times[call].append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times[first]), statistics.median(times[second])


def _measure_verdict(cluster: Cluster, pod: IncomingPod) -> float:
    """Return the milliseconds of one attempt on all nodes."""
    begun = time.perf_counter()
    result = schedule_one(pod, cluster, run_filters(pod, cluster))
    taken = (time.perf_counter() - begun) * 1e3
    assert len(result.nodes) == len(cluster.nodes), result.message
    return taken


def _measure_copies(cluster: Cluster, pod: IncomingPod) -> tuple[int, float]:
    """Return the number of copies that get devices, and the microseconds for each."""
    wanted = len(cluster.nodes) * _DEVICES
    with open_placement_session(cluster) as session:
        begun = time.perf_counter()
        placed = len(session.place(pod, wanted, run_filters(pod, cluster)).nodes)
        return placed, (time.perf_counter() - begun) * 1e6 / placed


def _create_cluster(nodes: int, *, has_devices: bool = True) -> Cluster:
    cluster = Cluster()
    cluster.storage = StorageIndex()
    for each in _list_nodes(nodes):
        ingest(cluster, each["kind"], msgspec.json.encode(each))
    if has_devices:
        cluster.devices = DeviceIndex()
        for each in _list_devices(nodes):
            ingest(cluster, each["kind"], msgspec.json.encode(each))
    return cluster


def _list_nodes(nodes: int) -> Iterator[Json]:
    for number in range(nodes):
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "example.com/device-0": "8"}
        metadata = {"name": f"node-{number}", "uid": f"n{number}", "resourceVersion": "1"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}}


def _list_devices(nodes: int) -> Iterator[Json]:
    """Yield the class, slices, claims and the template of claims."""
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    yield _write("DeviceClass", {"name": "gpu"}, {"selectors": selectors})
    for number in range(nodes):
        yield create_slice(number)
        yield from list_claims(number)
    yield _write("ResourceClaim", {"name": "mine", "namespace": "default"}, _SPEC)
    yield _write("ResourceClaimTemplate", {"name": "gpu", "namespace": "default"}, {"spec": _SPEC})


def _write(kind: str, metadata: Json, spec: Json) -> Json:
    identity = {"uid": f"{kind} {metadata['name']}", "resourceVersion": "1"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata | identity, "spec": spec}


def create_slice(number: int) -> Json:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": "a100"},
                "driverVersion": {"version": "1.2.3"},
                "pci": {"string": f"0000:{index:02}:00.0"},
                "uuid": {"string": f"GPU-{number:06}-{index}"},
            },
            "capacity": {"memory": {"value": "80Gi"}, "multiprocessors": {"value": "108"}},
        }
        for index in range(_DEVICES)
    ]
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return _write("ResourceSlice", {"name": f"slice-{number}"}, spec)


def list_claims(number: int) -> Iterator[Json]:
    """Yield the claims with half of the devices of a node."""
    for index in range(_DEVICES // 2):
        result = {"request": "gpu", "driver": _DRIVER, "pool": f"node-{number}", "device": f"gpu-{index}"}
        claim = _write("ResourceClaim", {"name": f"claim-{number}-{index}", "namespace": "default"}, _SPEC)
        yield claim | {"status": {"allocation": {"devices": {"results": [result]}}}}


def _create_claiming_pod(claim: Json, uid: str = "") -> IncomingPod:
    written = _write_claiming_pod(claim)
    written["metadata"]["uid"] = uid
    return IncomingPod.from_pod(msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod))


def _write_claiming_pod(claim: Json) -> Json:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "gpu", **claim}],
    }
    return {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec}


def read_memory() -> float:
    """Return the resident memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024
