"""Namespace labels from where there is no watch: from a file, or from nowhere."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from webhook.errors import TallygateError
from webhook.objects.core import Namespace

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
