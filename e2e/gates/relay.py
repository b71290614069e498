"""A gate with a relay in front, as two processes of this machine that stand for a pod: called by the relay's URL."""

import re
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from e2e.gates.forked import TALLYGATE, fork
from e2e.gates.process import GateProcess
from e2e.gates.reload_checks import match_certificate
from e2e.gates.running import LOOPBACK, WITHIN, RunningGate
from e2e.local.ports import free_ports
from e2e.waiting import until
from tallygate.certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE

# As in deploy/: a connection to the pod at its very end reaches the relay, and the relay reaches its gate.
_RELAYS_DELAY = "--drain-delay=2s"
_GATES_DELAY = "--drain-delay=4s"

_AS_LONG_AS_ASKED = "--decision-timeout=30s"  # the longest timeout of an API server


class RelayProcess(RunningGate):
    """`tallygate relay` on a port of loopback, before a gate on another one."""

    def __init__(self, folder: Path, port: int, gate: int, certificates: Path) -> None:
        """Prepare it to serve on `port` with the files in `certificates`, for its gate on the port `gate`."""
        (monitor,) = free_ports(1)
        super().__init__(folder, monitor)
        folder.mkdir()
        self._certificates = certificates
        self._command = (
            *TALLYGATE,
            "relay",
            f"--listen={LOOPBACK}:{port}",
            f"--monitor={LOOPBACK}:{monitor}",
            f"--tls-cert={certificates / CHAIN_FILE}",
            f"--tls-key={certificates / KEY_FILE}",
            f"--upstream={LOOPBACK}:{gate}",
            _RELAYS_DELAY,
            _AS_LONG_AS_ASKED,
        )

    def start(self, others: str = "") -> None:
        """Run it, and wait until it is ready; `others` (`HOST:PORT`) leads to other gates, where there are any.

        Raises:
            ClusterError: if it ends, or is not ready in time.
        """
        more = (f"--peers={others}", f"--peers-ca-file={self._certificates / CA_FILE}") if others else ()
        self.run((*self._command, *more), {}, fork)

    def count_answers(self, upstream: str) -> int:
        """Return the number of reviews answered by its `local` gate, by a `peer`, or by `none`."""
        found = re.search(
            rf'^tallygate_relay_requests_total\{{upstream="{upstream}"\}} (\d+)', self.metrics(), re.MULTILINE
        )
        return int(found[1]) if found else 0

    def reload_certificate(self) -> None:
        """Return once it serves with the files that are in `certificates` now.

        Raises:
            ClusterError: if it does not in time.
        """
        is_so = match_certificate(self._certificates)
        until("the relay has reloaded the certificate", lambda: is_so(self.readiness()), WITHIN, self.log)


class RelayedGate(GateProcess):
    """Gate and relay of one pod. Only the gate is killed and frozen; both are started and ended, as by a kubelet."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), certificates: Path | None = None) -> None:
        """Prepare both as a gate; `others` may be set until it is started."""
        (own_port,) = free_ports(1)
        own = (*arguments, f"--listen={LOOPBACK}:{own_port}", _GATES_DELAY)
        super().__init__(folder, arguments=own, certificates=certificates)
        self.relay = RelayProcess(folder / "relay", self.port, own_port, self.certificates)
        self.others = ""
        """`HOST:PORT` of what leads to the other gates; empty when there are none."""

    def start(self) -> None:
        """Start whichever of both does not run, and wait until it is ready.

        Raises:
            ClusterError: if one ends, or is not ready in time.
        """
        if not self.relay.runs:
            self.relay.start(self.others)
        super().start()

    def stop(self) -> None:
        """End both by SIGTERM, sent at the same time, and wait until they have ended."""
        with ThreadPoolExecutor(1) as beside:
            ended = beside.submit(self.relay.stop)
            super().stop()
            ended.result()

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
        self.relay.reload_certificate()

    def readiness(self) -> dict[str, Any]:
        """Return `/readyz` of the gate with the relay's checks: a pod is ready when all its containers are.

        Raises:
            OSError: if one of both does not run.
        """
        own_readiness = super().readiness()
        checks = {f"relay-{name}": check for name, check in self.relay.readiness()["checks"].items()}
        return own_readiness | {"checks": own_readiness["checks"] | checks}
