"""ResourceQuotas as they are now: what they allow, and what is used."""

from threading import Lock

import msgspec

from webhook.objects.core import ResourceQuota
from webhook.objects.meta import ObjectMeta
from webhook.state.watch.events import Changed, Deleted, Event, Replaced
from webhook.state.watch.wire import Reading, revision_of


class QuotaRow(msgspec.Struct, frozen=True):
    """One quota; `content` is what `quota` reads."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: bytes

    def quota(self) -> ResourceQuota:
        """The quota as far as it is kept: name, spec and status."""
        return _QUOTA.decode(self.content)


class QuotaView:
    """Quotas by namespace, kept current by the events of their reflector. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._in: dict[str, dict[str, QuotaRow]] = {}
        self._revision: int | None = None

    @property
    def revision(self) -> int | None:
        """Everything up to here is in; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._in.values()))

    def list_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The quotas of a namespace."""
        with self._lock:
            rows = tuple(self._in.get(namespace, {}).values())
        return tuple(row.quota() for row in rows)

    def apply(self, event: Event[QuotaRow]) -> None:
        """Take up what was told. What was told before is passed over."""
        with self._lock:
            if isinstance(event, Replaced):
                self._in.clear()
                for row in event.items:
                    self._put(row)
            elif self._revision is None or event.revision <= self._revision:
                return
            elif isinstance(event, Changed):
                self._put(event.item)
            elif isinstance(event, Deleted):
                self._remove(event.item)
            self._revision = event.revision

    def _put(self, row: QuotaRow) -> None:
        self._in.setdefault(row.namespace, {})[row.name] = row

    def _remove(self, row: QuotaRow) -> None:
        there = self._in.get(row.namespace, {})
        there.pop(row.name, None)
        if not there:
            self._in.pop(row.namespace, None)


def digest(quota: ResourceQuota) -> QuotaRow:
    """The row of a stored quota.

    Raises:
        ValueError: it lacks what every stored quota has.
    """
    meta = quota.metadata
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a quota without uid, namespace or name")
    kept = ResourceQuota(ObjectMeta(name=meta.name), quota.spec, quota.status)
    revision = revision_of(meta.resource_version or "")
    return QuotaRow(meta.uid, meta.namespace, meta.name, revision, _ENCODER.encode(kept))


_ENCODER = msgspec.json.Encoder()
_QUOTA = msgspec.json.Decoder(ResourceQuota)

QUOTAS = Reading("resourcequotas", "/api/v1/resourcequotas", ResourceQuota, digest)
