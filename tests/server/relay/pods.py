"""A gate with its relay, as in a pod, and reviews that it answers."""

import shutil
import ssl
from pathlib import Path
from typing import Self

import httpx

from e2e.local.ports import free_ports
from tests.haproxy import LOOPBACK, HaproxyProcess, create_controller
from tests.server.app_harness import MUTATE, Log, create_review
from tests.server.process import ServerProcess


class Pod:
    """A gate, its relay, and the controller that gives the relay the gate's certificate."""

    def __init__(self, folder: Path, peer: int = 1) -> None:
        listen, monitor = (f"{LOOPBACK}:{port}" for port in free_ports(2))  # kept for a gate that is started again
        self.gate = ServerProcess(folder, listen=listen, monitor=monitor)
        self.relay = HaproxyProcess(self.gate.port, self.gate.monitor_port, peer)
        self.log = Log()
        self.controller = create_controller(self.relay.folder, folder, self.log)
        self.controller.reconcile()

    def __enter__(self) -> Self:
        self.relay.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.__exit__()
        self.gate.kill()

    def client(self) -> httpx.Client:
        """Return a client of the relay."""
        context = ssl.create_default_context(cafile=str(self.gate.folder / "ca.crt"))
        return httpx.Client(base_url=f"https://localhost:{self.relay.port}", verify=context, timeout=40)

    def restart_gate(self) -> None:
        """Start the gate again, on its ports."""
        listen, monitor = (f"{LOOPBACK}:{port}" for port in (self.gate.port, self.gate.monitor_port))
        self.gate = ServerProcess(self.gate.folder, listen=listen, monitor=monitor)


def copy_certificates(source: Path, target: Path) -> Path:
    """Copy all files of a folder of certificates; return the new folder."""
    shutil.copytree(source, target)
    return target


def post(client: httpx.Client, name: str = "one", *, timeout: str = "5s", path: str = MUTATE) -> httpx.Response:
    """Send a review as an API server does, with its timeout; return the response."""
    return client.post(f"{path}?timeout={timeout}", content=create_review(name))
