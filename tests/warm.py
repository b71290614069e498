"""Programs of tallygate in processes of their own, without the half second that each would need for its imports.

One process for each test process has imported tallygate and waits; for every program it forks a child with the
program's arguments, environment, folder, streams, signals and exit code. A start without this process is tested
with `subprocess`: one case for each entry point, and everything in `e2e`.
"""

import atexit
import contextlib
import functools
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORTED = (
    *(
        f"tallygate.cli.{name}.command"
        for name in ("scenarios", "init", "predict", "usage", "audit", "doctor", "certs")
    ),
    *(f"tallygate.cli.{name}" for name in ("app", "check", "lint", "explain", "headroom", "snapshot", "schema_files")),
    "tallygate.cli.certs.cluster_commands",
    "tallygate.cli.demo.demonstration",
    "tallygate.cli.serve.certificate_controller",
    "tallygate.cli.serve.command",
    "tallygate.server.serve_with_cluster",
    "tallygate.kube.config",
)
_ROOT = Path(__file__).parents[1]
_START_SECONDS = 120.0  # for the imports, on a machine that is busy with four workers and the linters
_MAX_REQUEST_BYTES = 1 << 17  # bytes of a request: arguments and an environment


class Program:
    """The process of `python -m module arguments`; its streams are file descriptors, which the caller closes."""

    def __init__(  # noqa: PLR0913 - what a process has
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path = _ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._status_socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = dict(os.environ if environment is None else environment)
        request = json.dumps({"module": module, "arguments": [*arguments], "cwd": str(cwd), "env": env}).encode()
        with open(os.devnull, "r+b") as nowhere, theirs:  # noqa: PTH123 - a descriptor is needed
            streams = [stream if stream is not None else nowhere.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(_request_socket(), [request], [*streams, theirs.fileno()])
        self.pid = int(self._receive(_START_SECONDS))

    def poll(self) -> int | None:
        """Return the exit code as in `subprocess`, None while the process runs."""
        if self.returncode is None and select.select([self._status_socket], [], [], 0)[0]:
            self.returncode = int(self._receive(1.0))
            self._status_socket.close()
        return self.returncode

    def wait(self, seconds: float) -> int:
        """Return the exit code. Raises TimeoutError if the process does not end within `seconds`."""
        if self.returncode is None:
            self.returncode = int(self._receive(seconds))
            self._status_socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal if the process runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def _receive(self, seconds: float) -> str:
        self._status_socket.settimeout(seconds)
        message = self._status_socket.recv(32)
        assert message, "the process that starts programs has ended"
        return message.decode()


def run(  # noqa: PLR0913 - what a process has
    module: str,
    arguments: Sequence[str],
    *,
    stdin: str = "",
    cwd: Path = _ROOT,
    environment: Mapping[str, str] | None = None,
    timeout: float = _START_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself within `timeout` seconds, and return its exit code and output."""
    with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        stdin_file.write(stdin.encode())
        stdin_file.seek(0)
        streams = {"stdin": stdin_file.fileno(), "stdout": out.fileno(), "stderr": error.fileno()}
        program = Program(module, arguments, cwd=cwd, environment=environment, **streams)
        try:
            code = program.wait(timeout)
        except TimeoutError:
            program.kill()
            raise
        texts = [os.pread(stream.fileno(), 1 << 24, 0).decode() for stream in (out, error)]
        return subprocess.CompletedProcess([module, *arguments], code, *texts)


@functools.cache
def _request_socket() -> socket.socket:
    """Start the forking process and return the socket for requests; its close ends the process and all programs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)  # noqa: S603 - ours

    def close() -> None:
        ours.close()
        process.wait(120)

    atexit.register(close)
    return ours


class _Forker:
    """The forking process. `run` returns the program in each new process, and None at the end.

    `_running` has the process id and the caller's socket of each running program, by its pidfd.
    """

    def __init__(self, request_socket: socket.socket) -> None:
        self._request_socket = request_socket
        self._running: dict[int, tuple[int, socket.socket]] = {}

    def run(self) -> Callable[[], None] | None:
        """Start the requested programs until the socket is closed; then kill those that still run."""
        while True:
            ready = select.select([self._request_socket.fileno(), *self._running], [], [])[0]
            for each in self._running.keys() & {*ready}:
                self._report_exit(each)
            if self._request_socket.fileno() in ready:
                request, streams, _, _ = socket.recv_fds(self._request_socket, _MAX_REQUEST_BYTES, 4)
                if not request:
                    self._kill_all()
                    return None
                if program := self._fork(json.loads(request), streams):
                    return program

    def _fork(self, request: dict[str, Any], streams: list[int]) -> Callable[[], None] | None:
        status_socket = socket.socket(fileno=streams.pop())
        if pid := os.fork():
            for stream in streams:
                os.close(stream)
            self._running[os.pidfd_open(pid)] = pid, status_socket
            _send(status_socket, pid)
            return None
        for each in (self._request_socket, status_socket, *(other for _, other in self._running.values())):
            each.close()
        for descriptor in self._running:
            os.close(descriptor)
        return functools.partial(_become, streams, **request)

    def _report_exit(self, descriptor: int) -> None:
        pid, status_socket = self._running.pop(descriptor)
        os.close(descriptor)
        _send(status_socket, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        status_socket.close()

    def _kill_all(self) -> None:
        for pid, _ in self._running.values():
            os.kill(pid, signal.SIGKILL)


def _send(status_socket: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the caller has ended
        status_socket.sendall(str(number).encode())


def _become(streams: list[int], module: str, arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = _open_text(0, "r")
    sys.stdout = _open_text(1, "w")
    sys.stderr = _open_text(2, "w", "backslashreplace", by_line=True)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _open_text(number: int, mode: str, errors: str = "strict", *, by_line: bool = False) -> io.TextIOWrapper:
    binary = open(number, mode + "b", closefd=False)  # noqa: SIM115 - a descriptor that stays open
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line or os.isatty(number))


def _main(request_socket: int) -> None:
    for module in _IMPORTED:
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if program := _Forker(socket.socket(fileno=request_socket)).run():
        program()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
