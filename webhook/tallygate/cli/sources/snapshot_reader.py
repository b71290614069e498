"""The reader of snapshots: nodes, pods and namespaces of a cluster at one time, from a file.

A snapshot may be compressed by gzip, and may come from stdin.

Columns, and numpy with them, are imported only to place pods: the import takes as long as half a check.
"""

import io
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from tallygate.accounting.pod_defaults import LimitRangeIndex
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cli.manifests.manifest_files import STDIN
from tallygate.cli.output.findings import STDIN_NAME
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.objects.core import LimitRange, Namespace, Pod
from tallygate.objects.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tallygate.objects.meta import ObjectMeta, PartialObjectMetadata
from tallygate.objects.scheduling import PriorityClass, RuntimeClass
from tallygate.policy.limit_annotations import select_texts

if TYPE_CHECKING:
    from tallygate.accounting.cluster.cluster import Cluster

SNAPSHOT_LIMITS = Limits(size=512 * 1024 * 1024, nodes=50_000_000, expanded=50_000_000)
SNAPSHOT_HINT = "write it with `tallygate snapshot`, or `kubectl get nodes,pods,namespaces -A -o json`"
_LIST = "List"
DEVICE_RESOURCES: Mapping[str, str] = {
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceSlice": "resourceslices",
}
"""The resource of each kind of object that is needed to predict which devices a pod gets."""
TAINT_RULE_KIND = "DeviceTaintRule"
TAINT_RULES = "devicetaintrules"
"""The resource of DeviceTaintRules: a snapshot without them is as one of a cluster that has none."""
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""zlib's value for the header and the check sum of gzip."""


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
    """The pods, the labels of each namespace, and the cluster in columns if pods are to be placed.

    `limit_annotations` are the annotations of namespaces that set limits.

    `classes` are the classes of devices, `claims` the claims for them, and `templates` the templates of claims.
    `slices` publish devices. `device_kinds` are the kinds of classes, claims, templates, slices and taint rules that
    the snapshot has, of which the cluster may have none. `device_problems` are the errors of slices that cannot be
    read. `limit_ranges` and `runtime_classes` are None if the snapshot does not have this kind.
    """

    pods: list[Pod] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    templates: list[ResourceClaimTemplate] = field(default_factory=list)
    classes: list[DeviceClass] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    device_kinds: set[str] = field(default_factory=set)
    device_problems: list[str] = field(default_factory=list)
    labels_by_namespace: dict[str, Mapping[str, str]] = field(default_factory=dict)
    limit_annotations: dict[str, Mapping[str, str]] = field(default_factory=dict)
    limit_ranges: LimitRangeIndex | None = None
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    runtime_classes: dict[str, RuntimeClass] | None = None
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
        raise SnapshotError(
            f"{format_snapshot_name(path)}: it has a quantity that no API server would have stored: {error}"
        ) from error
    if snapshot.cluster is not None:
        _settle_devices(snapshot.cluster, snapshot)
    return snapshot


def _settle_devices(cluster: "Cluster", snapshot: SnapshotContents) -> None:
    from tallygate.accounting.cluster.ingest import settle_devices  # noqa: PLC0415  see the module's docstring

    settle_devices(cluster, (*list_missing_kinds(snapshot.device_kinds), *snapshot.device_problems))


def list_missing_kinds(known: Collection[str]) -> Iterator[str]:
    """Yield a problem if a snapshot does not have all kinds of objects about devices."""
    missing = [name for kind, name in DEVICE_RESOURCES.items() if kind not in known]
    if missing:
        yield f"the snapshot has no {', '.join(missing)}"


def read_items(path: Path, handle: ItemHandler) -> str:
    """Pass every object of a snapshot to `handle`; return the resource version of its list, empty without one.

    Raises:
        SnapshotError: if the file cannot be read, has no object of a used kind, or `handle` raises this or ValueError.
    """
    name = format_snapshot_name(path)
    try:
        return _handle_items(_read_bytes(path), handle)
    except SnapshotError as error:
        raise SnapshotError(f"{name}: {error}; {SNAPSHOT_HINT}") from error
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


