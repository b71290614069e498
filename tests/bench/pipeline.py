"""The whole pipeline over TLS: tallygate with the shipped policies beside a bare Flask view, interleaved in one run."""

import statistics
import tempfile
from pathlib import Path

from tests.bench.load import Measured, run
from tests.bench.servers import Running, certificate, serving

REVIEW = Path(__file__).parent / "review.json"
CONNECTIONS = (1, 8, 32)


def serve_arguments(folder: Path) -> list[str]:
    """The gate as an operator starts it, on free ports."""
    listen = ["--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0"]
    return ["-m", "webhook.cli", "serve", *listen, "--tls-cert", f"{folder}/tls.crt", "--tls-key", f"{folder}/tls.key"]


def main(rounds: int = 3, seconds: int = 4) -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate(folder)
        bare_arguments = ["-m", "tests.bench.bare", str(folder)]
        with serving(serve_arguments(folder)) as ours, serving(bare_arguments) as bare:
            print(
                f"ready in {ours.started_in:.2f} s, {ours.rss_mib():.0f} MiB (bare Flask: {bare.started_in:.2f} s, "
                f"{bare.rss_mib():.0f} MiB)\n"
            )
            print(
                f"{REVIEW.stat().st_size} byte review, TLS 1.3, keep-alive, median of {rounds} interleaved rounds of "
                f"{seconds} s\n"
            )
            print("| connections | server | requests/s | p50 µs | p99 µs | CPU µs/request | failed |")
            print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
            for connections in CONNECTIONS:
                _compare(ours, bare, connections, (rounds, seconds), folder)
            print(f"\nafter the load: {ours.rss_mib():.0f} MiB (bare Flask: {bare.rss_mib():.0f} MiB)")


def _compare(ours: Running, bare: Running, connections: int, effort: tuple[int, int], folder: Path) -> None:
    rounds, seconds = effort
    taken: dict[str, list[Measured]] = {"tallygate": [], "bare Flask": []}
    for _ in range(rounds):
        for label, server in (("tallygate", ours), ("bare Flask", bare)):
            taken[label].append(run(server, connections, seconds, REVIEW, folder))
    middle = {label: _median(runs) for label, runs in taken.items()}
    for label, each in middle.items():
        print(
            f"| {connections} | {label} | {each.per_second:,.0f} | {each.p50} | {each.p99} | {each.cpu:.0f} | "
            f"{each.failed} |"
        )
    mine, theirs = middle["tallygate"], middle["bare Flask"]
    print(
        f"| {connections} | *ratio* | **{mine.per_second / theirs.per_second:.2f} ×** | {mine.p50 / theirs.p50:.2f} | "
        f"**{mine.p99 / theirs.p99:.2f}** | {mine.cpu / theirs.cpu:.2f} | |"
    )


def _median(runs: list[Measured]) -> Measured:
    return Measured(
        per_second=statistics.median(each.per_second for each in runs),
        p50=round(statistics.median(each.p50 for each in runs)),
        p99=round(statistics.median(each.p99 for each in runs)),
        cpu=statistics.median(each.cpu for each in runs),
        failed=sum(each.failed for each in runs),
    )
