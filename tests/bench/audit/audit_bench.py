"""Measure a gate that audits and one that does not, in turn, and print a table in Markdown."""

import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from tests.bench.audit.deployment_api import DEPLOYMENTS
from tests.bench.cluster.informer_bench import write_kubeconfig
from tests.bench.comparison import REVIEW
from tests.bench.load import LoadResult, run_load
from tests.bench.pipeline import create_serve_arguments
from tests.bench.servers import RunningServer, issue_certificate, run_server

_CONNECTIONS = (1, 8)
_FIGURES = ("per_second", "p50", "p99")
_START_TIMEOUT = 60.0  # seconds, until the first audit has begun

Runs = dict[str, list[LoadResult]]


def main(rounds: int = 15, seconds: int = 1) -> None:
    """Measure and print the table."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        issue_certificate(folder)
        with run_server(["-m", "tests.bench.audit.deployment_api", name]) as api:
            arguments = [
                *create_serve_arguments(folder),
                "--cluster=kubeconfig",
                f"--kubeconfig={write_kubeconfig(folder, api.port)}",
            ]
            with run_server([*arguments, "--audit-interval=1s"]) as audits, run_server(arguments) as plain:
                count_pages = _create_page_counter(folder, api.port)
                before = _wait_for_audit(count_pages)
                results = {each: _measure(audits, plain, each, (rounds, seconds), folder) for each in _CONNECTIONS}
                pages = count_pages() - before
    print(f"{DEPLOYMENTS:,} Deployments; {pages:,} pages were read. {rounds} rounds of {seconds} s; of each")
    print("figure the worst of the best quarter: other load on a machine only adds.\n")
    print("| connections | gate | requests/s | p50 µs | p99 µs | failed |\n| ---: | --- | ---: | ---: | ---: | ---: |")
    for connections, runs in results.items():
        _print(connections, runs)


def _create_page_counter(folder: Path, port: int) -> Callable[[], int]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    return lambda: int(urlopen(f"https://127.0.0.1:{port}/pages", context=context).read())


def _wait_for_audit(count_pages: Callable[[], int]) -> int:
    """Wait until pages are read one after the other; return their number."""
    deadline, before = time.monotonic() + _START_TIMEOUT, count_pages()
    while (now := count_pages()) < before + 100:
        if time.monotonic() > deadline:
            raise SystemExit("no audit has begun")
        time.sleep(0.1)
    return now


def _measure(
    audits: RunningServer, plain: RunningServer, connections: int, effort: tuple[int, int], folder: Path
) -> Runs:
    rounds, seconds = effort
    results: Runs = {"audits": [], "does not": []}
    for _ in range(rounds):
        results["audits"].append(run_load(audits, connections, seconds, REVIEW, folder))
        with _pause(audits):
            results["does not"].append(run_load(plain, connections, seconds, REVIEW, folder))
    return results


@contextmanager
def _pause(server: RunningServer) -> Iterator[None]:
    """Pause a server, so that it uses no processor time, until the block ends."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _print(connections: int, runs: Runs) -> None:
    for label, each in runs.items():
        failed = sum(one.failed for one in each)
        numbers = " | ".join(f"{_get_best_quartile(each, name):,.0f}" for name in _FIGURES)
        print(f"| {connections} | {label} | {numbers} | {failed} |")
    audits, plain = runs.values()
    ratios = " | ".join(
        f"**{_get_best_quartile(audits, name) / _get_best_quartile(plain, name):.2f}**" for name in _FIGURES
    )
    print(f"| {connections} | *ratio* | {ratios} | |")


def _get_best_quartile(runs: list[LoadResult], name: str) -> float:
    numbers: list[float] = sorted((getattr(each, name) for each in runs), reverse=name == "per_second")
    return numbers[len(numbers) // 4]
