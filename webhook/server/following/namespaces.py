"""Namespaces that are known in a moment: whoever makes one and puts a pod into it at once is ahead of the watch."""

import time
from collections.abc import Collection, Mapping
from threading import Condition
from typing import Final

from webhook.state.watch.namespaces import NamespaceView

_PATIENCE_SECONDS: Final = 2.0  # a watch is some milliseconds behind, unless something is wrong


class AwaitedNamespaces:
    """A `NamespaceLister` that waits a little for a namespace that it does not know.

    The API server asks about nothing in a namespace that is not there, so an unknown one is about to be told.
    """

    def __init__(self, view: NamespaceView, patience: float = _PATIENCE_SECONDS) -> None:
        self._view = view
        self._patience = patience
        self._changed = Condition()
        view.listen(self._wake)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """The namespace's labels, or None when nobody tells of it in time."""
        labels = self._view.labels(namespace)
        return labels if labels is not None else self._awaited(namespace)

    def _awaited(self, namespace: str) -> Mapping[str, str] | None:
        until = time.monotonic() + self._patience
        with self._changed:
            while (labels := self._view.labels(namespace)) is None:
                if not self._changed.wait(until - time.monotonic()):
                    return self._view.labels(namespace)
        return labels

    def _wake(self, _: Collection[str]) -> None:
        with self._changed:
            self._changed.notify_all()
