"""The cost of the relay: a gate, and the same gate behind HAProxy with the configuration of deploy/."""

import tempfile
import time
from pathlib import Path

from e2e.local.ports import free_ports
from tests.bench.comparison import HEAD, Effort, compare, format_ratio
from tests.bench.pipeline import CONNECTIONS, create_serve_arguments
from tests.bench.servers import RunningServer, issue_certificate, run_server
from tests.haproxy import LOOPBACK, HaproxyProcess

_RELAYED = "behind the relay"


def main(rounds: int = 3, seconds: int = 4) -> None:
    """Measure and print the table."""
    port, monitor = free_ports(2)
    with tempfile.TemporaryDirectory() as name, HaproxyProcess(port, monitor) as relay:
        folder = Path(name)
        issue_certificate(folder)
        addresses = ["--listen", f"{LOOPBACK}:{port}", "--monitor", f"{LOOPBACK}:{monitor}"]
        arguments = [*create_serve_arguments(folder), *addresses, "--relay-dir", str(relay.folder)]
        with run_server(arguments) as gate:
            started_at = time.monotonic()
            while not (relay.folder / "ca.pem").exists():
                time.sleep(0.01)
            relay.start()
            servers = {
                "gate": gate,
                _RELAYED: RunningServer(relay.pid, relay.port, time.monotonic() - started_at),
            }
            print(HEAD)
            for connections in CONNECTIONS:
                medians = compare(servers, Effort(rounds, seconds, connections), folder)
                print(format_ratio("ratio of relay to gate", medians[_RELAYED], medians["gate"], connections))
            for label, server in servers.items():
                print(f"\n{label}: {server.pss_mib():.0f} MiB (PSS)")
