"""Leases of the gate's replicas in its own namespace (coordination.k8s.io/v1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus

import msgspec

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.transport import Response
from tallygate.objects import coordination
from tallygate.objects.meta import ObjectMeta
from tallygate.state.kubernetes.stored_leases import create_leases_path, decode_leases
from tallygate.state.ports import Lease, RetryLaterError, StoreUnavailableError

CAPS_ANNOTATION = "tallygate.dev/caps"
"""The annotation in which a replica lists its active caps."""

_LABELS = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
LEASE_SELECTOR = ",".join(f"{name}={value}" for name, value in _LABELS.items())
"""The selector of the Leases of the gate's replicas, by their labels."""

_TIMEOUT_SECONDS = 5.0
_MAX_MESSAGE_BYTES = 500  # characters of a server's answer
_ENCODER = msgspec.json.Encoder()


class KubernetesLeaseStore:
    """A `LeaseStore` in one namespace of a cluster; `now` returns the wall clock time, for people to read."""

    def __init__(self, client_config: ClientConfig, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS)
        self._now = now
        self._path = create_leases_path(namespace)

    def list_leases(self) -> Sequence[Lease]:
        """Return the leases with the gate's labels, by a quorum read.

        Raises:
            RetryLaterError, StoreUnavailableError: if they cannot be read.
        """
        return self._list({"labelSelector": LEASE_SELECTOR})

    def read(self, name: str) -> Lease | None:
        """Return one lease by a quorum read, or None if it does not exist: a list, for which the gate has the right.

        Raises:
            RetryLaterError, StoreUnavailableError: if it cannot be read.
        """
        return next(iter(self._list({"fieldSelector": f"metadata.name={name}"})), None)

    def _list(self, selector: Mapping[str, str]) -> Sequence[Lease]:
        with _convert_errors():
            response = self._client.get(self._path, selector, timeout=_TIMEOUT_SECONDS)
        if response.status != HTTPStatus.OK:
            raise _create_error(response)
        return [_decode_lease(item) for item in decode_leases(response.body)]

    def write(self, lease: Lease) -> bool:
        """Claim or renew the lease, by compare-and-swap.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not stored, or the outcome is unknown.
        """
        body = _ENCODER.encode(self._encode_lease(lease))
        with _convert_errors():
            if lease.version:
                response = self._client.replace(f"{self._path}/{lease.name}", body, timeout=_TIMEOUT_SECONDS)
            else:
                response = self._client.create(self._path, body, timeout=_TIMEOUT_SECONDS)
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return True
        if response.status == HTTPStatus.CONFLICT or (response.status == HTTPStatus.NOT_FOUND and lease.version):
            return False
        raise _create_error(response)

    def remove(self, lease: Lease) -> None:
        """Delete the lease, unless it was changed.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not deleted, or the outcome is unknown.
        """
        body = _ENCODER.encode({"preconditions": {"resourceVersion": lease.version}})
        with _convert_errors():
            response = self._client.delete(f"{self._path}/{lease.name}", body, timeout=_TIMEOUT_SECONDS)
        if response.status not in (HTTPStatus.OK, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise _create_error(response)

    def _encode_lease(self, lease: Lease) -> coordination.Lease:
        annotations = {} if lease.caps is None else {CAPS_ANNOTATION: " ".join(sorted(lease.caps))}
        metadata = ObjectMeta(
            name=lease.name, resource_version=lease.version or None, labels=_LABELS, annotations=annotations or None
        )
        renew_time = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # a MicroTime
        seconds = max(1, round(lease.duration_seconds))
        return coordination.Lease(
            metadata,
            coordination.LeaseSpec(
                lease.holder or None, seconds, lease.acquire_time or renew_time, renew_time, lease.transitions
            ),
        )


def _decode_lease(stored: coordination.Lease) -> Lease:
    metadata, spec = stored.metadata, stored.spec
    caps = (metadata.annotations or {}).get(CAPS_ANNOTATION)
    return Lease(
        metadata.name or "",
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or 0),
        metadata.resource_version or "",
        None if caps is None else frozenset(caps.split()),
        spec.lease_transitions or 0,
        spec.acquire_time or "",
    )


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise the error of the store for a request without a complete response."""
    try:
        yield
    except ApiError as error:
        raise StoreUnavailableError(str(error)) from error


def _create_error(response: Response) -> RetryLaterError | StoreUnavailableError:
    message = (
        f"leases: the API server says {response.status}: {response.body[:_MAX_MESSAGE_BYTES].decode(errors='replace')}"
    )
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        return RetryLaterError(message)
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return StoreUnavailableError(f"{message}; the gate must be allowed to list, create, update and delete leases")
    return StoreUnavailableError(message)
