"""Ledgers in this process's memory: the embedded default, for one replica.

Nothing is written anywhere: after a restart the ledgers are empty. Atomic between the threads of this process.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from webhook.state.ledger import Ledger
from webhook.state.ports import Attempt, LedgerKey, Write, WriteEnd, WriteObserver

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
        alone: bool = True,
        observer: WriteObserver | None = None,
    ) -> None:
        self.alone = alone
        self._observer = observer
        self._lock = Lock()
        self._ledgers = dict(ledgers)

    def transact(self, key: LedgerKey, attempt: Attempt[T], deadline: float) -> T:  # noqa: ARG002  # nobody waits here
        """Carry the attempt out at once."""
        with self._lock:
            before = self._ledgers.get(key)
            step = attempt(before)
            if step.removes:
                self._ledgers.pop(key, None)
            if step.ledger is not None:
                self._ledgers[key] = step.ledger
                if self._observer is not None:
                    self._observer.wrote(Write(key, before, step.ledger, 1, 0.0, WriteEnd.STORED))
        return step.outcome
