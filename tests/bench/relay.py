"""The cost of a relay: a gate, the same gate behind its relay, and behind HAProxy where that is installed.

HAProxy (Debian's package) is the alternative. Its configuration does the same as the relay: it terminates TLS, keeps
connections to the gate, checks whether the gate is ready, sends a review again when a connection breaks or the gate is
too busy, limits the time for a whole request, and loads another certificate by its runtime API.
"""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench.comparison import HEAD, Effort, compare, format_ratio
from tests.bench.pipeline import CONNECTIONS, create_serve_arguments
from tests.bench.servers import RunningServer, accepts_connections, issue_certificate, run_server

_PROXY = "behind HAProxy"
_HAPROXY = """\
global
  nbthread 2
  tune.bufsize 131072
  stats socket {folder}/haproxy.sock level admin
defaults
  mode http
  timeout connect 1s
  timeout client 120s
  timeout http-request 10s
  timeout server 5s
  option http-buffer-request
  option redispatch 1
  retries 10
  retry-on conn-failure empty-response response-timeout 503
  http-reuse always
frontend relay
  bind 127.0.0.1:{port} ssl crt {folder}/both.pem ssl-min-ver TLSv1.3
  default_backend gate
backend gate
  option httpchk GET /readyz
  http-check expect status 200
  server own 127.0.0.1:{gate} ssl verify none check
"""


def main(rounds: int = 3, seconds: int = 4) -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder = Path(name)
        issue_certificate(folder)
        gate = ends.enter_context(run_server(create_serve_arguments(folder)))
        servers = {"gate": gate, "behind its relay": ends.enter_context(run_server(_relay_arguments(folder, gate)))}
        if shutil.which("haproxy"):
            servers[_PROXY] = ends.enter_context(_haproxy(folder, gate))
        print(HEAD)
        for connections in CONNECTIONS:
            medians = compare(servers, Effort(rounds, seconds, connections), folder)
            print(format_ratio("ratio of relay to gate", medians["behind its relay"], medians["gate"], connections))
            if _PROXY in servers:
                print(format_ratio("ratio of HAProxy to gate", medians[_PROXY], medians["gate"], connections))
        for label, server in servers.items():
            print(f"\n{label}: {server.pss_mib():.0f} MiB (PSS)")


def _relay_arguments(folder: Path, gate: RunningServer) -> list[str]:
    files = ["--tls-cert", f"{folder}/tls.crt", "--tls-key", f"{folder}/tls.key"]
    ports = ["--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0", "--upstream", f"127.0.0.1:{gate.port}"]
    return ["-m", "tallygate.webhook.cli", "relay", *ports, *files]


@contextmanager
def _haproxy(folder: Path, gate: RunningServer) -> Iterator[RunningServer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    (folder / "both.pem").write_bytes((folder / "tls.crt").read_bytes() + (folder / "tls.key").read_bytes())
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_HAPROXY.format(port=port, folder=folder, gate=gate.port))
    started_at = time.monotonic()
    command = [str(shutil.which("haproxy")), "-db", "-f", str(configuration)]
    process = subprocess.Popen(command)  # noqa: S603  # our own arguments
    try:
        while not accepts_connections(port):
            if process.poll() is not None:
                raise RuntimeError(f"HAProxy ended with {process.returncode}")
            time.sleep(0.01)
        yield RunningServer(process.pid, port, time.monotonic() - started_at)
    finally:
        process.terminate()
        process.wait(60)
