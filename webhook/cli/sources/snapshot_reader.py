"""The reader of snapshots: nodes, pods and namespaces of a cluster at one time, from a file.

Columns, and numpy with them, are imported only to place pods: the import takes as long as half a check.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.documents.reader import read_documents
from tallygate.webhook.documents.syntax_tree import DocumentError, Limits
from tallygate.webhook.documents.to_json import to_json
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.objects.core import Namespace, Pod
from tallygate.webhook.objects.meta import PartialObjectMetadata

if TYPE_CHECKING:
    from tallygate.webhook.accounting.cluster.cluster import Cluster

SNAPSHOT_LIMITS = Limits(size=512 * 1024 * 1024, nodes=50_000_000, expanded=50_000_000)
SNAPSHOT_HINT = "write it with `tallygate snapshot`, or `kubectl get nodes,pods,namespaces -A -o json`"
_LIST = "List"


class SnapshotError(TallygateError):
    """A file that is not a snapshot."""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _ListOrObject(msgspec.Struct, frozen=True):
    """A list, or a single object."""

    kind: str | None = None
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta | None = None


ItemHandler = Callable[[str, msgspec.Raw], bool]
"""Takes an object with its kind, and returns whether that kind is used."""


@dataclass(slots=True)
class SnapshotContents:
    """The pods, the labels of each namespace, and the cluster in columns if pods are to be placed."""

    pods: list[Pod] = field(default_factory=list)
    labels_by_namespace: dict[str, Mapping[str, str]] = field(default_factory=dict)
    cluster: "Cluster | None" = None


def read_snapshot(path: Path, *, with_cluster: bool = False) -> SnapshotContents:
    """Read a snapshot, JSON or YAML; `with_cluster` to place pods in it.

    Raises:
        SnapshotError: if the file cannot be read, or is not a snapshot.
    """
    snapshot = SnapshotContents(cluster=_create_cluster() if with_cluster else None)
    try:
        read_items(path, lambda kind, item: _add_item(snapshot, item, kind))
    except QuantityError as error:
        raise SnapshotError(f"{path}: it has a quantity that no API server would have stored: {error}") from error
    return snapshot


def read_items(path: Path, handle: ItemHandler) -> str:
    """Pass every object of a snapshot to `handle`; return the resource version of its list, empty without one.

    Raises:
        SnapshotError: if the file cannot be read, has no object of a used kind, or `handle` raises this or ValueError.
    """
    try:
        return _handle_items(_read_bytes(path), handle)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}; {SNAPSHOT_HINT}") from error
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise SnapshotError(
            f"{path}:{error.position.line}:{error.position.column}: {error.message}; {SNAPSHOT_HINT}"
        ) from error
    except (ValueError, RecursionError) as error:  # msgspec's and unicode's errors are ValueErrors
        raise SnapshotError(f"{path}: no snapshot: {error}; {SNAPSHOT_HINT}") from error


def _create_cluster() -> "Cluster":
    from tallygate.webhook.accounting.cluster.cluster import Cluster  # noqa: PLC0415  see the module's docstring

    return Cluster()


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > SNAPSHOT_LIMITS.size:
        raise SnapshotError(f"larger than {SNAPSHOT_LIMITS.size // 1024**2} MiB")
    return path.read_bytes()


def _handle_items(data: bytes, handle: ItemHandler) -> str:
    accepted_count, item_count, revision = 0, 0, ""
    for document in _iterate_documents(data):
        parsed = msgspec.json.decode(document, type=_ListOrObject)
        if parsed.items is None:
            items, kind = [msgspec.Raw(document)], parsed.kind or ""
        else:
            items, kind = parsed.items, (parsed.kind or "").removesuffix(_LIST)
            revision = parsed.metadata.resource_version if parsed.metadata else revision
        for item in items:
            item_count += 1
            accepted_count += handle(msgspec.json.decode(item, type=PartialObjectMetadata).kind or kind, item)
    if item_count and not accepted_count:
        raise SnapshotError("it contains neither pods nor namespaces nor nodes")
    return revision


def _iterate_documents(data: bytes) -> Iterator[bytes]:
    """Yield each document as JSON. A single JSON object, the usual case, is not parsed twice."""
    if data.lstrip()[:1] == b"{":
        yield data
        return
    for document in read_documents(data.decode(), SNAPSHOT_LIMITS):
        yield to_json(document.root, SNAPSHOT_LIMITS.expanded)


def _ingest_item(cluster: "Cluster", kind: str, item: msgspec.Raw) -> bool:
    from tallygate.webhook.accounting.cluster.ingest import ingest  # noqa: PLC0415  see the module's docstring

    return ingest(cluster, kind, item)


def _add_item(snapshot: SnapshotContents, item: msgspec.Raw, kind: str) -> bool:
    """Add an object to a snapshot, and return whether its kind is used."""
    is_ingested = snapshot.cluster is not None and _ingest_item(snapshot.cluster, kind, item)
    match kind:
        case "Pod":
            snapshot.pods.append(msgspec.json.decode(item, type=Pod))
        case "Namespace":
            namespace = msgspec.json.decode(item, type=Namespace).metadata
            if namespace is not None and namespace.name:
                snapshot.labels_by_namespace[namespace.name] = namespace.labels or {}
        case "Node":
            pass
        case _:
            return is_ingested
    return True
