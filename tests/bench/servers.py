"""Starting what is measured: tallygate, and the Flask view that somebody would write instead, on the same server."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from certs.names import parse_names
from certs.renewal import issue

_PORT = re.compile(rb'"port": ?(\d+)')
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Running:
    """A server under load: its process and port, and how long it took until it accepted (seconds)."""

    pid: int
    port: int
    started_in: float

    def cpu_seconds(self) -> float:
        """Processor time so far, of all its threads and of its worker processes."""
        return sum(int(fields[11]) + int(fields[12]) for fields in self._stats()) / _TICKS

    def rss_mib(self) -> float:
        """Memory that it holds now, its worker processes included."""
        return sum(int(fields[21]) for fields in self._stats()) * _PAGE / 2**20

    def _stats(self) -> Iterator[list[str]]:
        """The fields of `/proc/PID/stat` from the state on, of the process and its children."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            pid, _, fields = path.read_text().rpartition(")")
            split = fields.split()
            if self.pid in (int(pid.split()[0]), int(split[1])):
                yield split


def certificate(folder: Path) -> None:
    """A certificate for the loopback address, in the layout of `tallygate certs issue`."""
    issue(folder, parse_names(["127.0.0.1", "localhost"]), datetime.now(UTC))


@contextmanager
def serving(arguments: Sequence[str]) -> Iterator[Running]:
    """Run a server until the block ends. It says its port in its log, a pipe that is read as a container's is."""
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE)  # noqa: S603  # our own modules
    assert process.stderr
    try:
        port = _port(process.stderr)
        threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
        while not accepts(port):
            time.sleep(0.002)
        yield Running(process.pid, port, time.monotonic() - begun)
    finally:
        process.terminate()
        process.wait(60)


def _port(log: IO[bytes]) -> int:
    said: list[bytes] = []
    for line in log:
        if found := _PORT.search(line):
            return int(found[1])
        said.append(line)
    raise RuntimeError(f"the server did not start:\n{b''.join(said).decode()}")


def _drain(log: IO[bytes]) -> None:
    while log.read(1 << 20):
        pass


def accepts(port: int) -> bool:
    """Whether somebody accepts connections at this port of the loopback address."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
