"""The HTTPS server: granian workers inside this process, which replace each other on one listening socket.

This is the only module that uses granian's private API, which is why its range in pyproject.toml is one minor wide.
granian's own `Granian` forks worker processes and loads a new certificate by forking new ones; the ledgers in this
process's memory would be lost with the old process. The approach of `granian/server/mt.py` for Pythons without a GIL
works with a GIL too: `WSGIWorker.serve_mtr` starts its threads and returns, and a `WorkerSignal` ends it gracefully.

This module relies on these facts from granian 2.8.7's source:
- the worker takes over the descriptor in the `SocketHolder` and closes it at its end (net.rs), so each worker gets its
  own descriptor;
- `serve_mtr` loads the certificates before it returns (workers.rs), so the files may be removed afterwards;
- at the signal the worker drops its listener together with the handshakes in progress (workers.rs, tls-listener), so a
  worker first stops accepting (`stop_accepting`), and gets the signal long after those handshakes have ended;
- `WorkerSignal.set` blocks when called twice (a channel of one), so it is called once;
- `header_read_timeout` also limits the idle time of a connection (hyper starts it at once);
- the application runs in a pool that grows while no thread is idle, up to `threads` (blocking.rs); see `ThreadGate`.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol
from wsgiref.types import WSGIApplication

import msgspec
from granian._futures import _new_cbscheduler
from granian._granian import SocketHolder, WorkerSignal, WSGIWorker
from granian.http import HTTP1Settings

from tallygate.errors import TallygateError
from tallygate.server.https.connection_guard import measure_handshake
from tallygate.server.https.request_threads import ThreadGate
from tallygate.server.https.tls_files import ServingCertificates, create_memory_files

_WSGI_ENVIRONMENT = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "tallygate",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": False,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}
_THREAD_IDLE_SECONDS = 10 * 365 * 24 * 3600  # never: `ThreadGate` relies on its threads
_HTTP_VERSION = "1"  # as API servers call webhooks; a connection of HTTP/2 could bring many bodies at a time
_SPARE_CONNECTIONS = 256  # accepted between two sweeps of `ConnectionGuard`, which closes as many others
_BUFFER_BYTES = 1 << 14  # of each connection, also before its body has a place; a header fits
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_CLOSE_HEADER = ("Connection", "close")
_NO_UNIX_SOCKET = False
_TLS_ENABLED = True
_OK = 200

# granian has no types for `_new_cbscheduler`, and its stubs of the classes lack arguments that 2.8.7 requires.
_new_scheduler: Any = _new_cbscheduler
_Holder: Any = SocketHolder
_Worker: Any = WSGIWorker


class HttpsStartError(TallygateError):
    """The server cannot start with these certificates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsSettings:
    """The limits of an HTTPS server: request threads, concurrent connections, times in seconds, TLS version.

    `first_request_timeout` and `request_timeout` are for `CertifiedServer`: granian has no such limits.
    """

    threads: int = 256
    connections: int = 1024
    idle_timeout: float = 120.0
    tls_min_version: str = "1.3"
    first_request_timeout: float = 10.0
    request_timeout: float = 20.0


class _GranianProtocol(Protocol):
    """granian's WSGIProtocol."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...


class _StartResponse:
    """The `start_response` of PEP 3333; it stores its arguments."""

    __slots__ = ("headers", "status")

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], _: Any = None, /) -> Callable[[bytes], object]:
        self.status = int(status[:3])
        self.headers = headers
        return _reject_write


def filter_headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the valid headers (RFC 9110, 5.5 and 5.6.2); an invalid one makes granian panic and ends the process."""
    return [header for header in headers if _is_valid_header(header)]


@lru_cache(maxsize=256)
def _is_valid_header(header: tuple[str, str]) -> bool:
    name, value = header
    return bool(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))


