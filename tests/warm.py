"""Programs of the house in processes of their own, without the half second in which each would import it anew.

One process for each that runs tests has imported it and waits; for every program it forks, and becomes the program:
its own arguments, environment, folder, streams, signals and exit code. What is proven of a start from nothing is proven
where a plain `subprocess` stands: one case for each entry, and everything in `e2e`.
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
    *(f"webhook.cli.{name}.command" for name in ("check", "scenarios", "predict", "usage", "audit", "doctor", "certs")),
    *(f"webhook.cli.{name}" for name in ("app", "lint", "explain", "headroom", "snapshot", "relay")),
    "webhook.cli.certs.cluster_commands",
    "webhook.cli.demo.demonstration",
    "webhook.cli.serve.certificate_controller",
    "webhook.cli.serve.command",
    "webhook.server.serve_with_cluster",
    "webhook.kube.config",
)
_ROOT = Path(__file__).parents[1]
_MOST = 1 << 17  # bytes of a wish: arguments and an environment


class Program:
    """`python -m module arguments`; the streams are file descriptors, and stay the caller's."""

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
        self._news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = dict(os.environ if environment is None else environment)
        wish = json.dumps({"module": module, "arguments": [*arguments], "cwd": str(cwd), "env": env}).encode()
        with open(os.devnull, "r+b") as nowhere, theirs:  # noqa: PTH123 - a descriptor is needed
            streams = [stream if stream is not None else nowhere.fileno() for stream in (stdin, stdout, stderr)]
            socket.send_fds(_door(), [wish], [*streams, theirs.fileno()])
        self.pid = int(self._heard(30.0))

    def poll(self) -> int | None:
        """The exit code as `subprocess` has it, if it has ended."""
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.returncode = int(self._heard(1.0))
            self._news.close()
        return self.returncode

    def wait(self, seconds: float) -> int:
        """The exit code. Raises TimeoutError when it has not ended within so many seconds."""
        if self.returncode is None:
            self.returncode = int(self._heard(seconds))
            self._news.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _heard(self, seconds: float) -> str:
        self._news.settimeout(seconds)
        said = self._news.recv(32)
        assert said, "the process that starts programs has ended"
        return said.decode()


def run(  # noqa: PLR0913 - what a process has
    module: str,
    arguments: Sequence[str],
    *,
    stdin: str = "",
    cwd: Path = _ROOT,
    environment: Mapping[str, str] | None = None,
    within: float = 30.0,
) -> subprocess.CompletedProcess[str]:
    """A program that ends by itself within so many seconds, and what it has written."""
    with tempfile.TemporaryFile() as typed, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        typed.write(stdin.encode())
        typed.seek(0)
        streams = {"stdin": typed.fileno(), "stdout": out.fileno(), "stderr": error.fileno()}
        program = Program(module, arguments, cwd=cwd, environment=environment, **streams)
        try:
            code = program.wait(within)
        except TimeoutError:
            program.kill()
            raise
        texts = [os.pread(stream.fileno(), 1 << 24, 0).decode() for stream in (out, error)]
        return subprocess.CompletedProcess([module, *arguments], code, *texts)


@functools.cache
def _door() -> socket.socket:
    """Where wishes go; closing it ends the process behind it, and what that has started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)  # noqa: S603 - ours

    def close() -> None:
        ours.close()
        process.wait(30)

    atexit.register(close)
    return ours


class _Starter:
    """The process behind the door. `run` returns in each new process with what that is to do, and at the end with None.

    `running` is what has been started and not ended: by its descriptor its number, and who wants to know.
    """

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._running: dict[int, tuple[int, socket.socket]] = {}

    def run(self) -> Callable[[], None] | None:
        """Start what is wished for until nobody can wish any more; who is left then is ended."""
        while True:
            ready = select.select([self._door.fileno(), *self._running], [], [])[0]
            for each in self._running.keys() & {*ready}:
                self._ended(each)
            if self._door.fileno() in ready:
                wish, streams, _, _ = socket.recv_fds(self._door, _MOST, 4)
                if not wish:
                    self._over()
                    return None
                if program := self._started(json.loads(wish), streams):
                    return program

    def _started(self, wish: dict[str, Any], streams: list[int]) -> Callable[[], None] | None:
        news = socket.socket(fileno=streams.pop())
        if pid := os.fork():
            for stream in streams:
                os.close(stream)
            self._running[os.pidfd_open(pid)] = pid, news
            _tell(news, pid)
            return None
        for each in (self._door, news, *(other for _, other in self._running.values())):
            each.close()
        for descriptor in self._running:
            os.close(descriptor)
        return functools.partial(_become, streams, **wish)

    def _ended(self, descriptor: int) -> None:
        pid, news = self._running.pop(descriptor)
        os.close(descriptor)
        _tell(news, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        news.close()

    def _over(self) -> None:
        for pid, _ in self._running.values():
            os.kill(pid, signal.SIGKILL)


def _tell(news: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody is left to hear it
        news.sendall(str(number).encode())


def _become(streams: list[int], module: str, arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = _text(0, "r")
    sys.stdout = _text(1, "w")
    sys.stderr = _text(2, "w", "backslashreplace", by_line=True)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _text(number: int, mode: str, errors: str = "strict", *, by_line: bool = False) -> io.TextIOWrapper:
    binary = open(number, mode + "b", closefd=False)  # noqa: SIM115 - a descriptor, kept to the end
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line or os.isatty(number))


def _main(door: int) -> None:
    for module in _IMPORTED:
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if program := _Starter(socket.socket(fileno=door)).run():
        program()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
