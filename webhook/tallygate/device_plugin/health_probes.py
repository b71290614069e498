"""The checks of devices: a file, a command or an HTTP request, each bounded in time."""

import http.client
import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from tallygate.device_plugin.container_allocation import fill_text
from tallygate.device_plugin.device_config import HealthCheck
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_inventory import FoundDevice
from tallygate.device_plugin.health_transitions import HealthResult

_FIRST_BAD_STATUS: Final = 400
_FIRST_GOOD_STATUS: Final = 200
_PASSED: Final = HealthResult()


class HealthProbes:
    """The checks of the devices of one node. Any thread may call `check`; `stop` ends the commands that run."""

    def __init__(self, host: HostFiles) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._is_stopped = False

    def check(self, device: FoundDevice, health: HealthCheck) -> HealthResult:
        """Return the result of one check of a device, after the timeout at the latest."""
        texts = {"id": device.device_id, "path": device.path}
        if health.file:
            path = fill_text(health.file, texts)
            return _PASSED if os.path.lexists(self._host.locate(path)) else HealthResult(f"{path} does not exist")
        if health.command:
            return self._run([fill_text(word, texts) for word in health.command], health.timeout)
        return _request(fill_text(health.http, texts), health.timeout)

    def stop(self) -> None:
        """Kill the process groups of all commands that run, and start no further one."""
        with self._lock:
            self._is_stopped = True
            for group in self._groups:
                _kill_group(group)

    def _run(self, command: list[str], timeout: float) -> HealthResult:
        """Run a command in a process group of its own, which does not outlive the check."""
        with self._lock:
            if self._is_stopped:
                return HealthResult("the plugin stops")
            try:
                process = subprocess.Popen(  # noqa: S603  the configuration names it
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                return HealthResult(f"{command[0]} cannot be run: {error.strerror}")
            self._groups.add(process.pid)
        is_over = _wait_for_end(process.pid, timeout)
        with self._lock:
            # The process is not reaped yet, so that no other group can have its number.
            _kill_group(process.pid)
            self._groups.discard(process.pid)
        code = process.wait()
        if not is_over:
            return HealthResult(f"{command[0]} took longer than {timeout:g} s")
        if code < 0:
            return HealthResult(f"{command[0]} was ended by signal {-code}")
        return HealthResult(f"{command[0]} ended with code {code}") if code else _PASSED


def _wait_for_end(process_id: int, timeout: float) -> bool:
    """Return whether a child ended within the timeout; it is not reaped."""
    descriptor = os.pidfd_open(process_id)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(descriptor)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _request(url: str, timeout: float) -> HealthResult:
    """Send a GET, and follow no redirect. The whole exchange has `timeout`, also with a server that sends slowly."""
    parts = urlsplit(url)
    deadline = time.monotonic() + timeout
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    try:
        connection.connect()
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, (connection.sock,))
        timer.daemon = True
        timer.start()
        try:
            connection.request("GET", target, headers={"User-Agent": "tallygate", "Connection": "close"})
            status = connection.getresponse().status
        finally:
            timer.cancel()
    except TimeoutError:
        return HealthResult(f"{url} did not answer within {timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= deadline:
            return HealthResult(f"{url} did not answer within {timeout:g} s")
        return HealthResult(f"{url} cannot be read: {(isinstance(error, OSError) and error.strerror) or error}")
    finally:
        connection.close()
    if time.monotonic() >= deadline:  # a connection that is cut may end an answer
        return HealthResult(f"{url} did not answer within {timeout:g} s")
    return _PASSED if _FIRST_GOOD_STATUS <= status < _FIRST_BAD_STATUS else HealthResult(f"{url} answered {status}")


def _shut_down(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