def _reject_write(_: bytes) -> None:
    """Raise an error in place of PEP 3333's `write`, which only applications older than it use.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("this server takes what an application returns, not what it writes")


class GranianWorker:
    """A granian worker: it accepts on a shared socket, later stops accepting, and ends after its last response."""

    def __init__(self, application: WSGIApplication, listener: socket.socket, https_settings: HttpsSettings) -> None:
        self._application = application
        self._https_settings = https_settings
        self._descriptor = os.dup(listener.fileno())
        self._signal = WorkerSignal()
        self._ended = threading.Event()
        self._is_signalled = False
        self._is_draining = False
        self._thread_gate = ThreadGate()
        self._clients: dict[int, tuple[str, float]] = {}  # of the current requests, by thread

    def list_clients(self) -> list[tuple[str, float]]:
        """Return the address of the client of each request in the application, and the request's monotonic time."""
        return list(self._clients.values())

    def start(self, certificates: ServingCertificates) -> None:
        """Start the worker's threads and accept connections.

        Raises:
            HttpsStartError: if granian cannot use the certificates.
        """
        self._signal.add_cb(self._ended.set)
        self._thread_gate.start()
        try:
            with create_memory_files(certificates) as files:
                worker = self._create_worker(files.chain, files.key, files.client_ca)
                loop = asyncio.new_event_loop()
                worker.serve_mtr(_new_scheduler(loop, self._handle_request, impl_asyncio=True), loop, self._signal)
                loop.close()
        except BaseException as error:
            if type(error).__module__ != "pyo3_runtime":  # a panic in Rust derives from BaseException
                raise
            os.close(self._descriptor)
            self._thread_gate.stop()
            raise HttpsStartError(f"the certificate files cannot be served with: {error}") from None

    def stop_accepting(self) -> None:
        """Stop accepting, without an effect on accepted connections.

        Replace the worker's descriptor by a socket to which no client connects: at each wake-up for a new connection
        the worker finds none, and another worker accepts it.
        """
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as unused_socket:
            unused_socket.bind(str(Path(folder, "unused")))
            unused_socket.listen(1)
            unused_socket.settimeout(0)
            os.dup2(unused_socket.fileno(), self._descriptor, inheritable=False)

    def send_connection_close(self) -> None:
        """Send `Connection: close` with every response from now on, so that clients reconnect."""
        self._is_draining = True

    def stop(self) -> None:
        """Close idle connections at once, and the others after their responses."""
        if not self._is_signalled:
            self._is_signalled = True
            self._thread_gate.stop()
            self._signal.set()

    def wait(self, seconds: float) -> bool:
        """Wait until all connections are closed; return False after a timeout of `seconds`."""
        return self._ended.wait(seconds)

    def _create_worker(self, chain: str, key: str, client_ca: str | None) -> Any:
        https_settings = self._https_settings
        return _Worker(
            1,  # worker_id
            (None, _Holder(self._descriptor, _NO_UNIX_SOCKET, https_settings.connections)),
            None,  # ipc
            1,  # runtime threads: TLS and HTTP of tens of thousands of requests a second
            1,  # runtime blocking threads: nothing here uses them
            https_settings.threads,
            _THREAD_IDLE_SECONDS,
            https_settings.connections + _SPARE_CONNECTIONS,
            _HTTP_VERSION,
            HTTP1Settings(header_read_timeout=int(https_settings.idle_timeout * 1000), max_buffer_size=_BUFFER_BYTES),
            None,  # HTTP/2
            None,  # static files
            _TLS_ENABLED,
            chain,
            key,
            None,  # key password
            f"tls{https_settings.tls_min_version}",
            client_ca,
            [],  # revocation lists
            client_ca is not None,
            (None, None),  # metrics
        )

    def _handle_request(self, protocol: _GranianProtocol, environ: dict[str, Any]) -> None:
        """Run the application for one request, as granian's `_callback_wrapper` does but without `os.environ`."""
        thread_id = threading.get_ident()
        self._clients[thread_id] = environ["REMOTE_ADDR"], self._thread_gate.enter(thread_id)
        may_park = False
        try:
            may_park = self._run_application(protocol, environ)
        finally:
            del self._clients[thread_id]
            # granian discards an unread body when this function returns; until then its sender would wait.
            self._thread_gate.leave(may_park=may_park)

    def _run_application(self, protocol: _GranianProtocol, environ: dict[str, Any]) -> bool:
        """Send the application's response; return whether the body was surely read, as in an answered review."""
        environ.update(_WSGI_ENVIRONMENT)
        response = _StartResponse()
        chunks = self._application(environ, response)
        try:
            body = b"".join(chunks)
            headers = filter_headers(response.headers)
            is_review = response.status == _OK and environ["REQUEST_METHOD"] == "POST"
            # `ConnectionGuard` relies on it: what is left open after a response has an answered review.
            if (self._is_draining or not is_review) and _CLOSE_HEADER not in headers:
                headers = [*headers, _CLOSE_HEADER]
            protocol.response_bytes(response.status, headers, body)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return is_review


_TRIAL_MODULE = "tallygate.server.https.certificate_trial"
_TRIAL_SECONDS = 120
_MAX_OLD_WORKERS = 4
_HANDSHAKE_SECONDS = 0.5
_ACCEPT_SECONDS = 0.02


