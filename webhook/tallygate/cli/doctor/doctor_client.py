"""A client that sends single requests to a server and returns the response of any status; every wait is limited.

Its requests store nothing: the API server never stores reviews, and pods are sent as a dry run.
"""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.framework import UsageError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.kube.transport import Response

T = TypeVar("T")

_LIMITS: Final = ResponseLimits(5.0, 35.0, 60.0, 16 * 1024 * 1024)  # a create waits for webhooks, each up to 30 s
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
    """A client of one server: the API server, or the monitor port of a replica."""

    def __init__(self, client_config: ClientConfig, limits: ResponseLimits | None = None) -> None:
        self._limits = limits or _LIMITS
        self._client = ApiClient(client_config, self._limits, "tallygate-doctor")

    @property
    def server(self) -> str:
        """The URL of the server."""
        return self._client.server

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()

    def check_reachable(self) -> ApiResponse:
        """Return the response to `/version`, which needs no permission.

        Raises:
            UsageError: if the API server cannot be reached or rejects the credentials.
        """
        response = self.get("/version")
        if isinstance(response, Unavailable) or not response.is_ok:
            unavailable = response if isinstance(response, Unavailable) else response.create_unavailable()
            reason = unavailable.reason.removeprefix(f"{urlsplit(self.server).netloc} does not answer: ")
            raise UsageError(f"the API server at {self.server} does not answer: {reason}")
        return response

    def get(self, path: str, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """Send a GET request and return the response of any status."""
        return self._send(path, lambda: self._client.get(path, query))

    def post(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> ApiResponse | Unavailable:
        """Send a POST request with a JSON body and return the response of any status."""
        return self._send(path, lambda: self._client.create(path, body, query))

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

    def _send(self, path: str, send: Callable[[], Response]) -> ApiResponse | Unavailable:
        started_at = time.time()
        try:
            response = send()
        except ApiError as error:
            return Unavailable(self._describe_failure(path, error)[:_MAX_MESSAGE_CHARACTERS])
        clock_offset = _measure_clock_offset(response.server_time, started_at, time.time())
        return ApiResponse(response.status, response.body, clock_offset)

    def _describe_failure(self, path: str, error: ApiError) -> str:
        if error.reason is ApiErrorReason.UNAUTHORIZED:
            return str(error)
        if error.reason is ApiErrorReason.TOO_LARGE:
            return f"{urlsplit(self.server).path}{path} answers with more than {self._limits.max_bytes} bytes"
        return f"{urlsplit(self.server).netloc} does not answer: {error.detail}"


def _measure_clock_offset(server_time: float | None, started_at: float, ended_at: float) -> float | None:
    """Return the seconds by which the server's clock is ahead of the local one.

    A server's time is cut to the second and was read at some time between request and response: the offset is 0 if that
    explains the difference.
    """
    if server_time is None:
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
