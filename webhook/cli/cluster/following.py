"""A cluster that is followed: seen anew whenever it has changed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from webhook.cli.cluster.ledgers import LEDGER_RECORD_CODEC, CapLedgerList, CapLedgerRecord, create_ledger_list
from webhook.cli.cluster.seen import ClusterStores, ObservedCluster
from webhook.state.watch.events import Changed, Deleted, Event, Replaced
from webhook.state.watch.namespaces import NAMESPACES
from webhook.state.watch.pool import Access
from webhook.state.watch.runner import Follower

_POLL_SECONDS = 1.0
"""Between two looks: what changes within it is seen at once."""


class CapLedgerStore:
    """CapLedgers as of one revision. The mapping is replaced, never changed, so that any thread may look."""

    def __init__(self) -> None:
        self._records: dict[str, CapLedgerRecord] = {}
        self.revision: int | None = None

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, event: Event[CapLedgerRecord]) -> None:
        """Take up what was told."""
        if isinstance(event, Replaced):
            self._records = {row.uid: row for row in event.items}
        elif isinstance(event, Changed):
            self._records = {**self._records, event.item.uid: event.item}
        elif isinstance(event, Deleted):
            self._records = {uid: row for uid, row in self._records.items() if uid != event.item.uid}
        self.revision = event.revision

    def list_ledgers(self) -> CapLedgerList:
        """All of them, now."""
        return create_ledger_list(self._records.values())


class WatchedCluster:
    """Pods, namespaces and, unless `closed` says why not, CapLedgers."""

    def __init__(self, access: Access, unavailable_reason: str) -> None:
        self._unavailable_reason = unavailable_reason
        self._stores, self._ledger_store = ClusterStores(), CapLedgerStore()
        namespaces, pods = self._stores.namespaces, self._stores.pods
        self._informers: list[Follower[Any, Any]] = [
            Follower(NAMESPACES, access, namespaces.apply, namespaces.__len__),
            Follower(pods.reading, access, pods.apply, pods.__len__),
        ]
        if not unavailable_reason:
            self._informers.append(
                Follower(LEDGER_RECORD_CODEC, access, self._ledger_store.apply, self._ledger_store.__len__)
            )

    def start(self) -> None:
        """Begin."""
        for informer in self._informers:
            informer.start()

    def stop(self) -> None:
        """End within a second for each."""
        for informer in self._informers:
            informer.stop()

    def iterate_changes(self) -> Iterator[tuple[ObservedCluster, tuple[str, ...]]]:
        """What is seen, each time that something may have changed, and what is stale of it; for ever."""
        previous: object = None
        while True:
            statuses = [informer.followed() for informer in self._informers]
            stale = tuple(
                status.stale for status in statuses if status.stale is not None and status.revision is not None
            )
            current = ([each.revision for each in statuses], stale)
            if current != previous and all(each.revision is not None for each in statuses):
                previous = current
                yield ObservedCluster(self._stores, self._list_ledgers()), stale
            time.sleep(_POLL_SECONDS)

    def _list_ledgers(self) -> CapLedgerList:
        reason = self._unavailable_reason
        return (
            CapLedgerList(missing_reason=reason, unavailable_reason=reason)
            if reason
            else self._ledger_store.list_ledgers()
        )


@contextmanager
def watch_cluster(access: Access, unavailable_reason: str) -> Iterator[WatchedCluster]:
    """A cluster that is followed for as long as the block runs."""
    cluster = WatchedCluster(access, unavailable_reason)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
