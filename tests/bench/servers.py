"""Starting what is measured: tallygate, and the Flask view that somebody would write instead, on the same server."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs.names import parse_names
from certs.renewal import issue

_PORT = re.compile(r'"port": ?(\d+)')
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Running:
    """A server under load: its process and port, and how long it took to be ready (seconds)."""

    pid: int
    port: int
    started_in: float

    def cpu_seconds(self) -> float:
        """Processor time of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mib(self) -> float:
        """Memory that it holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def certificate(folder: Path) -> None:
    """A certificate for the loopback address, in the layout of `tallygate certs issue`."""
    issue(folder, parse_names(["127.0.0.1", "localhost"]), datetime.now(UTC))


@contextmanager
def serving(arguments: Sequence[str], folder: Path) -> Iterator[Running]:
    """Run a server until the block ends. It says its port in its log, which goes to a file as it would in a cluster."""
    log = folder / f"{'-'.join(arguments[:3])}.log".replace("/", "_")
    begun = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *arguments], stderr=out)  # noqa: S603  # our own modules
    try:
        yield Running(process.pid, _port(log, process), time.monotonic() - begun)
    finally:
        process.terminate()
        process.wait(30)


def _port(log: Path, process: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        found = _PORT.search(log.read_text())
        if found:
            return int(found[1])
        time.sleep(0.005)
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")
