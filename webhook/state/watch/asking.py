"""One object, read from the quorum: a pod, which is the last word on what came of a promise, or a workload."""

from typing import Final
from urllib.parse import quote

import msgspec

from webhook.objects.meta import PartialObjectMetadata
from webhook.state.watch.failure import ApiErrorReason, WatchError
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import parse_revision

_OK: Final = 200
_NOT_FOUND: Final = 404
_METADATA_DECODER: Final = msgspec.json.Decoder(PartialObjectMetadata)


class LiveReader:
    """Reads objects one at a time, without a resourceVersion: a quorum read (Kubernetes, API concepts)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def read_pod_revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The pod's resourceVersion; None when there is none of that name, or another one.

        Raises:
            WatchError: it cannot be told.
        """
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        response = self._transport.get(path, {})
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise WatchError(ApiErrorReason.REFUSED, f"pod {namespace}/{name} cannot be read: HTTP {response.status}")
        try:
            meta = _METADATA_DECODER.decode(response.body).metadata
            return None if meta is None or meta.uid != uid else parse_revision(meta.resource_version or "")
        except ValueError as error:
            raise WatchError(ApiErrorReason.UNREADABLE, f"pod {namespace}/{name} cannot be read: {error}") from None

    def read_workload(self, resource: tuple[str, str], namespace: str, name: str) -> bytes | None:
        """The JSON of an object of this group and plural, version v1; None when there is none.

        Raises:
            WatchError: it cannot be told.
        """
        group, plural = resource
        base = f"/apis/{group}/v1" if group else "/api/v1"
        response = self._transport.get(
            f"{base}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}", {}
        )
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise WatchError(
                ApiErrorReason.REFUSED, f"{plural} {namespace}/{name} cannot be read: HTTP {response.status}"
            )
        return response.body
