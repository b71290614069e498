"""The HTTPS server as a whole: generations that take over from each other on one listening socket."""

import socket
import threading
import time
from functools import partial
from wsgiref.types import WSGIApplication

from webhook.server.serving.generation import Generation, Transport
from webhook.server.serving.tls import Certificates
from webhook.server.serving.trial import try_out

_MOST_LINGERING = 4
_HANDSHAKE_SECONDS = 0.5
_ACCEPTING_SECONDS = 0.02


class Server:
    """Serves an application over TLS, with certificates that can be exchanged while it does.

    A rotation fails no request: the new generation accepts on the same socket before the old one stops; the old one
    answers what it has with `Connection: close`, so that clients move over of themselves; the rest are closed only
    after `idle_timeout`, when a client that sent nothing has given its connection up.
    """

    def __init__(self, application: WSGIApplication, listener: socket.socket, transport: Transport) -> None:
        self._new = partial(Generation, application, listener, transport)
        self._listener = listener
        self._transport = transport
        self._linger = transport.idle_timeout
        self._current: Generation | None = None
        self._lingering: list[tuple[Generation, threading.Timer]] = []
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve_with(self, certificates: Certificates) -> None:
        """Start with these certificates, or go over to them. Not to be called by two threads at once.

        Raises:
            StartError: they cannot be served with; what was in force still is.
        """
        if self._current:
            try_out(certificates, self._transport)
        with self._lock:
            generation = self._new()
            generation.start(certificates)
            old, self._current = self._current, generation
            if old:
                self._retire(old)

    def say_goodbye(self) -> None:
        """Ask every client to connect anew after the next answer."""
        with self._lock:
            generations = self._generations()
        for generation in generations:
            generation.say_goodbye()

    def drain(self, seconds: float) -> bool:
        """Accept no more, answer what has begun, close everything; False when it took longer than so many seconds."""
        deadline = time.monotonic() + seconds
        with self._lock:
            generations = self._generations()
            for _, timer in self._lingering:
                timer.cancel()
            self._close_listener()
        for generation in generations:
            generation.say_goodbye()
        # Who connected a moment ago has not sent anything yet; closing now would cut the handshake short.
        time.sleep(min(_HANDSHAKE_SECONDS, seconds))
        for generation in generations:
            generation.end()
        ended = [generation.wait(max(0.0, deadline - time.monotonic())) for generation in generations]
        return all(ended)

    def _close_listener(self) -> None:
        """Accept no more. Who waits to be accepted when the last descriptor goes is cut off, so hardly anybody may."""
        self._listener.listen(0)
        time.sleep(_ACCEPTING_SECONDS)
        self._listener.close()
        if self._current:
            self._current.leave_socket()

    def _retire(self, old: Generation) -> None:
        old.leave_socket()
        old.say_goodbye()
        timer = threading.Timer(self._linger, old.end)
        timer.daemon = True
        timer.start()
        self._lingering = [(each, its) for each, its in self._lingering if its.is_alive()] + [(old, timer)]
        while len(self._lingering) > _MOST_LINGERING:
            oldest, its = self._lingering.pop(0)
            its.cancel()
            oldest.end()

    def _generations(self) -> list[Generation]:
        return [*(generation for generation, _ in self._lingering), *([self._current] if self._current else [])]
