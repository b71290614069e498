"""The whole pipeline over TLS: tallygate with the shipped policies beside a bare Flask view, interleaved in one run."""

import tempfile
from pathlib import Path

from tests.bench.compared import HEAD, REVIEW, Effort, compare, ratio
from tests.bench.servers import certificate, serving

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
            print(HEAD)
            for connections in CONNECTIONS:
                servers = {"tallygate": ours, "bare Flask": bare}
                found = compare(servers, Effort(rounds, seconds, connections), folder)
                print(ratio(found["tallygate"], found["bare Flask"], connections))
            print(f"\nafter the load: {ours.rss_mib():.0f} MiB (bare Flask: {bare.rss_mib():.0f} MiB)")
