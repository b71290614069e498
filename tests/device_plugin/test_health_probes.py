"""The checks of devices by files, real commands and a real server; each ends in time."""

import os
import select
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tallygate.device_plugin.device_config import HealthCheck
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_inventory import FoundDevice
from tallygate.device_plugin.health_probes import HealthProbes

_DEVICE = FoundDevice("front", "/dev/front")


def _check(root: Path, **fields: object) -> str:
    """Return the failure of one check, "" if it passed."""
    return HealthProbes(HostFiles(root)).check(_DEVICE, HealthCheck(**fields)).failure  # type: ignore[arg-type]


def test_a_file_of_the_host_is_looked_for(tmp_path: Path) -> None:
    assert _check(tmp_path, file="/run/{id}.ok") == "/run/front.ok does not exist"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "front.ok").touch()
    assert _check(tmp_path, file="/run/{id}.ok") == ""


@pytest.mark.parametrize(
    ("program", "failure"),
    [
        pytest.param("import sys; sys.exit(sys.argv[1:] != ['/dev/front'])", "", id="it gets the path"),
        pytest.param("raise SystemExit(3)", f"{sys.executable} ended with code 3", id="a code is a failure"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)", f"{sys.executable} was ended by signal 9", id="a signal too"
        ),
    ],
)
def test_a_command_passes_with_code_0(tmp_path: Path, program: str, failure: str) -> None:
    assert _check(tmp_path, command=(sys.executable, "-c", program, "{path}"), timeout=20.0) == failure


def test_a_command_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    command = str(tmp_path / "missing")
    assert _check(tmp_path, command=(command,)) == f"{command} cannot be run: No such file or directory"


def _is_closed(pipe: int) -> bool:
    """Return whether the last writer of a pipe ends within 20 s: processes that are killed take a moment to end."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(20_000)) and os.read(pipe, 1) == b""


def test_a_slow_command_is_killed_with_its_children(tmp_path: Path) -> None:
    """Read a pipe that the child has open for as long as it lives: its end is the end of the group."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        failure = _check(tmp_path, command=("sh", "-c", f"exec 9>{fifo}; sleep 600 & sleep 600"), timeout=0.5)
        assert failure == "sh took longer than 0.5 s"
        assert _is_closed(reader)
    finally:
        os.close(reader)


def test_a_child_that_outlives_its_command_is_killed_too(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert _check(tmp_path, command=("sh", "-c", f"exec 9>{fifo}; sleep 600 &"), timeout=20.0) == ""
        assert _is_closed(reader)
    finally:
        os.close(reader)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the status in the path."""
        self.send_response(int(self.path.split("/")[1]))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def _serve() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "is_passed"), [(200, True), (302, True), (404, False), (503, False)])
def test_a_status_below_400_passes(tmp_path: Path, status: int, *, is_passed: bool) -> None:
    with _serve() as port:
        url = f"http://127.0.0.1:{port}/{status}/front"
        assert _check(tmp_path, http=f"http://127.0.0.1:{port}/{status}/{{id}}", timeout=20.0) == (
            "" if is_passed else f"{url} answered {status}"
        )


def test_a_server_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        assert _check(tmp_path, http=url) == f"{url} cannot be read: Connection refused"


def test_a_server_that_sends_slowly_is_cut_at_the_timeout(tmp_path: Path) -> None:
    """Each byte comes sooner than the timeout of a socket; the whole answer never does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not ended.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        try:
            assert _check(tmp_path, http=url, timeout=0.3) == f"{url} did not answer within 0.3 s"
        finally:
            ended.set()
            thread.join()


def test_after_the_stop_no_command_is_started(tmp_path: Path) -> None:
    probes = HealthProbes(HostFiles(tmp_path))
    probes.stop()
    assert probes.check(_DEVICE, HealthCheck(command=("true",))).failure == "the plugin stops"
