"""One pod, read from the quorum: the last word on what came of a promise."""

from typing import Final
from urllib.parse import quote

import msgspec

from webhook.objects.meta import Bare
from webhook.state.watch.failure import Reason, WatchError
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import revision_of

_OK: Final = 200
_NOT_FOUND: Final = 404
_METADATA: Final = msgspec.json.Decoder(Bare)


class QuorumReader:
    """Reads pods one at a time, without a resourceVersion, which makes it a quorum read (Kubernetes, API concepts)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The pod's resourceVersion; None when there is none of that name, or another one.

        Raises:
            WatchError: it cannot be told.
        """
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        answer = self._transport.get(path, {})
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise WatchError(Reason.REFUSED, f"pod {namespace}/{name} cannot be read: HTTP {answer.status}")
        try:
            meta = _METADATA.decode(answer.body).metadata
            return None if meta is None or meta.uid != uid else revision_of(meta.resource_version or "")
        except ValueError as error:
            raise WatchError(Reason.UNREADABLE, f"pod {namespace}/{name} cannot be read: {error}") from None
