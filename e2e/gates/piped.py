"""A gate whose log is a pipe, which is read only while `is_read` is set."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread

from e2e.gates.process import GateProcess
from e2e.local.component import Process

_PIECE = 1 << 16


class PipedGate(GateProcess):
    """A gate process whose log is a pipe, as under a container runtime; what is read of it is the log of the case."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), certificates: Path | None = None) -> None:
        """Make its certificates, if there are none; its log is read until `is_read` is cleared."""
        super().__init__(folder, arguments=arguments, certificates=certificates)
        self.is_read = Event()
        self.is_read.set()
        self._start = self._start_with_pipe

    def _start_with_pipe(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
        """Start a new process; as `e2e.local.component.Start`."""
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603  what we built, and no shell
                command,
                cwd=log.parent,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
            )
        finally:
            os.close(writer)
        log.touch()
        Thread(target=self._copy, args=(reader, log), daemon=True).start()
        return process

    def _copy(self, reader: int, log: Path) -> None:
        with os.fdopen(reader, "rb", buffering=0) as pipe, log.open("ab", buffering=0) as copy:
            while self.is_read.wait() and (content := pipe.read(_PIECE)):
                copy.write(content)
