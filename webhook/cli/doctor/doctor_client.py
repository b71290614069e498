"""The API server, asked once for each thing: an answer whatever its status, with an end to every wait.

Nothing is stored by what goes through here: reviews are never stored, and pods are sent as a dry run.
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
from webhook.state.watch.connect import Connection
from webhook.state.watch.failure import WatchError

T = TypeVar("T")

_CONNECT_TIMEOUT_SECONDS, _READ_TIMEOUT_SECONDS = 5.0, 35.0  # a create waits for webhooks, each of them up to 30 s
_TOTAL_TIMEOUT_SECONDS = 60.0
_MAX_BODY_BYTES = 16 * 1024 * 1024
_OK, _NOT_FOUND = 200, 404
_MAX_MESSAGE_CHARACTERS = 300
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


class ApiResponse(NamedTuple):
    """What was answered; `ahead` is how far the clock of who answered is ahead of ours, in seconds, if it says."""

    status: int
    body: bytes
    clock_offset: float | None

    @property
    def is_ok(self) -> bool:
        """Whether it is what was asked for."""
        return self.status == _OK

    def create_unavailable(self) -> Unavailable:
        """Why it is not: in the server's own words, where it has any."""
        message = self.parse_message() or _PHRASES.get(self.status, "")
        return Unavailable(" ".join(f"{self.status} {message}".split())[:_MAX_MESSAGE_CHARACTERS])

    def parse_message(self) -> str:
        """What a Status says; empty for anything else."""
        try:
            return msgspec.json.decode(self.body, type=_Status).message
        except (ValueError, RecursionError):
            return ""


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class DoctorClient:
    """One API server, asked as who the kubeconfig says."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def server(self) -> str:
        """Its URL."""
        return self._connection.server

    def check_reachable(self) -> ApiResponse:
        """Its version, which anybody may ask.

        Raises:
            Misuse: it cannot be reached, or does not know who asks.
        """
        response = self.get("/version")
        if isinstance(response, Unavailable) or not response.is_ok:
            unavailable = response if isinstance(response, Unavailable) else response.create_unavailable()
            raise UsageError(f"the API server at {self.server} does not answer: {unavailable.reason}")
        return response

    def get(self, path: str, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """One answer, whatever its status."""
        return self._send("GET", path, query, None)

    def post(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """The same for something that is sent as JSON."""
        return self._send("POST", path, query, body)

    def get_object(self, path: str, record_type: type[T]) -> T | Unavailable | None:
        """One object; None where there is none."""
        response = self.get(path)
        if isinstance(response, Unavailable):
            return response
        return None if response.status == _NOT_FOUND else _decode(response, record_type)

    def list_objects(
        self, path: str, record_type: type[T], query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | Unavailable:
        """A short list, which is no larger than one page."""
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
            headers = {**self._connection.headers(), "Accept": "application/json", "User-Agent": "tallygate-doctor"}
        except WatchError as error:
            return Unavailable(str(error))
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = self.server + path + (f"?{_encode_query(query)}" if query else "")
        return send_request(self._connection.pool, method, url, headers, body)


def send_request(
    pool: urllib3.PoolManager, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> ApiResponse | Unavailable:
    """One answer of any server, whatever its status; never more than 16 MiB of it."""
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
    """What it says, as far as that comes in time; whoever goes on for ever is cut off.

    Raises:
        HTTPError, OSError: it broke off.
    """
    is_timed_out = Event()

    def abort() -> None:
        is_timed_out.set()
        with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
            response.shutdown()

    timer = Timer(_TOTAL_TIMEOUT_SECONDS, abort)
    timer.start()
    try:
        content = response.read(_MAX_BODY_BYTES + 1)
    finally:
        timer.cancel()
        response.close()
    if is_timed_out.is_set():  # what came until then may have been read without a fault
        raise TimeoutError(f"it was not whole after {_TOTAL_TIMEOUT_SECONDS:.0f} s")
    return content


def _measure_clock_offset(date: str | None, started_at: float, ended_at: float) -> float | None:
    """A Date is cut to a second, and made at some time between asking and hearing: 0 where that explains it."""
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


_JSON_NULL = msgspec.Raw(b"null")
