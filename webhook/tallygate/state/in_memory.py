"""Ledgers and namespaces in the memory of one process.

The ledgers are the embedded default, for one replica. They are never written to disk: after a restart they are empty.
Changes are atomic between the threads of this process.

The namespace lister is for a process without a watch: it knows no namespace.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, LedgerWrite, Transition, WriteObserver, WriteResult

T = TypeVar("T")


class MemoryLedgers:
    """`Ledgers` in a dict, initially those in `ledgers`.

    If `is_standalone` is False, pods may have got reservations before this process started, and are watched now.
    `observer` records every write.
    """

    def __init__(
        self,
        ledgers: Mapping[LedgerKey, Ledger] = MappingProxyType({}),
        *,
        is_standalone: bool = True,
        observer: WriteObserver | None = None,
    ) -> None:
        self.is_standalone = is_standalone
        self._observer = observer
        self._lock = Lock()
        self._ledgers = dict(ledgers)

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:  # noqa: ARG002  # no caller waits here
        """Apply the transition at once."""
        with self._lock:
            before = self._ledgers.get(key)
            result = transition(before)
            if result.is_removal:
                self._ledgers.pop(key, None)
            if result.ledger is not None:
                self._ledgers[key] = result.ledger
                if self._observer is not None:
                    self._observer.record_write(LedgerWrite(key, before, result.ledger, 1, 0.0, WriteResult.STORED))
        return result.outcome


class UnknownNamespaces:
    """A `NamespaceLister` that knows no namespace."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:  # noqa: ARG002  # the port asks by name
        return None
