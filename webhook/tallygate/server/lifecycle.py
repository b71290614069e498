"""The lifecycle of a server: it starts, reloads changed files, and at a signal drains and stops.

The monitor port serves metrics and health by plain HTTP, in threads of its own (`server.monitor_server`).
"""

import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn, Protocol
from wsgiref.types import WSGIApplication

from tallygate.errors import TallygateError
from tallygate.server.https.connection_guard import ConnectionGuard, ConnectionLimits, RequestLoad
from tallygate.server.https.file_reload import CertificateReloader, TokenReloader, watch_files
from tallygate.server.https.https_server import HttpsServer, HttpsSettings
from tallygate.server.https.tls_files import ClientBundles, ServingCertificates, read_certificates
from tallygate.server.interfaces import SERVING, ReadinessCheck, ReadinessStatus
from tallygate.server.listener import open_listener
from tallygate.server.monitor_server import start_monitor
from tallygate.server.settings.table import Settings
from tallygate.server.settings.value_types import Address
from tallygate.server.telemetry.json_log import FailureLog
from tallygate.server.telemetry.metrics import Telemetry
from tallygate.server.web.admission_middleware import DecisionProgress, RequestLimits
from tallygate.server.web.flask_app import AppFactory, create_monitor_app
from tallygate.server.web.request_body import BodyReader
from tallygate.server.web.request_log import RequestLog
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AT_SIGTERM_SECONDS = 2.0
_DRAINED, _NOT_DRAINED = -1, -2  # no signal has these numbers


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """How long requests, connections and the end of a server may take, in seconds.

    They are no settings: the times of API servers, which are fixed too, bound them from both sides.

    first_request: from the beginning of a connection to that of its first request, and for each later header.
    body: for one request to arrive. A connection on which one takes longer is closed.
    decision: for one decision. The API server's own `?timeout=` counts when shorter: by the registration it is 5 s.
    idle: between two requests, after a review was answered. The API server closes a connection after 90 s; closing it
        earlier than that would fail a request that is just being sent (net/http, `IdleConnTimeout` of client-go).
    drain: after SIGTERM and `drain_delay`, for requests that have begun: longer than `body` and `decision` together,
        and within the grace period of the shipped pods.
    """

    first_request: float = 10.0
    body: float = 10.0
    decision: float = 10.0
    idle: float = 120.0
    drain: float = 25.0

    @property
    def request(self) -> float:
        """From the first byte of a request to its response."""
        return self.body + self.decision


REQUEST_TIMES = RequestTimes()
"""The times of every server."""


class Server(Protocol):
    """A server of an application over TLS: `HttpsServer` or `CertifiedServer` of `tallygate.server.https`."""

    handshake_bytes: int

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        ...

    def install_certificates(self, certificates: ServingCertificates) -> None:
        """Start with these certificates, or replace the current ones by them."""
        ...

    def find_clients(self) -> dict[str, float]:
        """Return the addresses of clients with requests in the application, and the time of the oldest of each."""
        ...

    def send_connection_close(self) -> None:
        """Send `Connection: close` with every response from now on."""
        ...

    def drain(self, timeout: float) -> bool:
        """Finish the current requests and close all connections within seconds; return whether that was done."""
        ...


ServerFactory = Callable[[WSGIApplication, socket.socket, HttpsSettings], Server]


class ServeError(TallygateError):
    """The server cannot start."""


