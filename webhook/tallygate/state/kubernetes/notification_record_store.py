"""The record of the messages that were sent: two annotations of a Lease in the gate's own namespace.

One has the messages about caps, which the leader sends; the other has those of each replica about itself. The records
themselves are JSON that this module does not read.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.state.kubernetes.stored_leases import AnnotatedLease, StoredAnnotations

NOTIFIED_NAME: Final = "tallygate-notified"
"""The name of the Lease."""
CAPS_ANNOTATION: Final = "tallygate.dev/notified-caps"
REPLICAS_ANNOTATION: Final = "tallygate.dev/notified-replicas"

_MAX_BYTES: Final = 240_000  # all annotations of an object have at most 256 KiB
_MAX_REPLICAS: Final = 20
_MAX_AGE_SECONDS: Final = 7 * 86400.0


class NotificationRecords(NamedTuple):
    """The records in JSON: that about caps, b"" without one, and those of the replicas by their names."""

    caps: bytes = b""
    replicas: Mapping[str, bytes] = {}


class _WrittenReplica(msgspec.Struct, frozen=True):
    at: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    record: msgspec.Raw


_REPLICAS_DECODER = msgspec.json.Decoder(dict[str, _WrittenReplica])
_ENCODER = msgspec.json.Encoder()


class NotificationRecordStore:
    """The records in one namespace of a cluster, for one thread; `unix_time` is in seconds of the Unix epoch."""

    def __init__(self, client_config: ClientConfig, namespace: str, unix_time: Callable[[], float]) -> None:
        self._lease = AnnotatedLease(ApiClient(client_config, OBJECT_LIMITS), namespace, NOTIFIED_NAME, "notifications")
        self._unix_time = unix_time

    def read(self) -> NotificationRecords:
        """Return the records.

        Raises:
            ApiError, StoreUnavailableError: if they cannot be read.
        """
        annotations = self._lease.read().annotations
        replicas = {name: bytes(each.record) for name, each in _read_replicas(annotations).items()}
        return NotificationRecords(annotations.get(CAPS_ANNOTATION, "").encode(), replicas)

    def write(self, replica: str, own: bytes, caps: bytes | None) -> bool:
        """Store the record of a replica, b"" to remove it, and that about caps; None leaves the latter as it is.

        Return False after a conflict: another replica wrote meanwhile, and the next write may succeed.

        Raises:
            ApiError, StoreUnavailableError: if they are not stored, or if that is unknown.
        """
        stored = self._lease.read()
        annotations = dict(stored.annotations)
        if caps is not None:
            annotations[CAPS_ANNOTATION] = caps.decode()
        now = self._unix_time()
        replicas = _read_replicas(annotations)
        replicas.pop(replica, None)
        if own:
            replicas[replica] = _WrittenReplica(int(now), msgspec.Raw(own))
        most = _MAX_BYTES - len(annotations.get(CAPS_ANNOTATION, ""))
        annotations[REPLICAS_ANNOTATION] = _encode_replicas(replicas, now, most)
        return self._lease.write(StoredAnnotations(annotations, stored.version), now)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._lease.close()


def _read_replicas(annotations: Mapping[str, str]) -> dict[str, _WrittenReplica]:
    """Return the records of replicas; none if the annotation is not as written."""
    try:
        return _REPLICAS_DECODER.decode(annotations.get(REPLICAS_ANNOTATION) or "{}")
    except (ValueError, RecursionError):
        return {}


def _encode_replicas(replicas: Mapping[str, _WrittenReplica], now: float, most: int) -> str:
    """Return the annotation of the youngest records, as many as there is room for."""
    young = {name: each for name, each in replicas.items() if now - each.at < _MAX_AGE_SECONDS}
    names = sorted(young, key=lambda name: (-young[name].at, name))[:_MAX_REPLICAS]
    while len(text := _ENCODER.encode({name: young[name] for name in sorted(names)})) > most and names:
        names.pop()
    return text.decode()
