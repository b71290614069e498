"""Requests to the API server on connections that stay open, with a limit on every wait.

The important property of a failure is whether the request may have arrived: after such a write the caller reads the
object, and does not repeat the write.

Ledger store in a cluster: requests that get, create, update and delete CapLedgers, and the meaning of responses.
"""

import select
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPConnection
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import finalize

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from webhook.errors import TallygateError
from webhook.state.exchange import HttpResponse, exchange
from webhook.state.kubernetes import cap_ledger
from webhook.state.kubernetes.cap_ledger import StoredVersion
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionedLedger,
)

_CONNECT_TIMEOUT_SECONDS = 2.0
_MAX_IDLE_CONNECTIONS = 8  # connections; an idle one costs a socket here and in the API server


class Http1ClientConfig(Protocol):
    """The address of the API server, and the credentials.

    The headers are read for each request, since tokens are renewed.
    """

    @property
    def server(self) -> str:
        """The URL of the API server, without a slash at the end."""
        ...

    @property
    def pool(self) -> urllib3.PoolManager:
        """A pool that opens connections, with TLS and a proxy as configured."""
        ...

    def get_headers(self) -> dict[str, str]:
        """Return the headers with the credentials.

        Raises:
            TallygateError: if the credentials are unavailable.
        """
        ...


class Http1Request(NamedTuple):
    """A request; `accept` is the media type of the response."""

    method: str
    path: str
    accept: str
    body: bytes | None = None


