"""Ledger store in a cluster: requests that get, create, update and delete CapLedgers, and the meaning of responses.

The important property of a failure is whether the request may have arrived: after such a write the caller reads the
object, and does not repeat the write.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import OBJECT_LIMITS, OBJECT_METADATA, ApiClient, ClientConfig
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response
from tallygate.state import ports
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.cap_ledger import StoredVersion
from tallygate.state.ledger.ledger import Ledger

_PERMANENT_REASONS = frozenset({ApiErrorReason.UNAUTHORIZED, ApiErrorReason.REFUSED})  # no token, no valid request
_STRICT = {"fieldValidation": "Strict"}  # otherwise an older definition would drop a field of ours without an error


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _FailureStatus(msgspec.Struct, frozen=True):
    """The object that a Status of a failed request names."""

    details: _Details | None = None


class _StoredMetadata(msgspec.Struct, frozen=True):
    metadata: cap_ledger.CapLedgerMetadata


_FAILURE_DECODER = msgspec.json.Decoder(_FailureStatus)
_METADATA_DECODER = msgspec.json.Decoder(_StoredMetadata)


class KubernetesLedgerStore:
    """A `LedgerStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, client_config: ClientConfig, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS)
        self._namespace = namespace
        self._now = now
        self._path = f"/apis/{cap_ledger.GROUP}/{cap_ledger.VERSION}/namespaces/{namespace}/{cap_ledger.PLURAL}"

    def read(self, key: ports.LedgerKey, timeout: float) -> ports.VersionedLedger | None:
        """Return the ledger as it is after this call began, by a quorum read; None if it does not exist.

        Raises:
            RetryLaterError: if the API server is overloaded.
            StoreUnavailableError: if the ledger cannot be read.
        """
        response = self._get(self._get_path(key), timeout)
        if response.status == HTTPStatus.OK:
            return cap_ledger.decode_ledger(response.body, key)
        if response.status == HTTPStatus.NOT_FOUND and _decode_missing_name(response) == cap_ledger.get_object_name(
            key
        ):
            return None
        raise self._create_error(response)

    def write(self, key: ports.LedgerKey, ledger: Ledger, version: str | None, timeout: float) -> str | None:
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
        send, path = (
            (self._client.create, self._path) if stored_version is None else (self._client.replace, self._get_path(key))
        )
        with _convert_errors():
            response = send(path, encoded.body, _STRICT, accept=OBJECT_METADATA, timeout=timeout)
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            metadata = _decode_metadata(response)
            return StoredVersion(
                metadata.uid, metadata.resource_version, encoded.pods_revision, encoded.counted_at
            ).to_text()
        if response.status == HTTPStatus.CONFLICT or (
            response.status == HTTPStatus.NOT_FOUND and stored_version is not None
        ):
            return None
        raise self._create_error(response)

    def remove(self, key: ports.LedgerKey, expected: ports.VersionedLedger, timeout: float) -> bool:
        """Remove the ledger if it is unchanged, and return whether it is deleted, by this call or before.

        Raises:
            RetryLaterError, StoreUnavailableError: if it may still exist.
        """
        stored_version = StoredVersion.parse(expected.version)
        preconditions = {"uid": stored_version.uid, "resourceVersion": stored_version.resource_version}
        body = msgspec.json.encode({"preconditions": preconditions})
        with _convert_errors():
            response = self._client.delete(self._get_path(key), body, accept=OBJECT_METADATA, timeout=timeout)
        if response.status in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            return response.status != HTTPStatus.CONFLICT
        raise self._create_error(response)

    def _get_path(self, key: ports.LedgerKey) -> str:
        return f"{self._path}/{cap_ledger.get_object_name(key)}"

    def _get(self, path: str, timeout: float) -> Response:
        """Return a response, with one retry: the other side may just have closed the first connection from the pool."""
        deadline = time.monotonic() + timeout
        with _convert_errors():
            try:
                return self._client.get(path, timeout=timeout)
            except ApiError as error:
                remaining = deadline - time.monotonic()
                if not error.may_be_applied or remaining <= 0:
                    raise
                return self._client.get(path, timeout=remaining)

    def _create_error(self, response: Response) -> ports.RetryLaterError | ports.StoreUnavailableError:
        """Return the error for an unexpected response; its type tells whether the request may have been applied."""
        message = str(create_response_error(response))
        resource = f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}"
        match response.status:
            case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                return ports.LedgerFullError(message)
            case HTTPStatus.TOO_MANY_REQUESTS:
                return ports.RetryLaterError(message)
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                may = f"get, create, update and delete {resource} in namespace {self._namespace}"
                return ports.StoreUnavailableError(f"{message}; the gate must be allowed to {may}")
            case HTTPStatus.NOT_FOUND:
                needed = f"a namespace {self._namespace} and this version's CustomResourceDefinition {resource}"
                return ports.StoreUnavailableError(f"{message}; there must be {needed}")
            case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return ports.UnknownOutcomeError(message)
            case _:
                return ports.StoreUnavailableError(message)


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise the error of the store for a request without a complete response."""
    try:
        yield
    except ApiError as error:
        if error.may_be_applied:
            raise ports.UnknownOutcomeError(str(error)) from error
        error_type = ports.StoreUnavailableError if error.reason in _PERMANENT_REASONS else ports.StoreUnreachableError
        raise error_type(str(error)) from error


def _decode_metadata(response: Response) -> cap_ledger.CapLedgerMetadata:
    try:
        return _METADATA_DECODER.decode(response.body).metadata
    except ValueError as error:
        raise ports.UnknownOutcomeError(f"the API server's answer is no object: {error}") from None


def _decode_missing_name(response: Response) -> str:
    """Return the name of the missing object, empty if the response has none."""
    try:
        details = _FAILURE_DECODER.decode(response.body).details
    except (ValueError, RecursionError):
        return ""
    return details.name if details else ""
