"""Measure a gate that audits beside one that does not, in turn, and print a table in Markdown."""

import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from tests.bench.auditing.api import DEPLOYMENTS
from tests.bench.cluster.measure import kubeconfig
from tests.bench.compared import REVIEW
from tests.bench.load import Measured, run
from tests.bench.pipeline import serve_arguments
from tests.bench.servers import Running, certificate, serving

_CONNECTIONS = (1, 8)
_FIGURES = ("per_second", "p50", "p99")
_WITHIN = 60.0  # seconds, until the first audit has begun

Runs = dict[str, list[Measured]]


def main(rounds: int = 15, seconds: int = 1) -> None:
    """Measure and print the table."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        certificate(folder)
        with serving(["-m", "tests.bench.auditing.api", name]) as api:
            follows = [*serve_arguments(folder), "--cluster=kubeconfig", f"--kubeconfig={kubeconfig(folder, api.port)}"]
            with serving([*follows, "--audit-interval=1s"]) as audits, serving(follows) as plain:
                asked = _asked(folder, api.port)
                before = _begun(asked)
                taken = {each: _taken(audits, plain, each, (rounds, seconds), folder) for each in _CONNECTIONS}
                pages = asked() - before
    print(f"{DEPLOYMENTS:,} Deployments; {pages:,} pages were read meanwhile. {rounds} rounds of {seconds} s; of each")
    print("figure the worst of the best quarter: whatever else a machine does only adds.\n")
    print("| connections | gate | requests/s | p50 µs | p99 µs | failed |\n| ---: | --- | ---: | ---: | ---: | ---: |")
    for connections, runs in taken.items():
        _print(connections, runs)


def _asked(folder: Path, port: int) -> Callable[[], int]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    return lambda: int(urlopen(f"https://127.0.0.1:{port}/asked", context=context).read())


def _begun(asked: Callable[[], int]) -> int:
    """Wait until pages are read one after the other; how many there were."""
    deadline, before = time.monotonic() + _WITHIN, asked()
    while (now := asked()) < before + 100:
        if time.monotonic() > deadline:
            raise SystemExit("no audit has begun")
        time.sleep(0.1)
    return now


def _taken(audits: Running, plain: Running, connections: int, effort: tuple[int, int], folder: Path) -> Runs:
    rounds, seconds = effort
    taken: Runs = {"audits": [], "does not": []}
    for _ in range(rounds):
        taken["audits"].append(run(audits, connections, seconds, REVIEW, folder))
        with _stopped(audits):
            taken["does not"].append(run(plain, connections, seconds, REVIEW, folder))
    return taken


@contextmanager
def _stopped(server: Running) -> Iterator[None]:
    """It does nothing meanwhile, and takes nothing of the machine."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _print(connections: int, runs: Runs) -> None:
    for label, each in runs.items():
        failed = sum(one.failed for one in each)
        numbers = " | ".join(f"{_undisturbed(each, name):,.0f}" for name in _FIGURES)
        print(f"| {connections} | {label} | {numbers} | {failed} |")
    audits, plain = runs.values()
    ratios = " | ".join(f"**{_undisturbed(audits, name) / _undisturbed(plain, name):.2f}**" for name in _FIGURES)
    print(f"| {connections} | *ratio* | {ratios} | |")


def _undisturbed(runs: list[Measured], name: str) -> float:
    numbers: list[float] = sorted((getattr(each, name) for each in runs), reverse=name == "per_second")
    return numbers[len(numbers) // 4]