class Http1Client:
    """A client of one API server, for any thread."""

    def __init__(self, client_config: Http1ClientConfig) -> None:
        self._client_config = client_config
        self._server = urlsplit(client_config.server)
        self._idle: list[_PolledConnection] = []
        finalize(self, _close_all, self._idle)

    def send(self, request: Http1Request, timeout: float) -> HttpResponse:
        """Send one request and return its response, of any status, within `patience` seconds.

        Raises:
            UnknownOutcomeError: if the request may have arrived, and no response, or an incomplete one, was received.
            StoreUnavailableError: if the request has not arrived.
        """
        deadline = time.monotonic() + timeout
        encoded_request = self._encode_request(request)
        connection = self._acquire(timeout)
        stays_open = False
        try:
            response, stays_open = exchange(connection.connection.sock, encoded_request, deadline)
        except TimeoutError as error:
            raise UnknownOutcomeError(f"the API server does not answer: {error}") from None
        except OSError as error:
            raise UnknownOutcomeError(f"the connection to the API server broke: {error}") from None
        except ValueError as error:
            raise UnknownOutcomeError(f"the API server's answer broke off: {error}") from None
        finally:
            self._release(connection, stays_open=stays_open)
        return response

    def _acquire(self, timeout: float) -> "_PolledConnection":
        """Return an open connection, unless the server has closed it meanwhile; otherwise a new one."""
        while self._idle:
            with suppress(IndexError):  # another thread has taken the last one
                idle_connection = self._idle.pop()
                if not idle_connection.poll.poll(0):
                    return idle_connection
                idle_connection.connection.close()
        connection = self._open(min(_CONNECT_TIMEOUT_SECONDS, timeout))
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return _PolledConnection(connection, poll)

    def _release(self, connection: "_PolledConnection", *, stays_open: bool) -> None:
        if stays_open and len(self._idle) < _MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.connection.close()

    def _open(self, timeout: float) -> HTTPConnection:
        """Return a connection as urllib3's pool creates it for itself; no public function does just that."""
        pool = self._client_config.pool.connection_from_url(self._client_config.server)
        connection: HTTPConnection = pool._new_conn()  # type: ignore[assignment]  # noqa: SLF001  # a HTTPConnection but in name
        connection.timeout = timeout
        try:
            if pool.proxy is not None:
                pool._prepare_proxy(connection)  # type: ignore[arg-type]  # noqa: SLF001  # the same
            if connection.sock is None:  # urllib3 requests a tunnel from a proxy only for TLS
                connection.connect()
        except (HTTPError, OSError) as error:
            connection.close()
            raise StoreUnavailableError(f"the API server cannot be reached: {error}") from None
        return connection

    def _encode_request(self, request: Http1Request) -> bytes:
        try:
            headers = {"Host": self._server.netloc, "Accept": request.accept, **self._client_config.get_headers()}
        except TallygateError as error:
            raise StoreUnavailableError(f"who asks cannot be said: {error}") from error
        body = request.body or b""
        if request.body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": f"{len(body)}"}
        lines = [f"{request.method} {self._server.path}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


class _PolledConnection(NamedTuple):
    """A connection, and a poll for unrequested input from the server: mostly the end of the connection."""

    connection: HTTPConnection
    poll: select.poll


def _close_all(connections: list[_PolledConnection]) -> None:
    for each in connections:
        each.connection.close()


_WHOLE_OBJECT = "application/json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_STRICT = "?fieldValidation=Strict"  # otherwise an older definition would drop a field of ours without an error
_MAX_MESSAGE_LENGTH = 500  # characters of a server's message


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _FailureStatus(msgspec.Struct, frozen=True):
    """A Status of a failed request."""

    message: str = "no reason given"
    details: _Details | None = None


class _StoredMetadata(msgspec.Struct, frozen=True):
    metadata: cap_ledger.CapLedgerMetadata


_FAILURE_DECODER = msgspec.json.Decoder(_FailureStatus)
_METADATA_DECODER = msgspec.json.Decoder(_StoredMetadata)


class KubernetesLedgerStore:
    """A `LedgerStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, client_config: Http1ClientConfig, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = Http1Client(client_config)
        self._namespace = namespace
        self._now = now
        self._path = f"/apis/{cap_ledger.GROUP}/{cap_ledger.VERSION}/namespaces/{namespace}/{cap_ledger.PLURAL}"

    def read(self, key: LedgerKey, timeout: float) -> VersionedLedger | None:
        """Return the ledger as it is after this call began, by a quorum read; None if it does not exist.

        Raises:
            RetryLaterError: if the API server is overloaded.
            StoreUnavailableError: if the ledger cannot be read.
        """
        response = self._get(Http1Request("GET", self._get_path(key), _WHOLE_OBJECT), timeout)
        if response.status == HTTPStatus.OK:
            return cap_ledger.decode_ledger(response.body, key)
        failure = _decode_failure(response)
        missing_name = failure.details.name if failure.details else ""
        if response.status == HTTPStatus.NOT_FOUND and missing_name == cap_ledger.get_object_name(key):
            return None
        raise self._create_error(response, failure)

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, timeout: float) -> str | None:
        """Store the ledger if it is still at `version` (None: if it does not exist).

        Return its new version, or None if the ledger has changed.

        Raises:
            RetryLaterError: if the API server is overloaded; the ledger is not stored.
            LedgerFullError: if it is too large to be stored.
            UnknownOutcomeError: if it may be stored.
            StoreUnavailableError: if it is not stored.
        """
        stored_version = None if version is None else StoredVersion.parse(version)
        encoded = cap_ledger.encode_ledger(key, ledger, self._namespace, stored_version, self._now())
        if stored_version is None:
            request = Http1Request("POST", self._path + _STRICT, _METADATA_ONLY, encoded.body)
        else:
            request = Http1Request("PUT", f"{self._get_path(key)}{_STRICT}", _METADATA_ONLY, encoded.body)
        response = self._client.send(request, timeout)
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            metadata = _decode_metadata(response)
            return StoredVersion(
                metadata.uid, metadata.resource_version, encoded.pods_revision, encoded.counted_at
            ).to_text()
        if response.status == HTTPStatus.CONFLICT or (
            response.status == HTTPStatus.NOT_FOUND and stored_version is not None
        ):
            return None
        raise self._create_error(response, _decode_failure(response))

    def remove(self, key: LedgerKey, expected: VersionedLedger, timeout: float) -> bool:
        """Remove the ledger if it is unchanged, and return whether it is deleted, by this call or before.

        The removal takes two writes. The first removes the finalizer. A write by another replica between the two
        restores the finalizer, and so keeps the ledger.

        Raises:
            RetryLaterError, StoreUnavailableError: if it may still exist.
        """
        deadline = time.monotonic() + timeout
        stored_version = StoredVersion.parse(expected.version)
        unprotected = cap_ledger.encode_ledger(
            key, expected.ledger, self._namespace, stored_version, self._now(), has_finalizer=False
        )
        request = Http1Request("PUT", f"{self._get_path(key)}{_STRICT}", _METADATA_ONLY, unprotected.body)
        response = self._client.send(request, timeout)
        if response.status == HTTPStatus.OK:
            preconditions = {"uid": stored_version.uid, "resourceVersion": _decode_metadata(response).resource_version}
            body = msgspec.json.encode({"preconditions": preconditions})
            request = Http1Request("DELETE", self._get_path(key), _METADATA_ONLY, body)
            response = self._client.send(request, max(deadline - time.monotonic(), 0.0))
        if response.status in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            return response.status != HTTPStatus.CONFLICT
        raise self._create_error(response, _decode_failure(response))

    def _get_path(self, key: LedgerKey) -> str:
        return f"{self._path}/{cap_ledger.get_object_name(key)}"

    def _get(self, request: Http1Request, timeout: float) -> HttpResponse:
        """Return a response, with one retry: the other side may just have closed the first connection from the pool."""
        deadline = time.monotonic() + timeout
        try:
            return self._client.send(request, timeout)
        except UnknownOutcomeError:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            return self._client.send(request, remaining)

    def _create_error(self, response: HttpResponse, failure: _FailureStatus) -> RetryLaterError | StoreUnavailableError:
        """Return the error for an unexpected response; its type tells whether the request may have been applied."""
        message = f"the API server says {response.status}: {failure.message[:_MAX_MESSAGE_LENGTH]}"
        resource = f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}"
        match response.status:
            case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                return LedgerFullError(message)
            case HTTPStatus.TOO_MANY_REQUESTS:
                return RetryLaterError(message)
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                may = f"get, create, update and delete {resource} in namespace {self._namespace}"
                return StoreUnavailableError(f"{message}; the gate must be allowed to {may}")
            case HTTPStatus.NOT_FOUND:
                needed = f"a namespace {self._namespace} and this version's CustomResourceDefinition {resource}"
                return StoreUnavailableError(f"{message}; there must be {needed}")
            case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return UnknownOutcomeError(message)
            case _:
                return StoreUnavailableError(message)


def _decode_metadata(response: HttpResponse) -> cap_ledger.CapLedgerMetadata:
    try:
        return _METADATA_DECODER.decode(response.body).metadata
    except ValueError as error:
        raise UnknownOutcomeError(f"the API server's answer is no object: {error}") from None


def _decode_failure(response: HttpResponse) -> _FailureStatus:
    """Return the Status in the response, or a default one."""
    try:
        return _FAILURE_DECODER.decode(response.body)
    except (ValueError, RecursionError):
        return _FailureStatus()
