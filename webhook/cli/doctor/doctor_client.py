"""A client that sends single requests to the API server and returns the response of any status; every wait is limited.

Its requests store nothing: the API server never stores reviews, and pods are sent as a dry run.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Event, Timer
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from webhook.cli.doctor.facts import Unavailable
from webhook.cli.framework import UsageError
from webhook.kube.api_errors import WatchError
from webhook.kube.config import ClientConfig

T = TypeVar("T")

_CONNECT_TIMEOUT_SECONDS, _READ_TIMEOUT_SECONDS = 5.0, 35.0  # a create waits for webhooks, each of them up to 30 s
_TOTAL_TIMEOUT_SECONDS = 60.0
_MAX_BODY_BYTES = 16 * 1024 * 1024
_OK, _NOT_FOUND = 200, 404
_MAX_MESSAGE_CHARACTERS = 300
_JSON_NULL = msgspec.Raw(b"null")
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


class ApiResponse(NamedTuple):
    """A response; `clock_offset` is the lead of the server's clock over the local one in seconds, None if unknown."""

    status: int
    body: bytes
    clock_offset: float | None

    @property
    def is_ok(self) -> bool:
        """Whether the status is 200."""
        return self.status == _OK

    def create_unavailable(self) -> Unavailable:
        """Return the failure with the server's message, or the phrase of the status if the response has no message."""
        message = self.parse_message() or _PHRASES.get(self.status, "")
        return Unavailable(" ".join(f"{self.status} {message}".split())[:_MAX_MESSAGE_CHARACTERS])

    def parse_message(self) -> str:
        """Return the message of a Status object; an empty string for any other body."""
        try:
            return msgspec.json.decode(self.body, type=_Status).message
        except (ValueError, RecursionError):
            return ""


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class DoctorClient:
    """A client of one API server with the credentials of the kubeconfig."""

    def __init__(self, connection: ClientConfig) -> None:
        self._connection = connection

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._connection.server

    def check_reachable(self) -> ApiResponse:
        """Return the response to `/version`, which needs no permission.

        Raises:
            UsageError: if the API server cannot be reached or rejects the credentials.
        """
        response = self.get("/version")
        if isinstance(response, Unavailable) or not response.is_ok:
            unavailable = response if isinstance(response, Unavailable) else response.create_unavailable()
            raise UsageError(f"the API server at {self.server} does not answer: {unavailable.reason}")
        return response

    def get(self, path: str, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """Send a GET request and return the response of any status."""
        return self._send("GET", path, query, None)

    def post(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """Send a POST request with a JSON body and return the response of any status."""
        return self._send("POST", path, query, body)

    def get_object(self, path: str, record_type: type[T]) -> T | Unavailable | None:
        """Return one object; None if it does not exist."""
        response = self.get(path)
        if isinstance(response, Unavailable):
            return response
        return None if response.status == _NOT_FOUND else _decode(response, record_type)

    def list_objects(
        self, path: str, record_type: type[T], query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | Unavailable:
        """Return the items of a list that fits in one page."""
        response = self.get(path, query)
        content = response if isinstance(response, Unavailable) else _decode(response, dict[str, msgspec.Raw])
        if isinstance(content, Unavailable):
            return content
        try:
            return tuple(msgspec.json.decode(content.get("items", _JSON_NULL), type=list[record_type] | None) or ())  # type: ignore[valid-type]  # a type at run time, which mypy does not know
        except (ValueError, RecursionError) as error:
            return Unavailable(f"what {path} answers is not read: {error}"[:_MAX_MESSAGE_CHARACTERS])

    def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None
    ) -> ApiResponse | Unavailable:
        try:
            headers = {**self._connection.get_headers(), "Accept": "application/json", "User-Agent": "tallygate-doctor"}
        except WatchError as error:
            return Unavailable(str(error))
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = self.server + path + (f"?{_encode_query(query)}" if query else "")
        return send_request(self._connection.pool, method, url, headers, body)


def send_request(
    pool: urllib3.PoolManager, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> ApiResponse | Unavailable:
    """Send a request to any server and return the response of any status, limited to 16 MiB."""
    timeout, started_at = urllib3.Timeout(connect=_CONNECT_TIMEOUT_SECONDS, read=_READ_TIMEOUT_SECONDS), time.time()
    try:
        response = pool.request(
            method,
            url,
            body=body,
            headers=dict(headers),
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        ended_at = time.time()
        response_body = _read_body(response)
    except (HTTPError, OSError, ValueError) as error:
        return Unavailable(f"{urlsplit(url).netloc} does not answer: {error}"[:_MAX_MESSAGE_CHARACTERS])
    if len(response_body) > _MAX_BODY_BYTES:
        return Unavailable(f"{urlsplit(url).path} answers with more than {_MAX_BODY_BYTES} bytes")
    return ApiResponse(
        response.status, response_body, _measure_clock_offset(response.headers.get("Date"), started_at, ended_at)
    )


def _read_body(response: urllib3.BaseHTTPResponse) -> bytes:
    """Read the body, at most one byte more than the limit, within 60 s.

    Raises:
        HTTPError: if the connection breaks.
        OSError: if the connection breaks or the time is over.
    """
    is_timed_out = Event()

    def abort() -> None:
        is_timed_out.set()
        with suppress(OSError, ValueError, RuntimeError):  # the response may have just ended
            response.shutdown()

    timer = Timer(_TOTAL_TIMEOUT_SECONDS, abort)
    timer.start()
    try:
        content = response.read(_MAX_BODY_BYTES + 1)
    finally:
        timer.cancel()
        response.close()
    if is_timed_out.is_set():  # the shutdown can end the read without an error
        raise TimeoutError(f"it was not whole after {_TOTAL_TIMEOUT_SECONDS:.0f} s")
    return content


def _measure_clock_offset(date: str | None, started_at: float, ended_at: float) -> float | None:
    """Return the seconds by which the server's clock is ahead of the local one.

    A `Date` is cut to the second and was made at some time between request and response: the offset is 0 if that
    explains the difference.
    """
    try:
        server_time = parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError):
        return None
    if server_time + 1 < started_at:
        return server_time + 1 - started_at
    return server_time - ended_at if server_time > ended_at else 0.0


def _decode(response: ApiResponse, record_type: type[T]) -> T | Unavailable:
    if not response.is_ok:
        return response.create_unavailable()
    try:
        return msgspec.json.decode(response.body, type=record_type)
    except (ValueError, RecursionError) as error:
        return Unavailable(f"what was answered is not read: {error}"[:_MAX_MESSAGE_CHARACTERS])


def _encode_query(query: Mapping[str, str]) -> str:
    return urlencode(query)
