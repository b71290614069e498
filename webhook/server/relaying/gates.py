"""Gates that are asked by HTTPS: the one beside the relay, and whichever other replica a name leads to."""

import ssl
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from webhook.server.relaying.exchanging import Connection, silence
from webhook.server.relaying.ports import RELAYED, Answered, Asked, Patience, Service, SilentError
from webhook.server.settings.kinds import Address

_LARGEST_FILE: Final = 1 << 20


class OwnGate:
    """The gate beside the relay, over connections that are kept.

    A new connection is made only while the gate is ready, as by a Service, but for who insists: one that has just begun
    knows nothing yet, and would put off what another can decide. One that is about to end is as good as ever.

    Its certificate is not verified: it is asked on the loopback interface of a network that nobody else is in, and when
    it takes up another certificate is its own affair.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[Connection] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def ask(self, asked: Asked, patience: Patience) -> Answered:
        """What it says. Of several threads each has a connection of its own.

        Raises:
            SilentError: it does not live, or takes longer.
        """
        with silence(self._address):
            with suppress(IndexError):
                kept = self._idle.pop()
                try:
                    return self._ask(kept, asked, patience)
                except TimeoutError:
                    raise
                except (OSError, ValueError):  # closed since it was used last, and the others with it
                    self._forget()
            return self._ask(self._connected(patience), asked, patience)

    def _connected(self, patience: Patience) -> Connection:
        connection = Connection(self._address, self._context, patience)
        if not patience.insists:
            connection.check_ready(patience)
        # One that is about to end closes each connection after an answer.
        return connection if connection.is_open else Connection(self._address, self._context, patience)

    def _ask(self, connection: Connection, asked: Asked, patience: Patience) -> Answered:
        answered = connection.ask(asked, patience)
        if connection.is_open:
            self._idle.append(connection)
        return answered

    def _forget(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class OtherGates:
    """Whichever replica a name leads to, by a new connection each time: so a Service leads to one, then to another.

    `name` is that of the relay which asks.
    """

    def __init__(self, service: Service, authorities: Path, name: str) -> None:
        self._service = service
        self._authorities = authorities
        self._headers = f"{RELAYED}: {name}\r\nConnection: close\r\n"

    def ask(self, asked: Asked, patience: Patience) -> Answered:
        """What it says.

        Raises:
            SilentError: it does not live, takes longer, or is not who it should be.
        """
        with silence(self._service), closing(Connection(self._service, self._context(), patience)) as connection:
            return connection.ask(asked, patience, self._headers)

    def _context(self) -> ssl.SSLContext:
        """Made anew each time, since who is trusted changes, and nobody is asked often."""
        try:
            with self._authorities.open("rb") as file:
                text = file.read(_LARGEST_FILE).decode()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=text)  # `create_default_context` trusts the system's for an empty text
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise SilentError(f"{self._service} is not asked: {self._authorities} cannot be read: {error}") from None
        return context
