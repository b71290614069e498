"""Predictions for pods with claims for devices: 500 nodes with 4,000 devices, 5,000 with 40,000.

Half of the devices are allocated. Each device has attributes of its own, so that no two are alike. The memory is that
of this process with the whole cluster.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.device_index import DeviceIndex
from tallygate.webhook.accounting.cluster.ingest import ingest
from tallygate.webhook.accounting.cluster.storage_index import StorageIndex
from tallygate.webhook.accounting.scheduling.filters import run_filters
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.placement import open_placement_session
from tallygate.webhook.accounting.scheduling.schedule import schedule_one
from tallygate.webhook.objects.scheduling import SchedulingPod

_SIZES = (500, 5_000)
_DEVICES = 8
_REPEATS = 50
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
        pod = _create_pod({"resourceClaimName": "mine"}, uid="uid-pod")
        times = [_measure_verdict(cluster, pod) for _ in range(_REPEATS)]
        copies, each = _measure_copies(cluster, _create_pod({"resourceClaimTemplateName": "gpu"}))
        print(
            f"| {nodes:,} | {nodes * _DEVICES:,} | {times[0]:,.1f} | {statistics.median(times):,.2f} | {copies:,} | "
            f"{each:,.0f} | {read_memory():,.0f} |"
        )


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


def _create_cluster(nodes: int) -> Cluster:
    cluster = Cluster()
    cluster.storage, cluster.devices = StorageIndex(), DeviceIndex()
    device_class = {"selectors": [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]}
    _put(cluster, "DeviceClass", {"metadata": {"name": "gpu"}, "spec": device_class})
    for number in range(nodes):
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        _put(cluster, "Node", {"metadata": {"name": f"node-{number}"}, "status": {"allocatable": amounts}})
        _put(cluster, "ResourceSlice", create_slice(number))
        for claim in list_claims(number):
            _put(cluster, "ResourceClaim", claim)
    _put(cluster, "ResourceClaim", {"metadata": {"name": "mine", "namespace": "default"}, "spec": _SPEC})
    _put(
        cluster, "ResourceClaimTemplate", {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {"spec": _SPEC}}
    )
    return cluster


def create_slice(number: int) -> Json:
    """Return the slice of a node, with eight devices."""
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
    return {"metadata": {"name": f"slice-{number}"}, "spec": spec}


def list_claims(number: int) -> Iterator[Json]:
    """Yield the claims with half of the devices of a node."""
    for index in range(_DEVICES // 2):
        result = {"request": "gpu", "driver": _DRIVER, "pool": f"node-{number}", "device": f"gpu-{index}"}
        yield {
            "metadata": {"name": f"claim-{number}-{index}", "namespace": "default"},
            "spec": _SPEC,
            "status": {"allocation": {"devices": {"results": [result]}}},
        }


def _create_pod(claim: Json, uid: str = "") -> IncomingPod:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": "gpu", **claim}],
    }
    written = {"metadata": {"name": "pod", "namespace": "default", "uid": uid}, "spec": spec}
    return IncomingPod.from_pod(msgspec.json.decode(msgspec.json.encode(written), type=SchedulingPod))


def _put(cluster: Cluster, kind: str, written: Json) -> None:
    ingest(cluster, kind, msgspec.json.encode(written))


def read_memory() -> float:
    """Return the resident memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024
