"""The whole pipeline over TLS: tallygate with the shipped policies beside a bare Flask view, interleaved in one run.

The view is served with granian's defaults and with few threads, of which a careful user takes the number that serves
best. One request to tallygate is compared with one request to the view.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.compared import HEAD, REVIEW, Effort, compare, ratio
from tests.bench.load import run
from tests.bench.servers import certificate, serving

CONNECTIONS = (1, 8, 32)

_OURS = "tallygate"
_BARE = "bare Flask"
_TUNED = {f"{_BARE}, {threads} thread{'s' * (threads > 1)}": threads for threads in (1, 2, 4)}


def serve_arguments(folder: Path) -> list[str]:
    """The gate as an operator starts it, on free ports."""
    listen = ["--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0"]
    return ["-m", "webhook.cli", "serve", *listen, "--tls-cert", f"{folder}/tls.crt", "--tls-key", f"{folder}/tls.key"]


def main(rounds: int = 3, seconds: int = 4) -> None:
    """Measure and print the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate(folder)
        bare = ["-m", "tests.bench.bare", str(folder)]
        commands = {_OURS: serve_arguments(folder), _BARE: bare}
        commands |= {label: [*bare, str(threads)] for label, threads in _TUNED.items()}
        print(
            f"{REVIEW.stat().st_size} byte review, TLS 1.3, keep-alive, median of {rounds} interleaved rounds of "
            f"{seconds} s\n"
        )
        _compare(commands, rounds, seconds, folder)
        _print_memory(commands, seconds, folder)


def _compare(commands: Mapping[str, Sequence[str]], rounds: int, seconds: int, folder: Path) -> None:
    """All servers beside each other."""
    with ExitStack() as ends:
        servers = {label: ends.enter_context(serving(command)) for label, command in commands.items()}
        print(HEAD)
        for connections in CONNECTIONS:
            found = compare(servers, Effort(rounds, seconds, connections), folder)
            best = max((_BARE, *_TUNED), key=lambda label: found[label].per_second)
            print(ratio(f"ratio to {_BARE}", found[_OURS], found[_BARE], connections))
            print(ratio(f"ratio to the fastest of them ({best})", found[_OURS], found[best], connections))


def _print_memory(commands: Mapping[str, Sequence[str]], seconds: int, folder: Path) -> None:
    """Each server by itself: others would share the pages of the same programs with it."""
    print("\n| server | ready s | MiB (PSS) | after the load |\n| --- | ---: | ---: | ---: |")
    for label, command in commands.items():
        with serving(command) as server:
            began = server.pss_mib()
            run(server, CONNECTIONS[-1], seconds, REVIEW, folder)
            print(f"| {label} | {server.started_in:.2f} | {began:.0f} | {server.pss_mib():.0f} |")
