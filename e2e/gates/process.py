"""The gate as a process on this machine, called by URL."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.gates.forked import TALLYGATE, fork
from e2e.gates.reload_checks import match_certificate, match_policies
from e2e.gates.running import HERE, LOOPBACK, WITHIN, RunningGate
from e2e.local.component import start_new_process
from e2e.local.ports import free_ports
from e2e.policy_files import SHIPPED_FILES, put
from e2e.waiting import until
from tallygate.admission.webhook_configuration import UrlTarget
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue


class GateProcess(RunningGate):
    """`tallygate serve`, with everything it reads and writes in one folder; its policies are files in `policies`.

    `arguments` are more of its command line. `certificates` names a folder where those of several replicas lie already.
    With `new_process` it is started from nothing, otherwise forked from a process that has imported it.
    """

    def __init__(
        self,
        folder: Path,
        host: str = LOOPBACK,
        arguments: Sequence[str] = (),
        certificates: Path | None = None,
        *,
        new_process: bool = False,
    ) -> None:
        """Make its certificates, if there are none; the policies are the shipped ones until others are written."""
        self.policies = folder / "policies"
        self.policies.mkdir(parents=True)
        self.certificates = certificates or folder / "certs"
        called = HERE if host == LOOPBACK else host
        if certificates is None:
            issue(self.certificates, parse_names([called]), datetime.now(UTC))
        # Kept for as long as the gate is: what calls it knows the port, also while the gate is stopped.
        self.port, monitor = free_ports(2)
        super().__init__(folder, monitor)
        self.reached = UrlTarget(f"https://{f'[{called}]' if ':' in called else called}:{self.port}")
        # An address by which others reach this machine need not be one that it has: then it listens on all.
        listen = LOOPBACK if host == LOOPBACK else "[::]" if ":" in host else "0.0.0.0"  # noqa: S104  asked for
        command = _command(f"{listen}:{self.port}", monitor, self.certificates, self.policies)
        self._command = (*command, *arguments)
        self._start = start_new_process if new_process else fork
        self.write_policies(SHIPPED_FILES)

    def start(self) -> None:
        """Run it, and wait until it is ready.

        Raises:
            ClusterError: if it ends, or is not ready in time.
        """
        self.run(self._command, {}, self._start)

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Write these policy files, by name; return once the gate has loaded or rejected them.

        Raises:
            ClusterError: if it has not in time.
        """
        put(files, self.policies)
        if self.runs:
            self._until("the policies are reloaded", match_policies(files))

    def reload_certificate(self) -> None:
        """Return once it serves with the files that are in `certificates` now.

        Raises:
            ClusterError: if it does not in time.
        """
        self._until("the certificate is reloaded", match_certificate(self.certificates))

    def _until(self, what: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        until(what, lambda: is_so(self.readiness()), WITHIN, self.log)


def _command(listen: str, monitor: int, certificates: Path, policies: Path) -> tuple[str, ...]:
    return (
        *TALLYGATE,
        "serve",
        f"--listen={listen}",
        f"--monitor={LOOPBACK}:{monitor}",
        f"--tls-cert={certificates / 'tls.crt'}",
        f"--tls-key={certificates / 'tls.key'}",
        f"--policies={policies}",
        "--log-level=debug",  # cases read what was allowed
        "--drain-delay=1s",  # a busy client notices it well before
    )