def _create_cluster() -> "Cluster":
    from tallygate.accounting.cluster.cluster import Cluster  # noqa: PLC0415  see the module's docstring

    return Cluster()


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
    output, rest = io.BytesIO(), data
    while rest and output.tell() <= SNAPSHOT_LIMITS.size:
        decompressor = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            output.write(decompressor.decompress(rest, SNAPSHOT_LIMITS.size + 1 - output.tell()))
        except zlib.error as error:
            raise SnapshotError(f"it is compressed by gzip, and damaged: {error}") from error
        if not decompressor.eof and output.tell() <= SNAPSHOT_LIMITS.size:
            raise SnapshotError("it is compressed by gzip, and its end is missing: was it copied whole?")
        rest = decompressor.unused_data.lstrip(b"\0")
    return output.getvalue()


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


def _ingest_item(snapshot: SnapshotContents, cluster: "Cluster", kind: str, item: msgspec.Raw) -> bool:
    from tallygate.accounting.allocation.published_devices import SliceError  # noqa: PLC0415  see the docstring
    from tallygate.accounting.cluster.ingest import ingest  # noqa: PLC0415  see the module's docstring

    try:
        return ingest(cluster, kind, item)
    except SliceError as error:
        snapshot.device_problems.append(str(error))
        return True


def identify_slice(published: ResourceSlice) -> ResourceSlice:
    """Return a slice of a snapshot, which may be written by hand, with the identity that the API server would set."""
    meta = published.metadata
    if meta is None:
        return published
    identity = {"uid": meta.uid or meta.name, "resource_version": meta.resource_version or "1"}
    return msgspec.structs.replace(published, metadata=msgspec.structs.replace(meta, **identity))


def _add_item(snapshot: SnapshotContents, item: msgspec.Raw, kind: str) -> bool:
    """Add an object to a snapshot, and return whether its kind is used."""
    is_ingested = snapshot.cluster is not None and _ingest_item(snapshot, snapshot.cluster, kind, item)
    match kind:
        case "Pod":
            snapshot.pods.append(msgspec.json.decode(item, type=Pod))
        case "Namespace":
            namespace = msgspec.json.decode(item, type=Namespace).metadata
            if namespace is not None and namespace.name:
                snapshot.labels_by_namespace[namespace.name] = namespace.labels or {}
                if texts := select_texts(namespace.annotations):
                    snapshot.limit_annotations[namespace.name] = texts
        case "LimitRange" | "LimitRangeList" | "PriorityClass" | "RuntimeClass" | "RuntimeClassList":
            _add_defaults(snapshot, item, kind)
        case "Node":
            pass
        case _:
            return _add_device_item(snapshot, item, kind) or is_ingested
    return True


def _add_defaults(snapshot: SnapshotContents, item: msgspec.Raw, kind: str) -> None:
    """Add an object that gives new pods values; a list without items makes its kind known."""
    match kind:
        case "PriorityClass":
            priority_class = msgspec.json.decode(item, type=PriorityClass)
            snapshot.priority_classes[_get_name(priority_class.metadata)] = priority_class
        case "RuntimeClass":
            runtime_class = msgspec.json.decode(item, type=RuntimeClass)
            classes = snapshot.runtime_classes or {}
            snapshot.runtime_classes = {**classes, _get_name(runtime_class.metadata): runtime_class}
        case "RuntimeClassList":
            snapshot.runtime_classes = snapshot.runtime_classes or {}
        case "LimitRange" | "LimitRangeList":
            snapshot.limit_ranges = snapshot.limit_ranges or LimitRangeIndex()
            if kind == "LimitRange":
                snapshot.limit_ranges.put(msgspec.json.decode(item, type=LimitRange))


def _get_name(metadata: ObjectMeta | None) -> str:
    return (metadata.name if metadata is not None else None) or ""


def _add_device_item(snapshot: SnapshotContents, item: msgspec.Raw, kind: str) -> bool:
    """Add an object about devices, and return whether it is one."""
    match kind:
        case "ResourceClaim":
            snapshot.claims.append(msgspec.json.decode(item, type=ResourceClaim))
        case "ResourceClaimTemplate":
            snapshot.templates.append(msgspec.json.decode(item, type=ResourceClaimTemplate))
        case "DeviceClass":
            snapshot.classes.append(msgspec.json.decode(item, type=DeviceClass))
        case "ResourceSlice":
            snapshot.slices.append(identify_slice(msgspec.json.decode(item, type=ResourceSlice)))
        case (
            "ResourceClaimList"
            | "ResourceClaimTemplateList"
            | "DeviceClassList"
            | "ResourceSliceList"
            | "DeviceTaintRule"
            | "DeviceTaintRuleList"
        ):
            pass
        case _:
            return False
    snapshot.device_kinds.update({kind.removesuffix(_LIST)} & {*DEVICE_RESOURCES, TAINT_RULE_KIND})
    return True
