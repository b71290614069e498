"""Ledgers in this process's memory: the embedded default, for one replica.

Nothing is written anywhere: after a restart the ledgers are empty. Atomic between the threads of this process.
"""

from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from webhook.state.ledger import Ledger
from webhook.state.ports import Attempt, LedgerKey

T = TypeVar("T")


class MemoryLedgers:
    """`Ledgers` in a dict, at first as they are handed in.

    Not `alone` means that pods were promised room before this process was there, and are watched now.
    """

    def __init__(self, ledgers: Mapping[LedgerKey, Ledger] = MappingProxyType({}), *, alone: bool = True) -> None:
        self.alone = alone
        self._lock = Lock()
        self._ledgers = dict(ledgers)

    def transact(self, key: LedgerKey, attempt: Attempt[T], deadline: float) -> T:  # noqa: ARG002  # nobody waits here
        """Carry the attempt out at once."""
        with self._lock:
            step = attempt(self._ledgers.get(key))
            if step.ledger is not None:
                self._ledgers[key] = step.ledger
        return step.outcome