class Lifecycle:
    """One server, from its start to its end.

    Args:
        app_factory: creates the application.
        settings: the settings of the server; they must name a certificate and its key.
        telemetry: the log and the metrics.
        checks: the readiness checks of `/readyz` in addition to the server's own.
        at_sigterm: called in a thread at SIGTERM; the drain does not wait for it, the end of the server does, for 2 s.
        create_server: creates the HTTPS server of the application.
        read_client_bundles: returns the CAs of clients, in place of those of the settings.

    Raises:
        TallygateError: if the server cannot start: a missing or invalid certificate, an address in use.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # parts of one server
        self,
        app_factory: AppFactory,
        settings: Settings,
        telemetry: Telemetry,
        checks: Sequence[ReadinessCheck] = (),
        at_sigterm: Callable[[], object] = lambda: None,
        create_server: ServerFactory = HttpsServer,
        read_client_bundles: Callable[[], ClientBundles] | None = None,
    ) -> None:
        self._settings = settings
        self._times = REQUEST_TIMES
        self._at_sigterm = at_sigterm
        self._log = telemetry.log
        self._is_draining = False
        read_files = _create_certificate_reader(settings, read_client_bundles)
        read_files()  # report invalid files before an address is bound
        self._token_reloader = TokenReloader(settings.token_file, telemetry.log)
        request_log = RequestLog(telemetry.log, telemetry.metrics)
        self._checks = all_checks = [self._check_serving, *checks]
        limits = RequestLimits(
            max_body_bytes=settings.body_limit, timeout=self._times.decision, threads=settings.threads
        )
        app = app_factory(request_log, all_checks, limits, self._token_reloader.get_tokens)
        _raise_descriptor_limit()
        with _report_listen_error(settings.listen):
            listener = open_listener(settings.listen, settings.connections)
        self._server = create_server(app, listener, _create_https_settings(settings, self._times))
        body_reader: BodyReader = app.extensions["body_reader"]
        self._connection_guard = self._create_guard(body_reader, telemetry)
        self._sweeper = Worker(
            WorkerTask(
                name="connection-guard",
                run=self._sweep_connections,
                failure_log=FailureLog(partial(telemetry.log.error, "connections-not-inspected")),
            ),
            WorkerPace(interval=self._connection_guard.get_interval),
        )
        self._certificate_reloader = CertificateReloader(
            read_files, self._server.install_certificates, telemetry.log, telemetry.metrics
        )
        all_checks.append(self._certificate_reloader.check)
        progress: DecisionProgress = app.extensions["decision_progress"]
        all_checks.append(progress.check)
        self._monitor = create_monitor_app(telemetry.metrics, request_log, all_checks, progress.is_alive)

    def _create_guard(self, body_reader: BodyReader, telemetry: Telemetry) -> ConnectionGuard:
        settings = self._settings
        limits = ConnectionLimits(
            connections=settings.connections,
            connections_per_address=settings.connections_per_address,
            waiting_threads=settings.threads * 7 // 8,
            first_request_timeout=self._times.first_request,
            request_timeout=self._times.request,
            idle_timeout=self._times.idle,
        )
        return ConnectionGuard(
            self._server.port,
            limits,
            lambda: RequestLoad(body_reader.list_reads(), self._server.find_clients()),
            lambda: self._server.handshake_bytes,
            telemetry.metrics.count_closed_connections,
        )

    def list_statuses(self) -> list[ReadinessStatus]:
        """Return the results of all readiness checks."""
        return [check() for check in self._checks]

    def get_tokens(self) -> tuple[bytes, ...]:
        """Return the tokens in paths of reviews that are valid now; none without a token."""
        return self._token_reloader.get_tokens()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, then drain; return the exit code: 0, or 1 if requests were aborted.

        Call it in the main thread, where signals arrive. Another signal ends `drain_delay` early, and one after it
        aborts the requests that are left.
        """
        signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in _SIGNALS:
            signal.signal(number, lambda received, _: signals.put(received))
        stop = threading.Event()
        self._certificate_reloader.start()
        with _report_listen_error(self._settings.monitor):
            monitor_port = start_monitor(self._monitor, self._settings.monitor)
        paths = (
            self._settings.tls_cert,
            self._settings.tls_key,
            self._settings.client_ca_file,
            self._settings.token_file,
        )
        watch_files([path for path in paths if path is not None], self._reload_files, stop)
        self._sweeper.start()
        self._log.info("serving", port=self._server.port, monitor_port=monitor_port)
        received = signals.get()
        stop.set()
        return self._drain(received, signals)

    def _sweep_connections(self) -> bool:
        self._connection_guard.sweep(time.monotonic())
        return True

    def _reload_files(self) -> None:
        self._certificate_reloader.reload_if_changed()
        self._token_reloader.reload_if_changed()

    def _check_serving(self) -> ReadinessStatus:
        return ReadinessStatus(
            SERVING, not self._is_draining, {"state": "draining" if self._is_draining else "serving"}
        )

    def _drain(self, received: int, signals: "queue.SimpleQueue[int]") -> int:
        """Become not ready, wait for `drain_delay` (not after SIGINT), and finish the current requests."""
        self._is_draining = True
        self._server.send_connection_close()
        self._log.info("draining", signal=signal.Signals(received).name)
        at_sigterm = threading.Thread(target=self._at_sigterm, name="at-sigterm", daemon=True)
        at_sigterm_deadline = time.monotonic() + _AT_SIGTERM_SECONDS
        if received == signal.SIGTERM:
            at_sigterm.start()
            with suppress(queue.Empty):
                signals.get(timeout=self._settings.drain_delay)
        self._connection_guard.drain()
        # The end of the drain comes by the same queue as another signal; the first of both counts.
        threading.Thread(target=self._drain_server, args=(signals,), name="drain", daemon=True).start()
        drained = signals.get() == _DRAINED
        if at_sigterm.is_alive():
            at_sigterm.join(max(0.0, at_sigterm_deadline - time.monotonic()))
        self._log.info("stopped", drained=drained)
        return 0 if drained else 1

    def _drain_server(self, signals: "queue.SimpleQueue[int]") -> None:
        drained = False
        try:
            drained = self._server.drain(self._times.drain)
        finally:
            signals.put(_DRAINED if drained else _NOT_DRAINED)


