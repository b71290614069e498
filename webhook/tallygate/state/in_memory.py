"""Ledgers and namespaces in the memory of one process.

The ledgers are the embedded default, for one replica. They are never written to disk: after a restart they are empty.
Changes are atomic between the threads of this process.

The namespace listers are for a process without a watch: they read a file, or know no namespace.
"""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

import msgspec

from tallygate.errors import TallygateError
from tallygate.objects.core import Namespace
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, LedgerWrite, Transition, WriteObserver, WriteResult

T = TypeVar("T")

_MAX_BYTES = 64 * 1024 * 1024


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


class NamespacesError(TallygateError):
    """The file does not contain namespaces."""


class _NamespaceList(msgspec.Struct, frozen=True):
    items: list[Namespace]


class UnknownNamespaces:
    """A `NamespaceLister` that knows no namespace."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:  # noqa: ARG002  # the port asks by name
        return None


class FixedNamespaces:
    """A `NamespaceLister` over a fixed list: a namespace outside the list is unknown."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = dict(namespaces)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Return the namespace's labels, or None if it is not in the list."""
        return self._labels.get(namespace)


def read_namespaces(path: Path) -> FixedNamespaces:
    """Read a file from `kubectl get namespaces -o json`.

    Raises:
        NamespacesError: if the file cannot be read, is too large, or has other content.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise NamespacesError(f"{path} is larger than {_MAX_BYTES} bytes; it should hold namespaces only")
        namespace_list = msgspec.json.decode(path.read_bytes(), type=_NamespaceList)
    except OSError as error:
        raise NamespacesError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise NamespacesError(
            f"{path} is not a list of namespaces ({error}): write it with `kubectl get namespaces -o json`"
        ) from None
    metadata_items = (item.metadata for item in namespace_list.items)
    return FixedNamespaces({item.name: item.labels or {} for item in metadata_items if item is not None and item.name})
