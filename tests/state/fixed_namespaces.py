"""Namespaces with fixed labels, without a watch."""

from collections.abc import Mapping


class FixedNamespaces:
    """A `NamespaceLister` over a fixed list: a namespace outside the list is unknown."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = dict(namespaces)

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Return the namespace's labels, or None if it is not in the list."""
        return self._labels.get(namespace)
