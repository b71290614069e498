"""Gates that are asked by HTTPS: the one beside the relay, and whichever other replica a name leads to."""

import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.server.ports import SERVING
from webhook.server.relaying.asking import Answered, Asked, LateError, Patience, SilentError
from webhook.server.settings.kinds import Address

RELAYED: Final = "Tallygate-Relayed"
"""The header of what one relay asks another, with its name: that one asks nobody but the gate beside it."""

_CONNECT_SECONDS: Final = 1.0  # within a cluster it takes a millisecond
_LARGEST_ANSWER: Final = 16 << 20
_LARGEST_FILE: Final = 1 << 20


class _Check(msgspec.Struct):
    ready: bool


class _Readiness(msgspec.Struct):
    checks: dict[str, _Check]


_READINESS: Final = msgspec.json.Decoder(_Readiness)


@dataclass(frozen=True, slots=True)
class Service:
    """Where another replica answers: a name that its certificate is for, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


class OwnGate:
    """The gate beside the relay, over connections that are kept.

    A new connection is made only while the gate is ready, as by a Service: one that has just begun knows nothing yet,
    and would put off what another can decide. One that is about to end is as good as ever.

    Its certificate is not verified: it is asked on the loopback interface of a network that nobody else is in, and when
    it takes up another certificate is its own affair.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[HTTPSConnection] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def ask(self, asked: Asked, patience: Patience) -> Answered:
        """What it says. Of several threads each has a connection of its own.

        Raises:
            SilentError: it does not live, or takes longer.
        """
        with _silence(self._address):
            with suppress(IndexError):
                kept = self._idle.pop()
                try:
                    return self._exchange(kept, asked, patience)
                except TimeoutError:
                    raise
                except (OSError, HTTPException):  # closed since it was used last, and the others with it
                    self._forget()
            connection = _connected(self._address, patience, self._context)
            _check_ready(connection, patience)
            if not connection.sock:  # one that is about to end closes each after an answer
                connection = _connected(self._address, patience, self._context)
            return self._exchange(connection, asked, patience)

    def _exchange(self, connection: HTTPSConnection, asked: Asked, patience: Patience) -> Answered:
        answered = _exchange(connection, asked, patience, {})
        if connection.sock:  # it is None when the gate has asked for the end of the connection
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
        self._headers = {RELAYED: name, "Connection": "close"}

    def ask(self, asked: Asked, patience: Patience) -> Answered:
        """What it says.

        Raises:
            SilentError: it does not live, takes longer, or is not who it should be.
        """
        with _silence(self._service):
            connection = _connected(self._service, patience, self._context())
            return _exchange(connection, asked, patience, self._headers)

    def _context(self) -> ssl.SSLContext:
        """Made anew each time, since who is trusted changes, and nobody is asked often."""
        try:
            with self._authorities.open("rb") as file:
                text = file.read(_LARGEST_FILE).decode()
            return ssl.create_default_context(cadata=text)
        except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
            raise SilentError(f"{self._service} is not asked: {self._authorities} cannot be read: {error}") from None


def _connected(where: Address | Service, patience: Patience, context: ssl.SSLContext) -> HTTPSConnection:
    seconds = min(_CONNECT_SECONDS, patience.seconds)
    connection = HTTPSConnection(where.host, where.port, timeout=seconds, context=context)
    connection.connect()
    return connection


def _check_ready(connection: HTTPSConnection, patience: Patience) -> None:
    """Go on if it is ready but for its own end.

    Raises:
        HTTPException: it is not.
    """
    with _closed_if_broken(connection):
        connection.sock.settimeout(patience.seconds)
        connection.request("GET", "/readyz")
        found = _READINESS.decode(connection.getresponse().read(_LARGEST_FILE))
        if missing := [name for name, check in found.checks.items() if not check.ready and name != SERVING]:
            raise HTTPException(f"it is not ready: {', '.join(missing)}")


def _exchange(connection: HTTPSConnection, asked: Asked, patience: Patience, headers: Mapping[str, str]) -> Answered:
    """One request and its answer. That there is no room or nobody else is as good as no answer."""
    target = f"{quote(asked.path)}?timeout={max(1, int(patience.told * 1000))}ms"
    with _closed_if_broken(connection):
        connection.sock.settimeout(patience.seconds)
        connection.request("POST", target, asked.body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        body = response.read(_LARGEST_ANSWER + 1)
        if len(body) > _LARGEST_ANSWER:
            raise HTTPException(f"an answer of more than {_LARGEST_ANSWER} bytes")
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise HTTPException(f"it answered {response.status}")
        return Answered(response.status, body, response.getheader("Content-Type", "application/json"))


@contextmanager
def _closed_if_broken(connection: HTTPSConnection) -> Iterator[None]:
    """After anything but an answer nobody knows what comes next on it."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _silence(where: Address | Service) -> Iterator[None]:
    """Tell what breaks a connection as silence."""
    try:
        yield
    except TimeoutError:
        raise LateError(f"{where} did not answer in time") from None
    except (OSError, HTTPException, msgspec.MsgspecError) as error:
        raise SilentError(f"{where} does not answer: {str(error) or type(error).__name__}") from None
