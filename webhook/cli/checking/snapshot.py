"""A snapshot: nodes, pods and namespaces of a cluster at one time, from a file.

Columns, and numpy with them, are imported where pods are to be placed: that takes as long as half a check.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.to_json import to_json
from webhook.errors import TallygateError
from webhook.objects.core import Namespace, Pod
from webhook.objects.meta import PartialObjectMetadata

if TYPE_CHECKING:
    from webhook.accounting.cluster.cluster import Cluster

BOUNDS = Bounds(size=512 * 1024 * 1024, nodes=50_000_000, expanded=50_000_000)
HOW = "write it with `tallygate snapshot`, or `kubectl get nodes,pods,namespaces -A -o json`"
_LIST = "List"


class SnapshotError(TallygateError):
    """The file is no snapshot."""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Listed(msgspec.Struct, frozen=True):
    """A list, or an object by itself."""

    kind: str | None = None
    items: list[msgspec.Raw] | None = None
    metadata: _ListMeta | None = None


Take = Callable[[str, msgspec.Raw], bool]
"""Takes one object of this kind, if it is for anything, and says whether it is."""


@dataclass(slots=True)
class Snapshot:
    """What is needed of it: pods, each namespace's labels, and the whole in columns, where pods are to be placed."""

    pods: list[Pod] = field(default_factory=list)
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    cluster: "Cluster | None" = None


def read(path: Path, *, placing: bool = False) -> Snapshot:
    """Read a snapshot, JSON or YAML; `placing` when it will be asked where pods could run.

    Raises:
        SnapshotError: the file cannot be read, or holds something else.
    """
    snapshot = Snapshot(cluster=_columns() if placing else None)
    try:
        walk(path, lambda kind, item: _add(snapshot, item, kind))
    except QuantityError as error:
        raise SnapshotError(f"{path}: it has a quantity that no API server would have stored: {error}") from error
    return snapshot


def walk(path: Path, take: Take) -> str:
    """Hand out every object of a snapshot; the resource version that its list says, if it says one.

    Raises:
        SnapshotError: the file cannot be read, holds none of what is taken, or `take` said so or raised ValueError.
    """
    try:
        return _walked(_bytes(path), take)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}; {HOW}") from error
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}") from error
    except Fault as fault:
        raise SnapshotError(f"{path}:{fault.place.line}:{fault.place.column}: {fault.message}; {HOW}") from fault
    except (ValueError, RecursionError) as error:  # msgspec's and unicode's errors are ValueErrors
        raise SnapshotError(f"{path}: no snapshot: {error}; {HOW}") from error


def _columns() -> "Cluster":
    from webhook.accounting.cluster.cluster import Cluster  # noqa: PLC0415  see the module's docstring

    return Cluster()


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > BOUNDS.size:
        raise SnapshotError(f"larger than {BOUNDS.size // 1024**2} MiB")
    return path.read_bytes()


def _walked(data: bytes, take: Take) -> str:
    known, seen, revision = 0, 0, ""
    for document in _documents(data):
        listed = msgspec.json.decode(document, type=_Listed)
        if listed.items is None:
            items, kind = [msgspec.Raw(document)], listed.kind or ""
        else:
            items, kind = listed.items, (listed.kind or "").removesuffix(_LIST)
            revision = listed.metadata.resource_version if listed.metadata else revision
        for item in items:
            seen += 1
            known += take(msgspec.json.decode(item, type=PartialObjectMetadata).kind or kind, item)
    if seen and not known:
        raise SnapshotError("it holds neither pods nor namespaces nor nodes")
    return revision


def _documents(data: bytes) -> Iterator[bytes]:
    """Each document as JSON. One JSON object, the usual case, is not parsed twice."""
    if data.lstrip()[:1] == b"{":
        yield data
        return
    for document in documents(data.decode(), BOUNDS):
        yield to_json(document.root, BOUNDS.expanded)


def _taken(cluster: "Cluster", kind: str, item: msgspec.Raw) -> bool:
    from webhook.accounting.cluster.ingest import ingest  # noqa: PLC0415  see the module's docstring

    return ingest(cluster, kind, item)


def _add(snapshot: Snapshot, item: msgspec.Raw, kind: str) -> bool:
    """Take what an item is for, if for anything."""
    taken = snapshot.cluster is not None and _taken(snapshot.cluster, kind, item)
    match kind:
        case "Pod":
            snapshot.pods.append(msgspec.json.decode(item, type=Pod))
        case "Namespace":
            namespace = msgspec.json.decode(item, type=Namespace).metadata
            if namespace is not None and namespace.name:
                snapshot.labels[namespace.name] = namespace.labels or {}
        case "Node":
            pass
        case _:
            return taken
    return True
