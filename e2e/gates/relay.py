"""A gate with a relay in front, as two processes of this machine that stand for a pod: called by the relay's URL."""

import re
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE
from e2e.gates import taken
from e2e.gates.forked import TALLYGATE, forked
from e2e.gates.process import GateProcess
from e2e.gates.running import LOOPBACK, WITHIN, RunningGate
from e2e.local.ports import free_ports
from e2e.waiting import until

# As in deploy/: whoever is led to the pod at its very end finds the relay, and the relay finds its gate.
_RELAYS_DELAY = "--drain-delay=2s"
_GATES_DELAY = "--drain-delay=4s"

_AS_LONG_AS_ASKED = "--decision-timeout=30s"  # the most that an API server can be told to wait


class RelayProcess(RunningGate):
    """`tallygate relay` on a port of loopback, before a gate on another one."""

    def __init__(self, folder: Path, port: int, gate: int, certificates: Path) -> None:
        """It serves on `port` with what is in `certificates`, and its gate on the port `gate`; it does not run yet."""
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
            ClusterError: it ends, or is not ready in time.
        """
        more = (f"--peers={others}", f"--peers-ca-file={self._certificates / CA_FILE}") if others else ()
        self.run((*self._command, *more), {}, forked)

    def answered_by(self, who: str) -> int:
        """How many reviews had their answer from its `local` gate, from a `peer`, or from `none`."""
        found = re.search(rf'^tallygate_relay_requests_total\{{upstream="{who}"\}} (\d+)', self.metrics(), re.MULTILINE)
        return int(found[1]) if found else 0

    def take_up_certificate(self) -> None:
        """Return once it serves with what is in `certificates` now.

        Raises:
            ClusterError: it does not in time.
        """
        is_so = taken.certificate(self._certificates)
        until("the relay has taken the certificate up", lambda: is_so(self.readiness()), WITHIN, self.log)


class RelayedGate(GateProcess):
    """Gate and relay of one pod. Killed and frozen is the gate alone; started and ended are both, as by a kubelet."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), certificates: Path | None = None) -> None:
        """As a gate's; `others` may be told until it is started."""
        (behind,) = free_ports(1)
        own = (*arguments, f"--listen={LOOPBACK}:{behind}", _GATES_DELAY)
        super().__init__(folder, arguments=own, certificates=certificates)
        self.relay = RelayProcess(folder / "relay", self.port, behind, self.certificates)
        self.others = ""
        """`HOST:PORT` of what leads to the other gates; empty when there are none."""

    def start(self) -> None:
        """Run what of both does not run, and wait until it is ready.

        Raises:
            ClusterError: one ends, or is not ready in time.
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
            ClusterError: it does not run.
        """
        self._running().signal(signal.SIGKILL)
        super().stop()

    def take_up_certificate(self) -> None:
        """Return once both serve with what is in `certificates` now.

        Raises:
            ClusterError: one does not in time.
        """
        super().take_up_certificate()
        self.relay.take_up_certificate()

    def readiness(self) -> dict[str, Any]:
        """What `/readyz` of the gate says, with the relay's checks beside: a pod is ready when all its containers are.

        Raises:
            OSError: one of both does not run.
        """
        said = super().readiness()
        checks = {f"relay-{name}": check for name, check in self.relay.readiness()["checks"].items()}
        return said | {"checks": said["checks"] | checks}
