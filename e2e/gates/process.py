"""The gate as a process on this machine, called by URL."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from certs.names import parse_names
from certs.renewal import issue
from e2e.errors import ClusterError
from e2e.gates import taken
from e2e.local.component import Component, Launch
from e2e.local.ports import free_ports
from e2e.policy_files import SHIPPED_FILES
from e2e.waiting import until
from webhook.admission.registration import Url

_ROOT = Path(__file__).parents[2]
_LOOPBACK = "127.0.0.1"
HERE = "0.0.0.0"  # noqa: S104  nothing listens on it
"""This machine, as Go dials it (net.Dial). To an address of loopback an API server would speak HTTP/2, as it never does
to a Service (k8s.io/apiserver, pkg/util/webhook/client.go, v1.36)."""
_WITHIN = 120.0  # seconds, until it is ready or has taken something up; it takes one
_ANSWER = 30.0  # seconds for a health answer


class GateProcess:
    """`tallygate serve`, with everything it reads and writes in one folder; its policies are files in `policies`.

    `arguments` are more of its command line. `certificates` names a folder where those of several replicas lie already.
    """

    def __init__(
        self, folder: Path, host: str = _LOOPBACK, arguments: Sequence[str] = (), certificates: Path | None = None
    ) -> None:
        """Make its certificates, if there are none; the policies are the shipped ones until others are written."""
        self._folder = folder
        self.policies = folder / "policies"
        self.policies.mkdir(parents=True)
        self.certificates = certificates or folder / "certs"
        called = HERE if host == _LOOPBACK else host
        if certificates is None:
            issue(self.certificates, parse_names([called]), datetime.now(UTC))
        # Kept for as long as the gate is: what calls it knows the port, also while the gate is stopped.
        self.port, self._monitor = free_ports(2)
        self.reached = Url(f"https://{f'[{called}]' if ':' in called else called}:{self.port}")
        # An address by which others reach this machine need not be one that it has: then it listens on all.
        listen = _LOOPBACK if host == _LOOPBACK else "[::]" if ":" in host else "0.0.0.0"  # noqa: S104  asked for
        command = _command(f"{listen}:{self.port}", self._monitor, self.certificates, self.policies)
        self._command = (*command, *arguments)
        self._component: Component | None = None
        self.write_policies(SHIPPED_FILES)
        self._client = build_opener(ProxyHandler({}))

    def start(self) -> None:
        """Run it, and wait until it is ready.

        Raises:
            ClusterError: it ends, or is not ready in time.
        """
        launch = Launch("tallygate", self._command, f"http://{_LOOPBACK}:{self._monitor}/readyz")
        self._component = component = Component(launch, self._folder, {"PYTHONPATH": str(_ROOT)})
        until("the gate is ready", lambda: self._is_ready(component), _WITHIN, self.log)

    def check(self) -> None:
        """See that it still runs.

        Raises:
            ClusterError: it does not, or ended by itself; the text has the end of its log.
        """
        self._running().check()

    @property
    def monitor(self) -> str:
        """The URL of its monitor port."""
        return f"http://{_LOOPBACK}:{self._monitor}"

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._component is not None

    def stop(self) -> None:
        """End it by SIGTERM, and wait until it has ended; nothing happens when it does not run."""
        if self._component is not None:
            self._component.stop()
            self._component = None

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it has ended.

        Raises:
            ClusterError: it does not run.
        """
        self._running().signal(signal.SIGKILL)
        self.stop()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold the process up for as long as the block runs."""
        component = self._running()
        component.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            component.signal(signal.SIGCONT)

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Let these be the policy files, by name; return once the gate has them, or has refused them.

        Raises:
            ClusterError: it has not in time.
        """
        for file in self.policies.iterdir():
            if file.name not in files:
                file.unlink()
        for name, text in files.items():
            beside = self.policies / f".{name}.new"
            beside.write_text(text)
            beside.rename(self.policies / name)
        if self._component is not None:
            self._until("the policies are taken up", taken.policies(files))

    def take_up_certificate(self) -> None:
        """Return once it serves with what is in `certificates` now.

        Raises:
            ClusterError: it does not in time.
        """
        self._until("the certificate is taken up", taken.certificate(self.certificates))

    def readiness(self) -> dict[str, Any]:
        """What its `/readyz` says, ready or not."""
        try:
            with self._client.open(f"http://{_LOOPBACK}:{self._monitor}/readyz", timeout=_ANSWER) as answer:
                said: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            said = json.load(error)
        return said

    def metrics(self) -> str:
        """What its `/metrics` says."""
        with self._client.open(f"http://{_LOOPBACK}:{self._monitor}/metrics", timeout=_ANSWER) as answer:
            text: str = answer.read().decode()
        return text

    def log(self) -> str:
        """Everything it has logged."""
        return self._running().log.read_text()

    def _until(self, what: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        until(what, lambda: is_so(self.readiness()), _WITHIN, self.log)

    def _is_ready(self, component: Component) -> bool:
        component.check()
        return component.is_ready(self._client)

    def _running(self) -> Component:
        if self._component is None:
            raise ClusterError("the gate does not run")
        return self._component


def _command(listen: str, monitor: int, certificates: Path, policies: Path) -> tuple[str, ...]:
    return (
        sys.executable,
        "-m",
        "webhook.cli",
        "serve",
        f"--listen={listen}",
        f"--monitor={_LOOPBACK}:{monitor}",
        f"--tls-cert={certificates / 'tls.crt'}",
        f"--tls-key={certificates / 'tls.key'}",
        f"--policies={policies}",
        "--drain-delay=1s",  # a client that is busy hears of it well before
    )
