"""The HTTPS server: granian workers that replace each other on one listening socket."""

import socket
import threading
import time
from functools import partial
from wsgiref.types import WSGIApplication

from webhook.server.https.certificate_trial import try_certificates
from webhook.server.https.granian_worker import GranianWorker, HttpsSettings
from webhook.server.https.tls_files import ServingCertificates

_MAX_OLD_WORKERS = 4
_HANDSHAKE_SECONDS = 0.5
_ACCEPT_SECONDS = 0.02


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

    def send_connection_close(self) -> None:
        """Send `Connection: close` with every HTTP/1 response of all workers, so that clients reconnect."""
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
