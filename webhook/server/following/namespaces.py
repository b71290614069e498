"""Namespaces that are known in a moment: whoever makes one and puts a pod into it at once is ahead of the watch."""

import time
from collections.abc import Collection, Mapping
from threading import Condition
from typing import Final

from webhook.state.watch.namespaces import NamespaceView

_NAMESPACE_TIMEOUT_SECONDS: Final = 2.0  # a watch is some milliseconds behind, unless something is wrong


class WaitingNamespaceLister:
    """A `NamespaceLister` that waits a little for a namespace that it does not know.

    The API server asks about nothing in a namespace that is not there, so an unknown one is about to be told.
    """

    def __init__(self, store: NamespaceView, timeout: float = _NAMESPACE_TIMEOUT_SECONDS) -> None:
        self._store = store
        self._timeout = timeout
        self._changed = Condition()
        store.listen(self._notify)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when nobody tells of it in time."""
        labels = self._store.labels(namespace)
        return labels if labels is not None else self._wait_for_labels(namespace)

    def _wait_for_labels(self, namespace: str) -> Mapping[str, str] | None:
        deadline = time.monotonic() + self._timeout
        with self._changed:
            while (labels := self._store.labels(namespace)) is None:
                if not self._changed.wait(deadline - time.monotonic()):
                    return self._store.labels(namespace)
        return labels

    def _notify(self, _: Collection[str]) -> None:
        with self._changed:
            self._changed.notify_all()
