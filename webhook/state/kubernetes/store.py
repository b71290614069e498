"""Ledger store in a cluster: requests that get, create, update and delete CapLedgers, and the meaning of responses."""

import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

import msgspec

from webhook.state.exchange import Answer
from webhook.state.kubernetes import codec, naming, wire
from webhook.state.kubernetes.calls import Access, Caller, Request
from webhook.state.kubernetes.codec import Place
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionedLedger,
)

_WHOLE = "application/json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_STRICT = "?fieldValidation=Strict"  # otherwise an older definition would drop a field of ours without an error
_MOST_TOLD = 500  # characters of a server's message


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    """A Status of a failed request."""

    message: str = "no reason given"
    details: _Details | None = None


class _Stored(msgspec.Struct, frozen=True):
    metadata: wire.Metadata


_REFUSAL = msgspec.json.Decoder(_Refusal)
_STORED = msgspec.json.Decoder(_Stored)


class KubernetesLedgers:
    """A `LedgerStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, access: Access, namespace: str, now: Callable[[], datetime]) -> None:
        self._caller = Caller(access)
        self._namespace = namespace
        self._now = now
        self._path = f"/apis/{naming.GROUP}/{naming.VERSION}/namespaces/{namespace}/{naming.PLURAL}"

    def read(self, key: LedgerKey, patience: float) -> VersionedLedger | None:
        """Return the ledger as it is after this call began, by a quorum read; None if it does not exist.

        Raises:
            RetryLaterError: if the API server is overloaded.
            StoreUnavailableError: if the ledger cannot be read.
        """
        answer = self._got(Request("GET", self._of(key), _WHOLE), patience)
        if answer.status == HTTPStatus.OK:
            return codec.decode(answer.body, key)
        refusal = _refusal(answer)
        named = refusal.details.name if refusal.details else ""
        if answer.status == HTTPStatus.NOT_FOUND and named == naming.object_name(key):
            return None
        raise self._failure(answer, refusal)

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, patience: float) -> str | None:
        """Store the ledger if it is still at `version` (None: if it does not exist).

        Return its new version, or None if the ledger has changed.

        Raises:
            RetryLaterError: if the API server is overloaded; the ledger is not stored.
            LedgerFullError: if it is too large to be stored.
            UnknownOutcomeError: if it may be stored.
            StoreUnavailableError: if it is not stored.
        """
        place = None if version is None else Place.of(version)
        written = codec.encode(key, ledger, self._namespace, place, self._now())
        if place is None:
            request = Request("POST", self._path + _STRICT, _METADATA_ONLY, written.body)
        else:
            request = Request("PUT", f"{self._of(key)}{_STRICT}", _METADATA_ONLY, written.body)
        answer = self._caller.call(request, patience)
        if answer.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            stored = _stored(answer)
            return Place(stored.uid, stored.resource_version, written.as_of, written.counted_at).text()
        if answer.status == HTTPStatus.CONFLICT or (answer.status == HTTPStatus.NOT_FOUND and place is not None):
            return None
        raise self._failure(answer, _refusal(answer))

    def remove(self, key: LedgerKey, found: VersionedLedger, patience: float) -> bool:
        """Remove the ledger if it is unchanged, and return whether it is deleted, by this call or before.

        The removal takes two writes. The first removes the finalizer. A write by another replica between the two
        restores the finalizer, and so keeps the ledger.

        Raises:
            RetryLaterError, StoreUnavailableError: if it may still exist.
        """
        until = time.monotonic() + patience
        place = Place.of(found.version)
        bare = codec.encode(key, found.ledger, self._namespace, place, self._now(), keeps=False)
        request = Request("PUT", f"{self._of(key)}{_STRICT}", _METADATA_ONLY, bare.body)
        answer = self._caller.call(request, patience)
        if answer.status == HTTPStatus.OK:
            at = {"uid": place.uid, "resourceVersion": _stored(answer).resource_version}
            body = msgspec.json.encode({"preconditions": at})
            request = Request("DELETE", self._of(key), _METADATA_ONLY, body)
            answer = self._caller.call(request, max(until - time.monotonic(), 0.0))
        if answer.status in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            return answer.status != HTTPStatus.CONFLICT
        raise self._failure(answer, _refusal(answer))

    def _of(self, key: LedgerKey) -> str:
        return f"{self._path}/{naming.object_name(key)}"

    def _got(self, request: Request, patience: float) -> Answer:
        """Return a response, with one retry: the other side may just have closed the first connection from the pool."""
        until = time.monotonic() + patience
        try:
            return self._caller.call(request, patience)
        except UnknownOutcomeError:
            left = until - time.monotonic()
            if left <= 0:
                raise
            return self._caller.call(request, left)

    def _failure(self, answer: Answer, refusal: _Refusal) -> RetryLaterError | StoreUnavailableError:
        """Return the error for an unexpected response; its type tells whether the request may have been applied."""
        message = f"the API server says {answer.status}: {refusal.message[:_MOST_TOLD]}"
        resource = f"{naming.PLURAL}.{naming.GROUP}"
        match answer.status:
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


def _stored(answer: Answer) -> wire.Metadata:
    try:
        return _STORED.decode(answer.body).metadata
    except ValueError as error:
        raise UnknownOutcomeError(f"the API server's answer is no object: {error}") from None


def _refusal(answer: Answer) -> _Refusal:
    """Return the Status in the response, or a default one."""
    try:
        return _REFUSAL.decode(answer.body)
    except (ValueError, RecursionError):
        return _Refusal()
