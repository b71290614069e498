"""A server in a separate process, and its observable state."""

import json
import os
import re
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx

from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.warm import Program

ROOT = Path(__file__).parents[2]
_END_SECONDS = 120.0  # of a process on a busy machine
NAMES = parse_names(["localhost", "127.0.0.1"])


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return whether a condition becomes true within this number of seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (result := condition()) and time.monotonic() < deadline:
        pause.wait(0.02)
    return result


def remains(condition: Callable[[], bool], seconds: float = 0.2) -> bool:
    """Return whether a condition stays true for as long as a thread that was called by mistake needs to wake."""
    return not eventually(lambda: not condition(), seconds)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, as a kubelet does: half a file would be another fault."""
    whole = path.with_name(f".{path.name}.whole")
    whole.write_bytes(content)
    whole.replace(path)


class ServerProcess:
    """A running server of `tests.server.tiny` or `tests.server.gate_server`; its certificates are in `folder`.

    `times` among the settings are fields of `RequestTimes` that it has in place of the usual ones.
    """

    def __init__(self, folder: Path, module: str = "tests.server.tiny", **settings: object) -> None:
        self.folder = folder
        self._log = folder / "log"
        self._times = settings.pop("times", {})
        if not (folder / "tls.crt").exists():
            issue(folder, NAMES, datetime.now(UTC))
        flags = {
            "listen": "127.0.0.1:0",
            "monitor": "127.0.0.1:0",
            "tls_cert": folder / "tls.crt",
            "tls_key": folder / "tls.key",
            "drain_delay": "0",
        } | settings
        arguments = [part for name, value in flags.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        self.process = self._start(module, arguments)
        assert eventually(lambda: bool(self.find_log_lines("serving")) or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(self.log)
        (serving,) = self.find_log_lines("serving")
        self.port, self.monitor_port = int(serving["port"]), int(serving["monitor_port"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start(self, module: str, arguments: Sequence[str]) -> Program:
        """Start the process, with the log in a file."""
        with self._log.open("wb") as log:
            return self._run(module, arguments, log.fileno())

    def _run(self, module: str, arguments: Sequence[str], stderr: int) -> Program:
        """Start a module with the times of this server."""
        if self._times:
            module, arguments = "tests.server.timed_program", [module, json.dumps(self._times), *arguments]
        return Program(module, arguments, cwd=ROOT, stderr=stderr)

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self._log.read_text()

    def find_log_lines(self, event: str) -> list[dict[str, Any]]:
        """Return the complete lines of an event."""
        lines = [json.loads(line) for line in self.log.splitlines(keepends=True) if line.endswith("}\n")]
        return [line for line in lines if line["event"] == event]

    @property
    def context(self) -> ssl.SSLContext:
        """A context that trusts the server's CA."""
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def client(self, **options: Any) -> httpx.Client:
        """Return a client of the HTTPS port."""
        return httpx.Client(base_url=f"https://localhost:{self.port}", verify=self.context, timeout=60, **options)

    def monitor(self, path: str) -> httpx.Response:
        """Return the response of the monitoring port."""
        return httpx.get(f"http://127.0.0.1:{self.monitor_port}{path}", timeout=60)

    def get_metric(self, name: str) -> float:
        """Return the value of a metric, summed over its labels."""
        values = re.findall(rf"^{name}(?:\{{.*?\}})? (\S+)$", self.monitor("/metrics").text, re.MULTILINE)
        return sum(map(float, values))

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait(_END_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_END_SECONDS)

    def status(self, field: str) -> int:
        """Return a number of `/proc/PID/status`: `VmRSS` (KiB), `Threads`."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (number,) = re.findall(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
        return int(number)

    def page_faults_of_children(self) -> int:
        """Return the minor page faults of all child processes that have ended: 0 if there was no child (proc(5))."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[8])


class PipedServer(ServerProcess):
    """A server whose log is a pipe. It is read into a file while `is_read` is set."""

    def _start(self, module: str, arguments: Sequence[str]) -> Program:
        self.is_read = threading.Event()
        self.is_read.set()
        reader, writer = os.pipe()
        threading.Thread(target=self._copy, args=(reader,), daemon=True).start()
        try:
            return self._run(module, arguments, writer)
        finally:
            os.close(writer)

    def _copy(self, reader: int) -> None:
        with os.fdopen(reader, "rb", buffering=0) as pipe, self._log.open("wb", buffering=0) as log:
            while self.is_read.wait() and (content := pipe.read(4096)):
                log.write(content)


@contextmanager
def run_threads(connections: int, act: Callable[[int, threading.Event], None]) -> Iterator[None]:
    """Run `act(number, stop)` in this number of threads while the block runs; raise the first failure at the end."""
    stop, failures = threading.Event(), list[BaseException]()

    def run(number: int) -> None:
        try:
            act(number, stop)
        except BaseException as failure:  # noqa: BLE001 - raised again below, in the test
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
