"""The memory of a gate that follows the synthetic cluster: a process of `tallygate serve`, as in the image.

As there, its modules are compiled before, and glibc has two arenas (deploy/image/Dockerfile).
"""

import json
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.bench.cluster.synthetic import CLAIMS, EVENTS, RELIST_REVISION, REVISION
from tests.bench.pipeline import create_serve_arguments
from tests.bench.servers import RunningServer, run_server

_CAPS = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus-of-all}
spec: {shared: true, hard: {nvidia.com/gpu: 10000000, pods: 10000000}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus-of-each}
spec: {hard: {nvidia.com/gpu: 10000, requests.cpu: 10000}}
"""
_TIMEOUT = 300.0  # seconds of each phase
_POLL_SECONDS = 0.1


class GateMemory(NamedTuple):
    """The most resident memory of a gate until the end of each phase, in MiB, and the CPU seconds of the phase."""

    start: float
    listed: float
    changed: float
    relisted: float
    list_cpu: float
    change_cpu: float
    relist_cpu: float


def measure_gate(folder: Path, kubeconfig: Path) -> GateMemory:
    """Run a gate that lists, gets the changes, and lists again; its API server is one whose history expires."""
    (folder / "caps.yaml").write_text(_CAPS)
    arguments = [
        *create_serve_arguments(folder),
        f"--policies={folder}/caps.yaml",
        "--cluster=kubeconfig",
        f"--kubeconfig={kubeconfig}",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["MALLOC_ARENA_MAX"] = "2"
    with run_server(create_serve_arguments(folder), environment) as compiling:
        start = compiling.peak_mib()
    with run_server(arguments, environment) as gate:
        read_watches = _create_watch_reader(folder, gate.port)

        def is_listed() -> bool:
            watches = read_watches()
            return watches["resourceclaims"]["objects"] == CLAIMS and watches["pods"]["revision"] is not None

        cpu = gate.cpu_seconds()
        listed, listed_cpu = _wait(gate, is_listed)
        changed, changed_cpu = _wait(gate, lambda: read_watches()["pods"]["revision"] >= REVISION + EVENTS)
        relisted, relisted_cpu = _wait(gate, lambda: read_watches()["pods"]["revision"] >= RELIST_REVISION)
    return GateMemory(
        start, listed, changed, relisted, listed_cpu - cpu, changed_cpu - listed_cpu, relisted_cpu - changed_cpu
    )


def _create_watch_reader(folder: Path, port: int) -> Callable[[], dict[str, dict[str, int]]]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def read_watches() -> dict[str, dict[str, int]]:
        """Return the state of each watch."""
        try:
            response = urlopen(f"https://127.0.0.1:{port}/readyz", context=context)
        except HTTPError as error:
            response = error
        with response:
            watches: dict[str, dict[str, int]] = json.loads(response.read())["checks"]["watches"]
            return watches

    return read_watches


def _wait(gate: RunningServer, condition: Callable[[], bool]) -> tuple[float, float]:
    """Wait until the condition is met; return the peak and the CPU seconds of the gate then."""
    deadline = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"the gate has not met the condition in {_TIMEOUT:.0f} s")
        time.sleep(_POLL_SECONDS)
    return gate.peak_mib(), gate.cpu_seconds()
