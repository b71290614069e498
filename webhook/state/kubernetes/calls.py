"""Requests to the API server over the client's own connections, with an end to every wait.

What matters of a failure is whether the request may have arrived: a write that may have is looked up, not repeated.
"""

import time
from typing import NamedTuple, Protocol

import urllib3
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from webhook.errors import TallygateError
from webhook.state.ports import LostAnswerError, StoreUnavailableError

_CONNECT_SECONDS = 2.0
_PIECE = 256 * 1024
_MOST_BYTES = 8 * 1024 * 1024


class Access(Protocol):
    """Where the API server is, and who asks. Headers are asked for anew each time, since tokens are renewed."""

    @property
    def server(self) -> str:
        """Its URL, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """Connections that are kept alive, with TLS as it is configured."""
        ...

    def headers(self) -> dict[str, str]:
        """What says who asks.

        Raises:
            TallygateError: it cannot be had.
        """
        ...


class Request(NamedTuple):
    """What is asked; `accept` is the media type of the answer."""

    method: str
    path: str
    accept: str
    body: bytes | None = None


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


def call(access: Access, request: Request, patience: float) -> Answer:
    """One request and its answer, whatever its status, within `patience` seconds.

    Raises:
        LostAnswerError: the request may have arrived; no answer came, or none that is whole.
        StoreUnavailableError: it has not.
    """
    until = time.monotonic() + patience
    response = _sent(access, request, patience)
    try:
        return Answer(response.status, _whole(response, until))
    except (HTTPError, OSError, ValueError) as error:
        raise LostAnswerError(f"the API server's answer broke off: {error}") from None
    finally:
        response.close()  # what was read to its end is back in the pool already


def _sent(access: Access, request: Request, patience: float) -> urllib3.BaseHTTPResponse:
    try:
        headers = access.headers() | {"Accept": request.accept}
    except TallygateError as error:
        raise StoreUnavailableError(f"who asks cannot be said: {error}") from error
    if request.body is not None:
        headers = headers | {"Content-Type": "application/json"}
    try:
        return access.pool.request(
            request.method,
            access.server + request.path,
            body=request.body,
            headers=headers,
            timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, patience), total=patience),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
    except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError) as error:
        raise StoreUnavailableError(f"the API server cannot be reached: {error}") from None
    except exceptions.TimeoutError as error:
        raise LostAnswerError(f"the API server does not answer: {error}") from None
    except (HTTPError, OSError) as error:
        raise LostAnswerError(f"the connection to the API server broke: {error}") from None


def _whole(response: urllib3.BaseHTTPResponse, until: float) -> bytes:
    """The body.

    Raises:
        ValueError: it is too long, or comes too slowly.
    """
    pieces, length = list[bytes](), 0
    while piece := response.read(_PIECE):
        pieces.append(piece)
        length += len(piece)
        if length > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        if time.monotonic() > until:
            raise ValueError("it was not whole in time")
    return b"".join(pieces)
