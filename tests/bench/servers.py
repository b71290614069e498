"""Servers under load: start one, and read its processor time and memory."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

_PORT = re.compile(rb'"port": ?(\d+)')
_TICKS = os.sysconf("SC_CLK_TCK")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_PSS = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server under load: its process, its port, and the seconds until it accepted connections."""

    pid: int
    port: int
    started_in: float

    def cpu_seconds(self) -> float:
        """Return the processor time so far, of all its threads and of its worker processes."""
        return sum(int(fields[11]) + int(fields[12]) for _, fields in self._stats()) / _TICKS

    def pss_mib(self) -> float:
        """Return the memory in use now, of the process and its workers (PSS, /proc/PID/smaps_rollup).

        A page that several processes share is divided among them. RSS counts it in each of them, and so takes a server
        with workers for larger than it is.
        """
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid, _ in self._stats())
        return sum(int(kib) for rollup in rollups for kib in _PSS.findall(rollup)) / 2**10

    def peak_mib(self) -> float:
        """Return the most resident memory so far, of the process itself (VmHWM, /proc/PID/status)."""
        found = _PEAK.search(Path(f"/proc/{self.pid}/status").read_text())
        assert found
        return int(found[1]) / 2**10

    def _stats(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the id of the process and of its children, and the fields of `/proc/PID/stat` from the state on."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):  # of a process that ends just now
                pid, _, fields = path.read_text().rpartition(")")
                split = fields.split()
                number = int(pid.split()[0])
                if self.pid in (number, int(split[1])):
                    yield number, split


def issue_certificate(folder: Path) -> None:
    """Write a certificate for the loopback address, in the layout of `tallygate certs issue`."""
    issue(folder, parse_names(["127.0.0.1", "localhost"]), datetime.now(UTC))


@contextmanager
def run_server(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[RunningServer]:
    """Run a server until the block ends. It logs its port; its log is a pipe that is read, as a container's is."""
    started_at, command = time.monotonic(), [sys.executable, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)  # noqa: S603  # our own modules
    assert process.stderr
    try:
        port = _read_port(process.stderr)
        threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
        while not accepts_connections(port):
            time.sleep(0.002)
        yield RunningServer(process.pid, port, time.monotonic() - started_at)
    finally:
        process.terminate()
        process.wait(60)


def _read_port(log: IO[bytes]) -> int:
    lines: list[bytes] = []
    for line in log:
        if found := _PORT.search(line):
            return int(found[1])
        lines.append(line)
    raise RuntimeError(f"the server did not start:\n{b''.join(lines).decode()}")


def _drain(log: IO[bytes]) -> None:
    while log.read(1 << 20):
        pass


def accepts_connections(port: int) -> bool:
    """Return whether a server accepts connections at this port of the loopback address."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
