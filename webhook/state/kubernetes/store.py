"""The ledgers' store in a cluster: get, create and update CapLedgers, and what each answer means."""

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
_STRICT = "?fieldValidation=Strict"  # else an older definition would have a field of ours dropped, and nobody told
_MOST_TOLD = 500  # characters of a server's message


class _Details(msgspec.Struct, frozen=True):
    name: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    """A Status that says no."""

    message: str = "no reason given"
    details: _Details | None = None


class _Stored(msgspec.Struct, frozen=True):
    metadata: wire.Metadata


_REFUSAL = msgspec.json.Decoder(_Refusal)
_STORED = msgspec.json.Decoder(_Stored)


class KubernetesLedgers:
    """A `LedgerStore` in one namespace of a cluster; `now` gives the wall clock's time, for people to read."""

    def __init__(self, access: Access, namespace: str, now: Callable[[], datetime]) -> None:
        self._caller = Caller(access)
        self._namespace = namespace
        self._now = now
        self._path = f"/apis/{naming.GROUP}/{naming.VERSION}/namespaces/{namespace}/{naming.PLURAL}"

    def read(self, key: LedgerKey, patience: float) -> VersionedLedger | None:
        """The ledger as it is after this call began, or None when there is none: a quorum read.

        Raises:
            BusyError: the API server has too much to do.
            StoreUnavailableError: it cannot be told.
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
        """Store the ledger if it is still at `version` (None: if there is none); its version then, or None if not.

        Raises:
            BusyError: the API server has too much to do; it was not stored.
            LedgerFullError: it is too large to be stored.
            LostAnswerError: it may have been stored.
            StoreUnavailableError: it was not stored.
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
        """Take the ledger away if it is still as it was found; whether it has gone, by this or before.

        In two writes: its finalizer goes first, and comes back with whatever somebody writes between the two, who so
        also keeps the ledger.

        Raises:
            BusyError, StoreUnavailableError: it may still be there.
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
        """An answer, though the first connection taken from the pool may just have been closed by the other side."""
        until = time.monotonic() + patience
        try:
            return self._caller.call(request, patience)
        except UnknownOutcomeError:
            left = until - time.monotonic()
            if left <= 0:
                raise
            return self._caller.call(request, left)

    def _failure(self, answer: Answer, refusal: _Refusal) -> RetryLaterError | StoreUnavailableError:
        """What an answer means that is none of those hoped for; whether it may have been done is in the type."""
        said = f"the API server says {answer.status}: {refusal.message[:_MOST_TOLD]}"
        resource = f"{naming.PLURAL}.{naming.GROUP}"
        match answer.status:
            case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                return LedgerFullError(said)
            case HTTPStatus.TOO_MANY_REQUESTS:
                return RetryLaterError(said)
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                may = f"get, create, update and delete {resource} in namespace {self._namespace}"
                return StoreUnavailableError(f"{said}; the gate must be allowed to {may}")
            case HTTPStatus.NOT_FOUND:
                needed = f"a namespace {self._namespace} and this version's CustomResourceDefinition {resource}"
                return StoreUnavailableError(f"{said}; there must be {needed}")
            case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return UnknownOutcomeError(said)
            case _:
                return StoreUnavailableError(said)


def _stored(answer: Answer) -> wire.Metadata:
    try:
        return _STORED.decode(answer.body).metadata
    except ValueError as error:
        raise UnknownOutcomeError(f"the API server's answer is no object: {error}") from None


def _refusal(answer: Answer) -> _Refusal:
    """Its own words, where it has any."""
    try:
        return _REFUSAL.decode(answer.body)
    except (ValueError, RecursionError):
        return _Refusal()
