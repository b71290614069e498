"""A server as a child process: start, readiness and stop."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tallygate.cli.demo.demo_files import DemoFiles
from tallygate.errors import TallygateError
from tallygate.policy.load import SHIPPED_POLICIES

_READY_SECONDS = 120.0  # a slow machine imports for half a minute
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_HOST = "127.0.0.1"


class ServerStartError(TallygateError):
    """A server that did not start."""


class ServerProcess:
    """A context with a running `tallygate serve` or `serve-ask` on this machine: ready on entry, stopped on exit.

    `name` is that of its log file, `arguments` are the command and its own flags, and a `port` of 0 is any free one.

    Raises:
        ServerStartError: if the process ends or times out before it is ready; the text is the message of the process.
    """

    def __init__(self, name: str, arguments: Sequence[str], files: DemoFiles, port: int) -> None:
        self._name = name
        self._arguments = arguments
        self._files = files
        self._log_file = files.get_log_file(name.replace(" ", "-"))
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor_port = 0

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"https://{_HOST}:{self._port}"

    @property
    def monitor_url(self) -> str:
        """The URL of the monitor port."""
        return f"http://{_HOST}:{self._monitor_port}"

    @property
    def log_file(self) -> Path:
        """The file of its log."""
        return self._log_file

    def __enter__(self) -> Self:
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- this very program, no shell
                self._create_command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_create_environment()
            )
        try:
            self._wait_until_ready(time.monotonic() + _READY_SECONDS)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def wait(self) -> int:
        """Wait until the process ends by itself, and return its exit code."""
        return self._process.wait() if self._process else 0

    def _create_command(self) -> list[str]:
        certificates = self._files.certificate_folder
        return [
            *(sys.executable, "-m", "tallygate.cli", *self._arguments),
            *("--listen", f"{_HOST}:{self._port}", "--monitor", f"{_HOST}:0"),
            *("--tls-cert", str(certificates / "tls.crt"), "--tls-key", str(certificates / "tls.key")),
            *("--policies", str(SHIPPED_POLICIES), "--policies", str(self._files.policy_folder)),
        ]

    def _wait_until_ready(self, deadline: float) -> None:
        while not (self._is_listening() and self._is_ready()):
            if self._process is not None and self._process.poll() is not None:
                raise ServerStartError(self._format_start_error())
            if time.monotonic() > deadline:
                raise ServerStartError(
                    f"the {self._name} was not ready within {_READY_SECONDS:g} s; {self._log_file} says more"
                )
            time.sleep(_POLL_SECONDS)

    def _is_listening(self) -> bool:
        """Return whether the log contains the event `serving`, and store its ports."""
        *complete_lines, _ = self._log_file.read_text(encoding="utf-8", errors="replace").split("\n")
        for line in complete_lines:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "serving":
                self._port, self._monitor_port = event["port"], event["monitor_port"]
                return True
        return False

    def _is_ready(self) -> bool:
        ssl_context = ssl.create_default_context(cafile=self._files.ca_file)
        connection = http.client.HTTPSConnection(_HOST, self._port, timeout=5, context=ssl_context)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _format_start_error(self) -> str:
        """Return the error messages of the process without its log events."""
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        messages = [line.removeprefix("tallygate: ") for line in lines if not line.startswith("{")]
        hint = "; TALLYGATE_PORT=9443 make run takes another port" if "cannot listen" in " ".join(messages) else ""
        return f"{' '.join(messages) or f'the {self._name} ended at once; {self._log_file} says why'}{hint}"

    def _stop(self) -> None:
        """Stop the process with SIGINT; after a Ctrl-C at the terminal it is already draining."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _create_environment() -> dict[str, str]:
    """Return this environment without settings of the gate: all settings of the child process are flags."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TALLYGATE_")}
