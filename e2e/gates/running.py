"""A gate that runs as a process of this machine: started, queried, frozen, ended, killed."""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from e2e.errors import ClusterError
from e2e.local.component import Component, Launch, Start, start_new_process
from e2e.waiting import until

ROOT: Final = Path(__file__).parents[2]
LOOPBACK: Final = "127.0.0.1"
HERE: Final = "0.0.0.0"  # noqa: S104  nothing listens on it
"""This machine, as Go dials it (net.Dial). To an address of loopback an API server would speak HTTP/2, as it never does
to a Service (k8s.io/apiserver, pkg/util/webhook/client.go, v1.36)."""
WITHIN: Final = 120.0
"""Seconds until it is ready or has reloaded something; it takes one, but a busy machine is slow."""

_ANSWER = 30.0  # seconds for a health answer


class RunningGate:
    """A gate that writes into one folder; `monitor` is the port of loopback of its health and metrics."""

    def __init__(self, folder: Path, monitor: int) -> None:
        self._folder = folder
        self._monitor = monitor
        self._component: Component | None = None
        self._client = build_opener(ProxyHandler({}))

    def run(self, command: Sequence[str], environment: Mapping[str, str], start: Start = start_new_process) -> None:
        """Run this command of it, and wait until it is ready.

        Raises:
            ClusterError: if it ends, or is not ready in time; the text has its log.
        """
        launch = Launch("tallygate", tuple(command), f"{self.monitor}/readyz")
        self._component = component = Component(launch, self._folder, {"PYTHONPATH": str(ROOT), **environment}, start)
        until("the gate is ready", lambda: self._is_ready(component), WITHIN, self.log)

    def check(self) -> None:
        """Check that it still runs.

        Raises:
            ClusterError: if it does not, or ended by itself; the text has the end of its log.
        """
        self._running().check()

    @property
    def monitor(self) -> str:
        """The URL of its monitor port."""
        return f"http://{LOOPBACK}:{self._monitor}"

    @property
    def pid(self) -> int:
        """The process ID of a gate that runs."""
        return self._running().pid

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
            ClusterError: if it does not run.
        """
        self._running().signal(signal.SIGKILL)
        self.stop()

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Freeze the process for as long as the block runs."""
        component = self._running()
        component.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            component.signal(signal.SIGCONT)

    def readiness(self) -> dict[str, Any]:
        """Return the content of its `/readyz`, ready or not."""
        try:
            with self._client.open(f"{self.monitor}/readyz", timeout=_ANSWER) as answer:
                content: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            content = json.load(error)
        return content

    def metrics(self) -> str:
        """Return the content of its `/metrics`."""
        with self._client.open(f"{self.monitor}/metrics", timeout=_ANSWER) as answer:
            text: str = answer.read().decode()
        return text

    def log(self) -> str:
        """Return its log."""
        return self._running().log.read_text()

    def _is_ready(self, component: Component) -> bool:
        component.check()
        return component.is_ready(self._client)

    def _running(self) -> Component:
        if self._component is None:
            raise ClusterError("the gate does not run")
        return self._component
