"""ResourceQuotas as they are now: what they allow, and what is used."""

from threading import Lock

import msgspec

from webhook.objects.core import ResourceQuota
from webhook.objects.meta import ObjectMeta
from webhook.state.watch.events import Changed, Deleted, Replaced, WatchEvent
from webhook.state.watch.wire import ResourceCodec, parse_revision


class QuotaRecord(msgspec.Struct, frozen=True):
    """One quota; `content` is what `quota` reads."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: bytes

    def to_quota(self) -> ResourceQuota:
        """The quota as far as it is kept: name, spec and status."""
        return _QUOTA_DECODER.decode(self.content)


class QuotaStore:
    """Quotas by namespace, kept current by the events of their reflector. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._records_by_namespace: dict[str, dict[str, QuotaRecord]] = {}
        self._revision: int | None = None

    @property
    def revision(self) -> int | None:
        """Everything up to here is in; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._records_by_namespace.values()))

    def list_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The quotas of a namespace."""
        with self._lock:
            records = tuple(self._records_by_namespace.get(namespace, {}).values())
        return tuple(record.to_quota() for record in records)

    def apply(self, event: WatchEvent[QuotaRecord]) -> None:
        """Take up what was told. What was told before is passed over."""
        with self._lock:
            if isinstance(event, Replaced):
                self._records_by_namespace.clear()
                for record in event.items:
                    self._put(record)
            elif self._revision is None or event.revision <= self._revision:
                return
            elif isinstance(event, Changed):
                self._put(event.item)
            elif isinstance(event, Deleted):
                self._remove(event.item)
            self._revision = event.revision

    def _put(self, record: QuotaRecord) -> None:
        self._records_by_namespace.setdefault(record.namespace, {})[record.name] = record

    def _remove(self, record: QuotaRecord) -> None:
        records = self._records_by_namespace.get(record.namespace, {})
        records.pop(record.name, None)
        if not records:
            self._records_by_namespace.pop(record.namespace, None)


def create_quota_record(quota: ResourceQuota) -> QuotaRecord:
    """The row of a stored quota.

    Raises:
        ValueError: it lacks what every stored quota has.
    """
    meta = quota.metadata
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a quota without uid, namespace or name")
    stored_quota = ResourceQuota(ObjectMeta(name=meta.name), quota.spec, quota.status)
    revision = parse_revision(meta.resource_version or "")
    return QuotaRecord(meta.uid, meta.namespace, meta.name, revision, _QUOTA_ENCODER.encode(stored_quota))


_QUOTA_ENCODER = msgspec.json.Encoder()
_QUOTA_DECODER = msgspec.json.Decoder(ResourceQuota)

QUOTA_CODEC = ResourceCodec("resourcequotas", "/api/v1/resourcequotas", ResourceQuota, create_quota_record)
