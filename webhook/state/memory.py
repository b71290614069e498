"""Ledgers in this process's memory: the embedded default, for one replica.

Nothing is written anywhere: after a restart the ledgers are empty. Atomic between the threads of this process.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from webhook.state.ledger import Ledger
from webhook.state.ports import LedgerKey, LedgerWrite, Transition, WriteObserver, WriteResult

T = TypeVar("T")


class MemoryLedgers:
    """`Ledgers` in a dict, at first as they are handed in.

    Not `alone` means that pods were promised room before this process was there, and are watched now. `observer` is
    told of every change.
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

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:  # noqa: ARG002  # nobody waits here
        """Carry the attempt out at once."""
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
