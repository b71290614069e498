"""One request and its answer over a connection, and what breaks one told as silence."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.server.ports import SERVING
from webhook.server.relaying.ports import Answered, Asked, LateError, Patience, Service, SilentError
from webhook.server.settings.kinds import Address

_CONNECT_SECONDS: Final = 1.0  # within a cluster it takes a millisecond
_LARGEST_ANSWER: Final = 16 << 20
_LARGEST_READINESS: Final = 1 << 20


class _Check(msgspec.Struct):
    ready: bool


class _Readiness(msgspec.Struct):
    checks: dict[str, _Check]


_READINESS: Final = msgspec.json.Decoder(_Readiness)


def connected(where: Address | Service, patience: Patience, context: ssl.SSLContext) -> HTTPSConnection:
    """A new connection, made within a second."""
    seconds = min(_CONNECT_SECONDS, patience.seconds)
    connection = HTTPSConnection(where.host, where.port, timeout=seconds, context=context)
    connection.connect()
    return connection


def check_ready(connection: HTTPSConnection, patience: Patience) -> None:
    """Go on if it is ready but for its own end.

    Raises:
        HTTPException: it is not.
    """
    with _closed_if_broken(connection):
        connection.sock.settimeout(patience.seconds)
        connection.request("GET", "/readyz")
        found = _READINESS.decode(connection.getresponse().read(_LARGEST_READINESS))
        if missing := [name for name, check in found.checks.items() if not check.ready and name != SERVING]:
            raise HTTPException(f"it is not ready: {', '.join(missing)}")


def exchange(connection: HTTPSConnection, asked: Asked, patience: Patience, headers: Mapping[str, str]) -> Answered:
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
def silence(where: Address | Service) -> Iterator[None]:
    """Tell what breaks a connection as silence."""
    try:
        yield
    except TimeoutError:
        raise LateError(f"{where} did not answer in time") from None
    except (OSError, HTTPException, msgspec.MsgspecError) as error:
        raise SilentError(f"{where} does not answer: {str(error) or type(error).__name__}") from None
