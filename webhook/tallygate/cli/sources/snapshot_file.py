"""The file of a snapshot: the objects of a cluster at one time.

A snapshot may be compressed by gzip, and may come from stdin.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.manifests.findings import STDIN_NAME
from tallygate.manifests.manifest_files import STDIN
from tallygate.objects.meta import PartialObjectMetadata

T = TypeVar("T")

SNAPSHOT_LIMITS = Limits(size=512 * 1024 * 1024, nodes=50_000_000, expanded=50_000_000)
SNAPSHOT_HINT = "write it with `tallygate snapshot`, or `kubectl get nodes,pods,namespaces -A -o json`"
_LIST = "List"
_GZIP_MAGIC = b"\x1f\x8b"


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


def read_items(path: Path, handle: ItemHandler, finish: Callable[[str], T]) -> T:
    """Pass every object of a snapshot to `handle`; return what `finish` returns for the resource version of its list.

    The version is empty for a file without a list.

    Raises:
        SnapshotError: if the file cannot be read, has no object of a used kind, or `handle` or `finish` raise this,
            QuantityError or ValueError.
    """
    name = format_snapshot_name(path)
    try:
        return finish(_handle_items(_read_bytes(path), handle))
    except SnapshotError as error:
        raise SnapshotError(f"{name}: {error}; {SNAPSHOT_HINT}") from error
    except QuantityError as error:
        raise SnapshotError(f"{name}: it has a quantity that no API server would have stored: {error}") from error
    except OSError as error:
        raise SnapshotError(f"{name}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise SnapshotError(
            f"{name}:{error.position.line}:{error.position.column}: {error.message}; {SNAPSHOT_HINT}"
        ) from error
    except (ValueError, RecursionError) as error:  # msgspec's and unicode's errors are ValueErrors
        raise SnapshotError(f"{name}: no snapshot: {error}; {SNAPSHOT_HINT}") from error


def format_snapshot_name(path: Path) -> str:
    """Return the name of a snapshot in messages."""
    return STDIN_NAME if str(path) == STDIN else str(path)


def _read_bytes(path: Path) -> bytes:
    if str(path) == STDIN:
        return _read_stream(sys.stdin.buffer)
    with path.open("rb") as stream:
        return _read_stream(stream)


def _read_stream(stream: BinaryIO) -> bytes:
    """Return the content of a file, decompressed if it begins as gzip does.

    Raises:
        SnapshotError: if it is larger than a snapshot may be, or is not valid gzip.
    """
    data = stream.read(SNAPSHOT_LIMITS.size + 1)
    if data.startswith(_GZIP_MAGIC):
        data = _decompress(data)
    if len(data) > SNAPSHOT_LIMITS.size:
        raise SnapshotError(f"larger than {SNAPSHOT_LIMITS.size // 1024**2} MiB")
    return data


def _decompress(data: bytes) -> bytes:
    """Return what gzip has compressed, at most one byte more than the limit; files of several members are valid."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(SNAPSHOT_LIMITS.size + 1)
    except EOFError:
        raise SnapshotError("it is compressed by gzip, and its end is missing: was it copied whole?") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise SnapshotError(f"it is compressed by gzip, and damaged: {error}") from error


def _handle_items(data: bytes, handle: ItemHandler) -> str:
    accepted_count, item_count, revision = 0, 0, ""
    for number, document in enumerate(_iterate_documents(data), 1):
        parsed = msgspec.json.decode(document, type=_ListOrObject)
        if parsed.items is None:
            items, kind = [msgspec.Raw(document)], parsed.kind or ""
        else:
            items, kind = parsed.items, (parsed.kind or "").removesuffix(_LIST)
            revision = parsed.metadata.resource_version if parsed.metadata else revision
        for index, item in enumerate(items):
            item_count += 1
            partial = msgspec.json.decode(item, type=PartialObjectMetadata)
            try:
                accepted_count += handle(partial.kind or kind, item)
            except (ValueError, RecursionError) as error:
                place = f"document {number}" if parsed.items is None else f"document {number}, items[{index}]"
                raise SnapshotError(f"{place}: {_format_object(partial, kind)}: {error}") from error
    if item_count and not accepted_count:
        raise SnapshotError("it contains neither pods nor namespaces nor nodes")
    return revision


def _format_object(partial: PartialObjectMetadata, kind: str) -> str:
    kind, meta = partial.kind or kind or "object", partial.metadata
    if meta is None or not meta.name:
        return f"{kind} without a name{f' in namespace {meta.namespace}' if meta and meta.namespace else ''}"
    return f"{kind} {'/'.join(filter(None, (meta.namespace, meta.name)))}"


def _iterate_documents(data: bytes) -> Iterator[bytes]:
    """Yield each document as JSON. A single JSON object, the usual case, is not parsed twice."""
    if data.lstrip()[:1] == b"{":
        yield data
        return
    for document in read_documents(data.decode(), SNAPSHOT_LIMITS):
        yield to_json(document.root, SNAPSHOT_LIMITS.expanded)


def read_snapshot(
    path: Path | None,
    applied: Iterable[tuple[str, msgspec.Struct]] = (),
    *,
    with_columns: bool = False,
    kubernetes: KubernetesVersion | None = None,
) -> ClusterState:
    """Return the state of a snapshot, JSON or YAML, to which objects are applied; without a path only these are known.

    With `kubernetes` the rules of this version apply.

    Raises:
        SnapshotError: if the file cannot be read, or is not a snapshot.
    """
    builder = StateBuilder(with_columns=with_columns and path is not None, kubernetes=kubernetes)

    def finish(revision: str) -> ClusterState:
        for kind, item in applied:
            with suppress(ValueError):  # an object that no cluster could store, which its own check reports
                builder.apply(kind, item)
        return builder.finish_snapshot(revision) if path is not None else builder.finish_without_source()

    return finish("") if path is None else read_items(path, builder.add, finish)


def create_no_namespaces_error(path: Path) -> SnapshotError:
    """Return the error of a snapshot without namespaces, for commands that cannot do without."""
    return SnapshotError(f"{format_snapshot_name(path)}: it contains no namespaces, which caps need; {SNAPSHOT_HINT}")
