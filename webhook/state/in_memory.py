"""Ledgers in this process's memory: the embedded default, for one replica.

Nothing is written anywhere: after a restart the ledgers are empty. Atomic between the threads of this process.

Namespace labels from where there is no watch: from a file, or from nowhere.
"""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

import msgspec

from webhook.errors import TallygateError
from webhook.objects.core import Namespace
from webhook.state.ledger.ledger import Ledger
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


_MAX_BYTES = 64 * 1024 * 1024


class NamespacesError(TallygateError):
    """The file does not hold namespaces."""


class _NamespaceList(msgspec.Struct, frozen=True):
    items: list[Namespace]


class UnknownNamespaces:
    """A `NamespaceLister` that knows none, and says so."""

    def labels(self, namespace: str) -> Mapping[str, str] | None:  # noqa: ARG002  # the port asks by name
        """Nothing is known."""
        return None


class FixedNamespaces:
    """A `NamespaceLister` over a fixed list: a namespace that is not in it is not known."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = dict(namespaces)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when it is not in the list."""
        return self._labels.get(namespace)


def read_namespaces(path: Path) -> FixedNamespaces:
    """Read what `kubectl get namespaces -o json` wrote.

    Raises:
        NamespacesError: the file cannot be read, is too large, or is something else.
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
    return FixedNamespaces({each.name: each.labels or {} for each in metadata_items if each is not None and each.name})
