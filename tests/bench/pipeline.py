"""The whole pipeline over TLS: tallygate with the shipped policies and a bare Flask view, interleaved in one run.

The view runs with granian's defaults and with few threads; a careful user takes the number that serves
best. One request to tallygate is compared with one request to the view.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.comparison import HEAD, REVIEW, Effort, compare, format_ratio
from tests.bench.load import run_load
from tests.bench.servers import issue_certificate, run_server

CONNECTIONS = (1, 8, 32)

_OURS = "tallygate"
_BARE = "bare Flask"
_TUNED = {f"{_BARE}, {threads} thread{'s' * (threads > 1)}": threads for threads in (1, 2, 4)}


def create_serve_arguments(folder: Path) -> list[str]:
    """Return the arguments of a gate as an operator starts it, on free ports."""
    listen = ["--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0"]
    return [
        "-m",
        "tallygate.cli",
        "serve",
        *listen,
        "--tls-cert",
        f"{folder}/tls.crt",
        "--tls-key",
        f"{folder}/tls.key",
    ]


def main(rounds: int = 3, seconds: int = 4) -> None:
    """Measure and print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        issue_certificate(folder)
        bare = ["-m", "tests.bench.bare", str(folder)]
        commands = {_OURS: create_serve_arguments(folder), _BARE: bare}
        commands |= {label: [*bare, str(threads)] for label, threads in _TUNED.items()}
        print(
            f"{REVIEW.stat().st_size} byte review, TLS 1.3, keep-alive, median of {rounds} interleaved rounds of "
            f"{seconds} s\n"
        )
        _compare(commands, rounds, seconds, folder)
        _print_memory(commands, seconds, folder)


def _compare(commands: Mapping[str, Sequence[str]], rounds: int, seconds: int, folder: Path) -> None:
    """Compare all servers in turn."""
    with ExitStack() as ends:
        servers = {label: ends.enter_context(run_server(command)) for label, command in commands.items()}
        print(HEAD)
        for connections in CONNECTIONS:
            medians = compare(servers, Effort(rounds, seconds, connections), folder)
            best = max((_BARE, *_TUNED), key=lambda label: medians[label].per_second)
            print(format_ratio(f"ratio to {_BARE}", medians[_OURS], medians[_BARE], connections))
            print(format_ratio(f"ratio to the fastest of them ({best})", medians[_OURS], medians[best], connections))


def _print_memory(commands: Mapping[str, Sequence[str]], seconds: int, folder: Path) -> None:
    """Measure each server alone: other processes of the same program would share its pages."""
    print("\n| server | ready s | MiB (PSS) | after the load |\n| --- | ---: | ---: | ---: |")
    for label, command in commands.items():
        with run_server(command) as server:
            began = server.pss_mib()
            run_load(server, CONNECTIONS[-1], seconds, REVIEW, folder)
            print(f"| {label} | {server.started_in:.2f} | {began:.0f} | {server.pss_mib():.0f} |")
