"""The HTTPS server as a whole: generations that take over from each other on one listening socket."""

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
    """Serves an application over TLS, with certificates that can be exchanged while it does.

    A rotation fails no request: the new generation accepts on the same socket before the old one stops; the old one
    answers what it has with `Connection: close`, so that clients move over of themselves; the rest are closed only
    after `idle_timeout`, when a client that sent nothing has given its connection up.
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
        """The port it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def install_certificates(self, certificates: ServingCertificates) -> None:
        """Start with these certificates, or go over to them. Not to be called by two threads at once.

        Raises:
            StartError: they cannot be served with; what was in force still is.
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
        """Ask every client to connect anew after the next answer."""
        with self._lock:
            workers = self._list_workers()
        for worker in workers:
            worker.send_connection_close()

    def drain(self, timeout: float) -> bool:
        """Accept no more, answer what has begun, close everything; False when it took longer than so many seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            workers = self._list_workers()
            for _, timer in self._old_workers:
                timer.cancel()
            self._close_listener()
        for worker in workers:
            worker.send_connection_close()
        # Who connected a moment ago has not sent anything yet; closing now would cut the handshake short.
        time.sleep(min(_HANDSHAKE_SECONDS, timeout))
        for worker in workers:
            worker.stop()
        results = [generation.wait(max(0.0, deadline - time.monotonic())) for generation in workers]
        return all(results)

    def _close_listener(self) -> None:
        """Accept no more. Who waits to be accepted when the last descriptor goes is cut off, so hardly anybody may."""
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
        self._old_workers = [(each, its) for each, its in self._old_workers if its.is_alive()] + [(worker, timer)]
        while len(self._old_workers) > _MAX_OLD_WORKERS:
            oldest, oldest_timer = self._old_workers.pop(0)
            oldest_timer.cancel()
            oldest.stop()

    def _list_workers(self) -> list[GranianWorker]:
        return [*(worker for worker, _ in self._old_workers), *([self._worker] if self._worker else [])]
