"""Ledgers in this process's memory: the embedded default, for one replica.

Nothing is written anywhere: after a restart the ledgers are empty. Atomic between the threads of this process.
"""

from threading import Lock

from webhook.state.ledger import Ledger
from webhook.state.ports import LedgerKey, Versioned


class MemoryLedgers:
    """A `LedgerStore` in a dict."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ledgers: dict[LedgerKey, tuple[Ledger, int]] = {}

    def read(self, key: LedgerKey) -> Versioned | None:
        """The ledger now, or None when there is none yet."""
        with self._lock:
            found = self._ledgers.get(key)
        return Versioned(found[0], str(found[1])) if found else None

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None) -> bool:
        """Store the ledger if it is still at `version` (None: if there is none yet); whether it was stored."""
        with self._lock:
            found = self._ledgers.get(key)
            if (str(found[1]) if found else None) != version:
                return False
            self._ledgers[key] = (ledger, found[1] + 1 if found else 1)
            return True
