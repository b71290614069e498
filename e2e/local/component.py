"""One process of the control plane: how it starts, whether it is ready, and that it ends."""

import http.client
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.request import OpenerDirector

from e2e.errors import ClusterError

_PATIENCE = 60.0  # seconds between asking a process to end and ending it; a gate drains, and a relay waits for ten
_ANSWER = 2.0  # seconds for a health answer
_SHOWN_LOG = 20  # lines


@dataclass(frozen=True)
class Launch:
    """A command, its name, and the URL that answers 200 once it is ready."""

    name: str
    command: tuple[str, ...]
    ready: str


class Process(Protocol):
    """A process, with the interface of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; raise subprocess.TimeoutExpired after `timeout` seconds."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send it a signal."""
        ...

    def kill(self) -> None:
        """End it by force."""
        ...


Start = Callable[[Sequence[str], Path, Mapping[str, str]], Process]
"""Starts a command, whose output goes to the end of a log, in the log's folder, with more of an environment."""


def start_new_process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start it as a shell does."""
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  what we built, and no shell
            command,
            cwd=log.parent,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's Ctrl-C is for us; we end the components in their order
        )


class Component:
    """A running process of the control plane, with its log in a file."""

    def __init__(
        self, launch: Launch, folder: Path, environment: Mapping[str, str], start: Start = start_new_process
    ) -> None:
        """Start it; its working folder and its log are in `folder`."""
        self._start = start
        self.name = launch.name
        self.log = folder / f"{launch.name}.log"
        self._launch = launch
        self._environment = environment
        self._process = self._start_process()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def check(self) -> None:
        """Check that it still runs.

        Raises:
            ClusterError: if it ended by itself; the text has the end of its log.
        """
        code = self._process.poll()
        if code is not None:
            raise ClusterError(f"{self.name} ended by itself, with {code}; the end of its log:\n{self.log_end()}")

    def is_ready(self, client: OpenerDirector) -> bool:
        """Return whether its own health check says that it is ready."""
        try:
            with client.open(self._launch.ready, timeout=_ANSWER) as answer:
                return bool(answer.status == http.HTTPStatus.OK)
        except (OSError, http.client.HTTPException):  # urllib's own errors are OSErrors
            return False

    def log_end(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LOG:])

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and by force if it does not react; nothing happens when it has ended."""
        self._process.send_signal(by)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """End it by force."""
        self._process.kill()
        self._process.wait()

    def start(self) -> None:
        """Run it again after it was ended; its log goes on."""
        self._process = self._start_process()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def _start_process(self) -> Process:
        return self._start(self._launch.command, self.log, self._environment)