def try_certificates(certificates: ServingCertificates, https_settings: HttpsSettings) -> None:
    """Start a server with these certificates in a child process, and end it at once.

    Raises:
        HttpsStartError: if the server does not start.
    """
    command = [sys.executable, "-m", _TRIAL_MODULE]
    payload = msgspec.msgpack.encode((certificates, https_settings))
    try:
        process = subprocess.run(command, input=payload, capture_output=True, timeout=_TRIAL_SECONDS, check=False)  # noqa: S603 - ourselves
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HttpsStartError(f"the certificate files could not be tried out: {error}") from None
    if process.returncode != 0:
        raise HttpsStartError(f"the certificate files cannot be served with: {_find_reason(process.stderr)}")


def _find_reason(output: bytes) -> str:
    """Return the reason in the child's error output, without its location in the library's source."""
    lines = [line for line in output.decode(errors="replace").splitlines() if " value: " in line]
    return lines[0].partition(" value: ")[2] if lines else "the TLS library refuses them"


class HttpsServer:
    """A server of an application over TLS, whose certificates can be replaced while it runs.

    A worker replacement fails no request. The new worker accepts on the same socket before the old one stops. The old
    worker sends its responses with `Connection: close`, so that clients reconnect to the new one. It closes its
    remaining connections only after `idle_timeout`, when a client that sent nothing has closed its connection.
    """

    def __init__(self, application: WSGIApplication, listener: socket.socket, https_settings: HttpsSettings) -> None:
        self._create_worker = partial(GranianWorker, application, listener, https_settings)
        self._listener = listener
        self._https_settings = https_settings
        self._linger_seconds = https_settings.idle_timeout
        self._worker: GranianWorker | None = None
        self._old_workers: list[tuple[GranianWorker, threading.Timer]] = []
        self._lock = threading.Lock()
        self.handshake_bytes = 0
        """The bytes that the server sends in a handshake, 0 if that is not known."""

    @property
    def _local_address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - where it listens already

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        port: int = self._listener.getsockname()[1]
        return port

    def install_certificates(self, certificates: ServingCertificates) -> None:
        """Start with these certificates, or replace the current ones by them. Not thread-safe.

        Raises:
            HttpsStartError: if the server cannot start with them; the current certificates stay active.
        """
        if self._worker:
            try_certificates(certificates, self._https_settings)
        with self._lock:
            worker = self._create_worker()
            worker.start(certificates)
            old, self._worker = self._worker, worker
            if old:
                self._retire(old)
        self.handshake_bytes = measure_handshake(self._local_address)

    def find_clients(self) -> dict[str, float]:
        """Return the addresses of clients with requests in the application, and the time of the oldest of each."""
        with self._lock:
            workers = self._list_workers()
        clients: dict[str, float] = {}
        for worker in workers:
            for address, began_at in worker.list_clients():
                clients[address] = min(began_at, clients.get(address, began_at))
        return clients

    def send_connection_close(self) -> None:
        """Send `Connection: close` with every response of all workers, so that clients reconnect."""
        with self._lock:
            workers = self._list_workers()
        for worker in workers:
            worker.send_connection_close()

    def drain(self, timeout: float) -> bool:
        """Stop accepting, finish the current requests and close all connections.

        Return False if that takes longer than `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            workers = self._list_workers()
            for _, timer in self._old_workers:
                timer.cancel()
            self._close_listener()
        for worker in workers:
            worker.send_connection_close()
        # A client that connected a moment ago has sent nothing yet; closing now would interrupt its handshake.
        time.sleep(min(_HANDSHAKE_SECONDS, timeout))
        for worker in workers:
            worker.stop()
        results = [worker.wait(max(0.0, deadline - time.monotonic())) for worker in workers]
        return all(results)

    def _close_listener(self) -> None:
        """Stop accepting.

        Closing the last descriptor cuts connections that wait to be accepted, so first shorten the accept queue and
        give the workers 20 ms to empty it.
        """
        self._listener.listen(0)
        time.sleep(_ACCEPT_SECONDS)
        self._listener.close()
        if self._worker:
            self._worker.stop_accepting()

    def _retire(self, worker: GranianWorker) -> None:
        worker.stop_accepting()
        worker.send_connection_close()
        timer = threading.Timer(self._linger_seconds, worker.stop)
        timer.daemon = True
        timer.start()
        self._old_workers = [(old, old_timer) for old, old_timer in self._old_workers if old_timer.is_alive()]
        self._old_workers.append((worker, timer))
        while len(self._old_workers) > _MAX_OLD_WORKERS:
            oldest, oldest_timer = self._old_workers.pop(0)
            oldest_timer.cancel()
            oldest.stop()

    def _list_workers(self) -> list[GranianWorker]:
        return [*(worker for worker, _ in self._old_workers), *([self._worker] if self._worker else [])]
