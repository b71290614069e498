"""Leases of the gate's replicas in its own namespace (coordination.k8s.io/v1)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import msgspec

from webhook.state.exchange import Answer
from webhook.state.kubernetes.calls import Access, Caller, Request
from webhook.state.ports import Lease, RetryLaterError, StoreUnavailableError

CAPS = "tallygate.dev/caps"
"""The annotation in which a replica lists its active caps."""

_LABELS = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
_SELECTOR = quote(",".join(f"{name}={value}" for name, value in _LABELS.items()), safe="")
_JSON = "application/json"
_PATIENCE = 5.0
_MOST_TOLD = 500  # characters of a server's answer


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resource_version: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel", frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


class _List(msgspec.Struct, frozen=True):
    items: list[_Lease]


_LIST = msgspec.json.Decoder(_List)
_ENCODER = msgspec.json.Encoder()


class KubernetesLeases:
    """A `LeaseStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, access: Access, namespace: str, now: Callable[[], datetime]) -> None:
        self._caller = Caller(access)
        self._now = now
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def list_leases(self) -> Sequence[Lease]:
        """Return the leases with the gate's labels, by a quorum read.

        Raises:
            RetryLaterError, StoreUnavailableError: if they cannot be read.
        """
        answer = self._caller.call(Request("GET", f"{self._path}?labelSelector={_SELECTOR}", _JSON), _PATIENCE)
        if answer.status != HTTPStatus.OK:
            raise _failure(answer)
        try:
            return [_read(each) for each in _LIST.decode(answer.body).items]
        except (ValueError, RecursionError) as error:
            raise StoreUnavailableError(f"the API server's answer is no list of leases: {error}") from None

    def write(self, lease: Lease) -> bool:
        """Claim or renew the lease, by compare-and-swap.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not stored, or the outcome is unknown.
        """
        body = _ENCODER.encode(self._written(lease))
        if lease.version:
            request = Request("PUT", f"{self._path}/{lease.name}", _JSON, body)
        else:
            request = Request("POST", self._path, _JSON, body)
        answer = self._caller.call(request, _PATIENCE)
        if answer.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return True
        if answer.status == HTTPStatus.CONFLICT or (answer.status == HTTPStatus.NOT_FOUND and lease.version):
            return False
        raise _failure(answer)

    def remove(self, lease: Lease) -> None:
        """Delete the lease, unless it was changed.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not deleted, or the outcome is unknown.
        """
        body = _ENCODER.encode({"preconditions": {"resourceVersion": lease.version}})
        answer = self._caller.call(Request("DELETE", f"{self._path}/{lease.name}", _JSON, body), _PATIENCE)
        if answer.status not in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise _failure(answer)

    def _written(self, lease: Lease) -> _Lease:
        caps = {} if lease.caps is None else {CAPS: " ".join(sorted(lease.caps))}
        metadata = _Metadata(lease.name, _LABELS, caps, lease.version)
        renewed = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # a MicroTime
        seconds = max(1, round(lease.duration_seconds))
        return _Lease(
            metadata, _Spec(lease.holder or None, seconds, lease.acquire_time or renewed, renewed, lease.transitions)
        )


def _read(stored: _Lease) -> Lease:
    metadata, spec = stored.metadata, stored.spec
    caps = metadata.annotations.get(CAPS)
    return Lease(
        metadata.name,
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or 0),
        metadata.resource_version,
        None if caps is None else frozenset(caps.split()),
        spec.lease_transitions or 0,
        spec.acquire_time or "",
    )


def _failure(answer: Answer) -> RetryLaterError | StoreUnavailableError:
    message = f"leases: the API server says {answer.status}: {answer.body[:_MOST_TOLD].decode(errors='replace')}"
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return RetryLaterError(message)
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return StoreUnavailableError(f"{message}; the gate must be allowed to list, create, update and delete leases")
    return StoreUnavailableError(message)