@contextmanager
def _report_listen_error(address: Address) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServeError(f"cannot listen on {address}: {error.strerror or error}") from None


def _create_https_settings(settings: Settings, times: RequestTimes) -> HttpsSettings:
    return HttpsSettings(
        threads=settings.threads,
        connections=settings.connections,
        idle_timeout=times.idle,
        tls_min_version=settings.tls_min_version,
        first_request_timeout=times.first_request,
        request_timeout=times.request,
    )


def _raise_descriptor_limit() -> None:
    """Allow as many files as this process may have: container runtimes start it with 1,024, as many as connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _create_certificate_reader(
    settings: Settings, read_client_bundles: Callable[[], ClientBundles] | None
) -> Callable[[], ServingCertificates]:
    if settings.tls_cert is None or settings.tls_key is None:
        raise ServeError(
            "name a certificate and its key: --tls-cert, --tls-key (`tallygate certs issue` makes both); in a cluster, "
            "--tls-secret"
        )
    if settings.client_names and not (settings.client_ca_file and settings.relay_dir):
        raise ServeError(
            "client_names needs client_ca_file and a relay (relay_dir, docs/reference/installation.md): the HTTP "
            "library of the gate does not pass a client's certificate on. Without a relay leave client_names out, and "
            "let client_ca_file have CAs that sign for API servers only, or the API servers' self-signed certificates"
        )
    chain, key = settings.tls_cert, settings.tls_key
    if read_client_bundles is not None:

        def read() -> ServingCertificates:
            bundles = read_client_bundles()
            return replace(read_certificates(chain, key), client_ca=bundles.users, proxy_ca=bundles.proxies)

        return read
    # With a relay the gate has one client, and the relay verifies the clients.
    client_ca = None if settings.relay_dir else settings.client_ca_file
    return partial(read_certificates, settings.tls_cert, settings.tls_key, client_ca)


def exit_process(exit_code: int) -> NoReturn:
    """End this process at once with the given exit code, after the server has stopped.

    granian's threads outlive its workers by a moment. The interpreter's own shutdown would take its lock from them
    while they run Rust code, which aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
