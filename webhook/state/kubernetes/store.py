"""Ledger store in a cluster: requests that get, create, update and delete CapLedgers, and the meaning of responses."""

import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

import msgspec

from webhook.state.exchange import HttpResponse
from webhook.state.kubernetes import codec, naming, wire
from webhook.state.kubernetes.calls import Http1Client, Http1ClientConfig, Http1Request
from webhook.state.kubernetes.codec import StoredVersion
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionedLedger,
)

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
    metadata: wire.CapLedgerMetadata


_FAILURE_DECODER = msgspec.json.Decoder(_FailureStatus)
_METADATA_DECODER = msgspec.json.Decoder(_StoredMetadata)


class KubernetesLedgerStore:
    """A `LedgerStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, client_config: Http1ClientConfig, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = Http1Client(client_config)
        self._namespace = namespace
        self._now = now
        self._path = f"/apis/{naming.GROUP}/{naming.VERSION}/namespaces/{namespace}/{naming.PLURAL}"

    def read(self, key: LedgerKey, timeout: float) -> VersionedLedger | None:
        """Return the ledger as it is after this call began, by a quorum read; None if it does not exist.

        Raises:
            RetryLaterError: if the API server is overloaded.
            StoreUnavailableError: if the ledger cannot be read.
        """
        response = self._get(Http1Request("GET", self._get_path(key), _WHOLE_OBJECT), timeout)
        if response.status == HTTPStatus.OK:
            return codec.decode_ledger(response.body, key)
        failure = _decode_failure(response)
        missing_name = failure.details.name if failure.details else ""
        if response.status == HTTPStatus.NOT_FOUND and missing_name == naming.get_object_name(key):
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
        encoded = codec.encode_ledger(key, ledger, self._namespace, stored_version, self._now())
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
        unprotected = codec.encode_ledger(
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
        return f"{self._path}/{naming.get_object_name(key)}"

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
        resource = f"{naming.PLURAL}.{naming.GROUP}"
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


def _decode_metadata(response: HttpResponse) -> wire.CapLedgerMetadata:
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
