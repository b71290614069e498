"""A server's life: it starts, takes up new files, and at a signal drains and ends."""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from webhook.errors import TallygateError
from webhook.server.ports import SERVING, Check, Readiness
from webhook.server.serving.generation import Transport
from webhook.server.serving.monitor import start_monitor
from webhook.server.serving.renewal import LiveCertificates, LiveTokens
from webhook.server.serving.rotation import Server
from webhook.server.serving.slow import SlowConnections
from webhook.server.serving.sockets import listening_socket
from webhook.server.serving.tls import Certificates, read_certificates
from webhook.server.serving.watch import watch_files
from webhook.server.settings.kinds import Address
from webhook.server.settings.table import Settings
from webhook.server.voice import Voice
from webhook.server.web.app import NewApp, create_monitor
from webhook.server.web.bodies import BodyReader
from webhook.server.web.layer import Limits
from webhook.server.web.observer import Observer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ServeError(TallygateError):
    """The server cannot start."""


class Life:
    """One server, from its start to its end.

    Args:
        new_app: makes what answers.
        settings: what to run with; a certificate and its key must be named.
        voice: where to log and to count.
        checks: what `/readyz` asks beside the server's own state.

    Raises:
        TallygateError: it cannot start: no certificate, an unusable one, an address that is taken.
    """

    def __init__(self, new_app: NewApp, settings: Settings, voice: Voice, checks: Sequence[Readiness] = ()) -> None:
        self._settings = settings
        self._log = voice.log
        self._leaving = False
        read = _certificate_reader(settings)
        read()  # what cannot be served with is told before an address is taken
        self._tokens = LiveTokens(settings.token_file, voice.log)
        observer = Observer(voice.log, voice.metrics)
        all_checks: list[Readiness] = [self._check, *checks]
        limits = Limits(body=settings.body_limit, seconds=settings.decision_timeout)
        app = new_app(observer, all_checks, limits, self._tokens.current)
        with _listening_on(settings.listen):
            listener = listening_socket(settings.listen, settings.connections)
        self._server = Server(app, listener, _transport(settings))
        self._slow = _slow_connections(settings, self._server.port, app.extensions["bodies"])
        self._certificates = LiveCertificates(read, self._server.serve_with, voice.log, voice.metrics)
        all_checks.append(self._certificates.check)
        self._monitor = create_monitor(voice.metrics, observer, all_checks)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, then drain; the exit code: 0, or 1 when requests had to be given up.

        Must be called in the main thread, where signals arrive. A second signal cuts the draining short.
        """
        signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in _SIGNALS:
            signal.signal(number, lambda received, _: signals.put(received))
        stop = threading.Event()
        self._start(stop)
        received = signals.get()
        stop.set()
        return self._drain(received, signals)

    def _start(self, stop: threading.Event) -> None:
        self._certificates.start()
        with _listening_on(self._settings.monitor):
            monitor_port = start_monitor(self._monitor, self._settings.monitor)
        watch_files(_watched(self._settings), self._look, stop)
        self._slow.watch()
        self._log.info("serving", port=self._server.port, monitor_port=monitor_port)

    def _look(self) -> None:
        self._certificates.look()
        self._tokens.look()

    def _check(self) -> Check:
        return Check(SERVING, not self._leaving, {"state": "draining" if self._leaving else "serving"})

    def _drain(self, received: int, signals: "queue.SimpleQueue[int]") -> int:
        """Say that it is over, let the news spread (not at Ctrl-C: nobody waits for it), and finish what has begun."""
        self._leaving = True
        self._server.say_goodbye()
        self._log.info("draining", signal=signal.Signals(received).name)
        if received == signal.SIGTERM:
            _wait(signals, self._settings.drain_delay)
        self._slow.drain()
        drained = self._server.drain(self._settings.drain_timeout)
        self._log.info("stopped", drained=drained)
        return 0 if drained else 1


def _wait(signals: "queue.SimpleQueue[int]", seconds: float) -> None:
    """Wait so long, or until another signal."""
    with suppress(queue.Empty):
        signals.get(timeout=seconds)


@contextmanager
def _listening_on(address: Address) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServeError(f"cannot listen on {address}: {error.strerror or error}") from None


def _transport(settings: Settings) -> Transport:
    return Transport(
        threads=settings.threads,
        connections=settings.connections,
        idle_timeout=settings.idle_timeout,
        tls_min_version=settings.tls_min_version,
    )


def _certificate_reader(settings: Settings) -> Callable[[], Certificates]:
    if settings.tls_cert is None or settings.tls_key is None:
        raise ServeError(
            "name a certificate and its key: --tls-cert, --tls-key (`tallygate certs issue` makes both); in a cluster, "
            "--tls-secret"
        )
    return partial(read_certificates, settings.tls_cert, settings.tls_key, settings.client_ca_file)


def _slow_connections(settings: Settings, port: int, bodies: BodyReader) -> SlowConnections:
    """A request may take so long to arrive and then to be decided."""
    seconds = settings.body_timeout + settings.decision_timeout
    return SlowConnections(port, bodies.oldest, seconds=seconds, idle=settings.idle_timeout)


def _watched(settings: Settings) -> list[Path]:
    paths = (settings.tls_cert, settings.tls_key, settings.client_ca_file, settings.token_file)
    return [path for path in paths if path is not None]


def leave(code: int) -> NoReturn:
    """End this process at once, with this exit code, after it has served.

    granian's threads outlive its workers by a moment. The interpreter's own end would take its lock from them while
    they are in Rust, which aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
