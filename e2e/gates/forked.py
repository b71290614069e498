"""A gate forked from a process that has imported it already: its start costs a fifth of one from nothing.

It is a process of its own with its own arguments and environment. Starts from nothing are what the site's gate, those
of installed Deployments and terminals are for.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from tests.warm import Program

_FOREVER = 1e6  # seconds
_ONE_AT_A_TIME = Lock()


TALLYGATE: Final = (sys.executable, "-m", "tallygate.cli")
"""The beginning of a command line where no `tallygate` is on PATH."""


def fork(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> "ForkedProcess":
    """Start a command of tallygate, as `e2e.local.component.Start`."""
    return ForkedProcess(command[len(TALLYGATE) :], log, {**os.environ, **environment})


class ForkedProcess:
    """`tallygate` with these arguments, as a `Process`."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Start it; its output goes to the end of `log`, in whose folder it runs."""
        with log.open("ab") as output, _ONE_AT_A_TIME:
            streams = {"stdout": output.fileno(), "stderr": output.fileno()}
            self._program = Program("tallygate.cli", arguments, cwd=log.parent, environment=environment, **streams)
        self._arguments = tuple(arguments)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._program.pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._program.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: if it has not ended within `timeout` seconds.
        """
        seconds = _FOREVER if timeout is None else timeout
        try:
            return self._program.wait(seconds)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self._arguments, seconds) from None

    def send_signal(self, number: int, /) -> None:
        """Send a signal, unless it has ended."""
        self._program.send_signal(number)

    def kill(self) -> None:
        """End it by force."""
        self._program.kill()
