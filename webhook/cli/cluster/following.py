"""A cluster that is followed: seen anew whenever it has changed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from webhook.cli.cluster.ledgers import LEDGERS, LedgerRow, Ledgers, gathered
from webhook.cli.cluster.seen import Seen, Views
from webhook.state.watch.events import Changed, Deleted, Event, Replaced
from webhook.state.watch.namespaces import NAMESPACES
from webhook.state.watch.pool import Access
from webhook.state.watch.runner import Follower

_PAUSE_SECONDS = 1.0
"""Between two looks: what changes within it is seen at once."""


class LedgerView:
    """CapLedgers as of one revision. The mapping is replaced, never changed, so that any thread may look."""

    def __init__(self) -> None:
        self._rows: dict[str, LedgerRow] = {}
        self.revision: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, event: Event[LedgerRow]) -> None:
        """Take up what was told."""
        if isinstance(event, Replaced):
            self._rows = {row.uid: row for row in event.items}
        elif isinstance(event, Changed):
            self._rows = {**self._rows, event.item.uid: event.item}
        elif isinstance(event, Deleted):
            self._rows = {uid: row for uid, row in self._rows.items() if uid != event.item.uid}
        self.revision = event.revision

    def ledgers(self) -> Ledgers:
        """All of them, now."""
        return gathered(self._rows.values())


class Following:
    """Pods, namespaces and, unless `closed` says why not, CapLedgers."""

    def __init__(self, access: Access, closed: str) -> None:
        self._closed = closed
        self._views, self._ledgers = Views(), LedgerView()
        namespaces, pods = self._views.namespaces, self._views.pods
        self._followers: list[Follower[Any, Any]] = [
            Follower(NAMESPACES, access, namespaces.apply, namespaces.__len__),
            Follower(pods.reading, access, pods.apply, pods.__len__),
        ]
        if not closed:
            self._followers.append(Follower(LEDGERS, access, self._ledgers.apply, self._ledgers.__len__))

    def start(self) -> None:
        """Begin."""
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """End within a second for each."""
        for follower in self._followers:
            follower.stop()

    def changes(self) -> Iterator[tuple[Seen, tuple[str, ...]]]:
        """What is seen, each time that something may have changed, and what is stale of it; for ever."""
        before: object = None
        while True:
            followed = [follower.followed() for follower in self._followers]
            stale = tuple(each.stale for each in followed if each.stale is not None and each.revision is not None)
            now = ([each.revision for each in followed], stale)
            if now != before and all(each.revision is not None for each in followed):
                before = now
                yield Seen(self._views, self._seen_ledgers()), stale
            time.sleep(_PAUSE_SECONDS)

    def _seen_ledgers(self) -> Ledgers:
        closed = self._closed
        return Ledgers(absent=closed, closed=closed) if closed else self._ledgers.ledgers()


@contextmanager
def following(access: Access, closed: str) -> Iterator[Following]:
    """A cluster that is followed for as long as the block runs."""
    made = Following(access, closed)
    made.start()
    try:
        yield made
    finally:
        made.stop()
