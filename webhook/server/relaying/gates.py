"""Gates that are asked by HTTPS: the one beside the relay, and whichever other replica a name leads to."""

import ssl
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from webhook.server.relaying.exchanging import UpstreamConnection, raise_unreachable
from webhook.server.relaying.ports import (
    RELAY_HEADER,
    RelayResponse,
    RelayRequest,
    UpstreamTimeout,
    PeerService,
    UnreachableError,
)
from webhook.server.settings.kinds import Address

_MAX_FILE_BYTES: Final = 1 << 20


class LocalUpstream:
    """The gate beside the relay, over connections that are kept.

    A new connection is made only while the gate is ready, as by a Service, but for who insists: one that has just begun
    knows nothing yet, and would put off what another can decide. One that is about to end is as good as ever.

    Its certificate is not verified: it is asked on the loopback interface of a network that nobody else is in, and when
    it takes up another certificate is its own affair.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[UpstreamConnection] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """What it says. Of several threads each has a connection of its own.

        Raises:
            SilentError: it does not live, or takes longer.
        """
        with raise_unreachable(self._address):
            with suppress(IndexError):
                idle = self._idle.pop()
                try:
                    return self._send_over(idle, request, timeout)
                except TimeoutError:
                    raise
                except (OSError, ValueError):  # closed since it was used last, and the others with it
                    self._close_idle()
            return self._send_over(self._connect(timeout), request, timeout)

    def _connect(self, timeout: UpstreamTimeout) -> UpstreamConnection:
        connection = UpstreamConnection(self._address, self._context, timeout)
        if not timeout.allows_unready:
            connection.check_ready(timeout)
        # One that is about to end closes each connection after an answer.
        return connection if connection.is_open else UpstreamConnection(self._address, self._context, timeout)

    def _send_over(
        self, connection: UpstreamConnection, request: RelayRequest, timeout: UpstreamTimeout
    ) -> RelayResponse:
        response = connection.send(request, timeout)
        if connection.is_open:
            self._idle.append(connection)
        return response

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class PeerUpstream:
    """Whichever replica a name leads to, by a new connection each time: so a Service leads to one, then to another.

    `name` is that of the relay which asks.
    """

    def __init__(self, service: PeerService, ca_file: Path, relay_name: str) -> None:
        self._service = service
        self._ca_file = ca_file
        self._headers = f"{RELAY_HEADER}: {relay_name}\r\nConnection: close\r\n"

    def send(self, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        """What it says.

        Raises:
            SilentError: it does not live, takes longer, or is not who it should be.
        """
        with (
            raise_unreachable(self._service),
            closing(UpstreamConnection(self._service, self._create_context(), timeout)) as connection,
        ):
            return connection.send(request, timeout, self._headers)

    def _create_context(self) -> ssl.SSLContext:
        """Made anew each time, since who is trusted changes, and nobody is asked often."""
        try:
            with self._ca_file.open("rb") as file:
                text = file.read(_MAX_FILE_BYTES).decode()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=text)  # `create_default_context` trusts the system's for an empty text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise UnreachableError(f"{self._service} is not asked: {self._ca_file} cannot be read: {error}") from None
        return context
