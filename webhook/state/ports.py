"""What the gate needs to remember and to know, whoever keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.errors import TallygateError
from webhook.state.ledger import Ledger


class StoreUnavailableError(TallygateError):
    """The store did not answer: nothing is known to be read or written."""


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """Names one ledger: the cap's key (name and a hash of what it counts), and its namespace unless it is shared."""

    cap: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Versioned:
    """A ledger as it was read; `version` names this state of it and no other."""

    ledger: Ledger
    version: str


class LedgerStore(Protocol):
    """Keeps ledgers; every write is one compare-and-swap."""

    def read(self, key: LedgerKey) -> Versioned | None:
        """The ledger now, or None when there is none yet.

        Raises:
            StoreUnavailableError: it cannot be told.
        """
        ...

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None) -> bool:
        """Store the ledger if it is still at `version` (None: if there is none yet); whether it was stored.

        Raises:
            StoreUnavailableError: it cannot be told whether it was.
        """
        ...


class NamespaceLister(Protocol):
    """Knows namespaces."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when it is not known."""
        ...
