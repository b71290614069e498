"""Objects without a namespace, by name, as of one revision; with a word to whoever wants to know of a change."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from webhook.state.watch.events import Changed, Deleted, Event, Replaced, Row


class NamedRow(Row, Protocol):
    """A row that says what of it matters: when only the rest changes, nobody is told."""

    @property
    def substance(self) -> object:
        """What matters; compared by equality."""
        ...


R = TypeVar("R", bound=NamedRow)

Listener = Callable[[frozenset[str]], None]
"""Is told the names of what came, went or changed, once that can be seen. Quick, and does not raise."""


class Named(Generic[R]):
    """Rows by name, kept current by the events of their reflector."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[str, R] = {}
        self._revision: int | None = None
        self._settled = 0
        self._generation = 0
        self._listeners: list[Listener] = []

    @property
    def revision(self) -> int | None:
        """Everything up to here is in; None before the first list."""
        return self._revision

    @property
    def settled(self) -> int:
        """Nothing that matters has changed after this one up to `revision`: that of the last such change, or list."""
        return self._settled

    @property
    def generation(self) -> int:
        """Grows with every change that matters."""
        return self._generation

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: str) -> R | None:
        """What has this name, if anything has."""
        return self._rows.get(name)

    def rows(self) -> tuple[R, ...]:
        """Everything, as of one moment."""
        with self._lock:
            return tuple(self._rows.values())

    def listen(self, listener: Listener) -> None:
        """Tell it of changes from now on, in the thread that applies them."""
        self._listeners.append(listener)

    def apply(self, event: Event[R]) -> None:
        """Take up what was told. What was told before is passed over."""
        with self._lock:
            changed = self._replaced(event) if isinstance(event, Replaced) else self._changed(event)
            self._generation += bool(changed)
            if self._revision is not None and (changed or isinstance(event, Replaced)):
                self._settled = event.revision
        if changed:
            for listener in self._listeners:
                listener(changed)

    def _replaced(self, event: Replaced[R]) -> frozenset[str]:
        before, self._rows = self._rows, {row.name: row for row in event.items}
        self._revision = event.revision
        names = before.keys() | self._rows.keys()
        return frozenset(name for name in names if _differ(before.get(name), self._rows.get(name)))

    def _changed(self, event: Event[R]) -> frozenset[str]:
        if self._revision is None or event.revision <= self._revision:
            return frozenset()
        self._revision = event.revision
        if isinstance(event, Changed):
            before, self._rows[event.item.name] = self._rows.get(event.item.name), event.item
            return frozenset({event.item.name} if _differ(before, event.item) else ())
        if isinstance(event, Deleted) and self._rows.pop(event.item.name, None) is not None:
            return frozenset({event.item.name})
        return frozenset()


def _differ(one: NamedRow | None, other: NamedRow | None) -> bool:
    if one is None or other is None:
        return one is not other
    return one.uid != other.uid or one.substance != other.substance
