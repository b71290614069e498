"""The time, processor time and memory of `tallygate serve-ask` over HTTPS, in the cluster of `tests.bench.asks`.

Each page is opened first after a start, and then as by 50 people who load it again every 5 s, each with the ETag that
he has got. Every request has a connection of its own, as the server closes it after a page.
"""

import os
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.asks import MANIFEST, POLICIES
from tests.bench.cluster.informer_bench import write_kubeconfig
from tests.bench.servers import RunningServer, issue_certificate, run_server

_PEOPLE: Final = 50
_RELOAD_SECONDS: Final = 5.0
_SECONDS: Final = 15.0
_ROUNDS: Final = 3
_TIMEOUT: Final = 120.0
_POLL_SECONDS: Final = 0.1


class _Request(NamedTuple):
    """What one person sends."""

    name: str
    path: str
    method: str = "GET"
    body: bytes = b""


_REQUESTS: Final = (
    _Request("My namespace", "/page/namespace?namespace=ns-42"),
    _Request("Caps", "/page/caps"),
    _Request("Nodes", "/page/nodes"),
    _Request("The gate", "/page/gate"),
    _Request("Ask, the form", "/page/ask"),
    _Request("`POST /v1/ask`", "/v1/ask", "POST", MANIFEST.encode()),
    _Request("`GET /v1/usage`", "/v1/usage?namespace=ns-42"),
)


class _Client:
    """The people who ask one server."""

    def __init__(self, folder: Path, port: int) -> None:
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._port = port
        self._tags: dict[tuple[str, str], str] = {}

    def wait_until_ready(self) -> None:
        """Wait until the server has listed the cluster."""
        for _ in range(int(_TIMEOUT / _POLL_SECONDS)):
            connection = HTTPSConnection("127.0.0.1", self._port, context=self._context)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == HTTPStatus.OK:
                return
            connection.close()
            time.sleep(_POLL_SECONDS)
        raise SystemExit(f"the server is not ready in {_TIMEOUT:.0f} s")

    def send(self, request: _Request, user: str) -> tuple[int, float]:
        """Send a request; return the status and the seconds until the whole response is there."""
        headers = {"Authorization": f"Bearer {user}"}
        if tag := self._tags.get((user, request.path)):
            headers["If-None-Match"] = tag
        connection = HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=_TIMEOUT)
        begun = time.perf_counter()
        connection.request(request.method, request.path, request.body or None, headers)
        response = connection.getresponse()
        content = response.read()
        seconds = time.perf_counter() - begun
        connection.close()
        assert response.status in {200, 304}, (request.path, response.status, content)
        if found := response.headers.get("ETag"):
            self._tags[user, request.path] = found
        return response.status, seconds


class _Figures(NamedTuple):
    """The figures of one request after one start.

    The first time and its processor time, the other times and the processor time of each are in seconds; `peak` is the
    most memory in MiB.
    """

    first: float
    first_cpu: float
    others: list[float]
    cpu: float
    unchanged: int
    peak: float


def main() -> None:
    """Measure and print the figures."""
    print(f"Load before: {os.getloadavg()[0]:.1f}; {_ROUNDS} starts for each row.\n")
    print("| | first ms | its CPU ms | p50 ms | p99 ms | CPU ms | not changed | peak MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for request in _REQUESTS:
        figures = [_measure(request) for _ in range(_ROUNDS)]
        others = [seconds for each in figures for seconds in each.others]
        first, first_cpu, cpu, peak = (
            statistics.median(part)
            for part in zip(*((each.first, each.first_cpu, each.cpu, each.peak) for each in figures), strict=True)
        )
        times = (first, first_cpu, statistics.median(others), statistics.quantiles(others, n=100)[98], cpu)
        cells = " | ".join(f"{seconds * 1e3:.0f}" for seconds in times)
        unchanged = sum(each.unchanged for each in figures) / len(others)
        print(f"| {request.name} | {cells} | {unchanged:.0%} | {peak:.0f} |", flush=True)


def _measure(request: _Request) -> _Figures:
    with _run_server() as (server, client):
        before = server.cpu_seconds()
        first = client.send(request, "someone")[1]
        first_cpu = server.cpu_seconds() - before
        idle = _count_idle(server)
        others, unchanged, number = [], 0, 0
        before, begun = server.cpu_seconds(), time.monotonic()
        while time.monotonic() < begun + _SECONDS:
            status, seconds = client.send(request, f"user-{number % _PEOPLE}")
            others.append(seconds)
            unchanged += status == 304
            number += 1
            time.sleep(max(0.0, begun + number * _RELOAD_SECONDS / _PEOPLE - time.monotonic()))
        cpu = (server.cpu_seconds() - before - idle * (time.monotonic() - begun)) / number
        return _Figures(first, first_cpu, others, cpu, unchanged, server.peak_mib())


def _count_idle(server: RunningServer) -> float:
    """Return the share of a core that the server takes without requests: the changes of pods."""
    before, begun = server.cpu_seconds(), time.monotonic()
    time.sleep(_RELOAD_SECONDS)
    return (server.cpu_seconds() - before) / (time.monotonic() - begun)


@contextmanager
def _run_server() -> Iterator[tuple[RunningServer, _Client]]:
    """Run an API server and a server of asks until the block ends; it is ready when the block begins."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        issue_certificate(folder)
        (folder / "policies.yaml").write_text(POLICIES)
        with run_server(["-m", "tests.bench.asked_api", str(folder)]) as api:
            kubeconfig = write_kubeconfig(folder, api.port)
            arguments = [
                *("-m", "tallygate.cli", "serve-ask", "--page=on", "--listen=127.0.0.1:0", "--monitor=127.0.0.1:0"),
                f"--tls-cert={folder / 'tls.crt'}",
                f"--tls-key={folder / 'tls.key'}",
                f"--policies={folder / 'policies.yaml'}",
                "--cluster=kubeconfig",
                f"--kubeconfig={kubeconfig}",
            ]
            with run_server(arguments, {**os.environ, "MALLOC_ARENA_MAX": "2"}) as server:
                client = _Client(folder, server.port)
                client.wait_until_ready()
                yield server, client
