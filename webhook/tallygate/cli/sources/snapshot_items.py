"""The fields of each object that a snapshot stores: those that tallygate reads, and no others.

No environment, no command line, no image, and only the annotations that locate a volume, mark a claim of
kube-scheduler, name the group of a node or request GPUs: a snapshot cannot disclose a field that it does not have.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tallygate.accounting.cluster.ingest import COLUMN_TYPES, STORAGE_TYPES
from tallygate.accounting.cluster.node_pools import GROUP_ANNOTATION
from tallygate.accounting.gpu_annotations import select_gpu_annotations
from tallygate.accounting.node_fit import list_unready
from tallygate.cluster.cap_ledger_list import LEDGERS_PATH
from tallygate.cluster.kinds import BUDGET_RESOURCE, KINDS, POD_GROUP_RESOURCE, VOLUME_RESOURCES, ClusterKind
from tallygate.cluster.state_builder import (
    LIMIT_RECORDS_LISTED_KIND,
    POD_GROUP_LIST_KIND,
    VERSION_KIND,
    VOLUMES_LISTED_KIND,
)
from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects.devices import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourceSlice,
)
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingNode
from tallygate.objects.timed_pods import TimedPod
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.limit_record_store import LimitRecord, encode_record


class SnapshotItem(NamedTuple):
    """An object; `content` is its JSON, empty for a CapLedger that a newer tallygate has written."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: bytes
    kind: str = ""


_OWNED_KINDS = {*STORAGE_TYPES, "ResourceClaim", "Pod", "PodGroup"}

_KEPT_ANNOTATIONS = frozenset(
    {
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
        "storage.alpha.kubernetes.io/migrated-plugins",
        EXTENDED_RESOURCE_CLAIM_ANNOTATION,
        GROUP_ANNOTATION,
    }
)


def _create_item(kind: str, meta: ObjectMeta | None, version: str = "v1", **content: Any) -> SnapshotItem:
    """Return the item of a stored object.

    Raises:
        ValueError: if the object has no UID or name.
    """
    if meta is None or not meta.uid or not meta.name:
        raise ValueError(f"a {kind.lower()} without uid or name")
    annotations = {
        key: value
        for key, value in (meta.annotations or {}).items()
        if key in _KEPT_ANNOTATIONS or key.startswith(ANNOTATION_PREFIX)
    } | select_gpu_annotations(meta.annotations)
    metadata = type(meta)(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=meta.labels,
        annotations=annotations or None,
        owner_references=meta.owner_references if kind in _OWNED_KINDS else None,
    )
    body = {"apiVersion": version, "kind": kind, "metadata": metadata}
    body |= {name: value for name, value in content.items() if value}
    revision = parse_revision(meta.resource_version or "")
    return SnapshotItem(meta.uid, meta.namespace or "", meta.name, revision, _ENCODER.encode(body), kind)


def create_version_item(git_version: str) -> SnapshotItem:
    """Return the item with the version of a cluster. It is the first one: the version decides how pods are counted."""
    body = {"apiVersion": f"{cap_ledger.GROUP}/{cap_ledger.VERSION}", "kind": VERSION_KIND, "gitVersion": git_version}
    return SnapshotItem("", "", "", 0, _ENCODER.encode(body), VERSION_KIND)


def _create_ledger_item(item: msgspec.Raw) -> SnapshotItem:
    meta = _METADATA_DECODER.decode(item).metadata
    try:
        content = _ENCODER.encode(_LEDGER_DECODER.decode(item))
    except ValueError:
        content = b""
    return SnapshotItem(meta.uid, meta.namespace, meta.name, parse_revision(meta.resource_version), content)


class _StoredObject(msgspec.Struct, frozen=True):
    metadata: cap_ledger.CapLedgerMetadata


class _SnapshotDevice(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The fields of a device in a slice that decide what it counts under a cap, and which claims can have it."""

    name: str = ""
    attributes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    capacity: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    allow_multiple_allocations: bool | None = None
    consumes_counters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node_name: str | None = None
    node_selector: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    all_nodes: bool | None = None
    taints: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    binding_conditions: list[str] | None = None
    binds_to_node: bool | None = None


_ENCODER = msgspec.json.Encoder()
_DEVICE_DECODER = msgspec.json.Decoder(_SnapshotDevice)
_METADATA_DECODER = msgspec.json.Decoder(_StoredObject)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LEDGER_DECODER = msgspec.json.Decoder(cap_ledger.CapLedger)

LEDGER_CODEC = ResourceCodec(cap_ledger.PLURAL, LEDGERS_PATH, msgspec.Raw, _create_ledger_item)


def _create_codec(listed: ClusterKind) -> ResourceCodec[Any, SnapshotItem]:
    """Return the codec of a kind whose items have all the fields that are decoded."""

    def create_item(item: Any) -> SnapshotItem:
        content = _FIELDS_DECODER.decode(_ENCODER.encode(_reduce(item)))
        content.pop("metadata", None)
        return _create_item(listed.kind, item.metadata, listed.version, **content)

    object_type = TimedPod if listed.kind == "Pod" else COLUMN_TYPES.get(listed.kind, listed.type)
    return ResourceCodec(listed.resource, listed.create_path(), object_type, create_item)


def _create_codecs(*kinds: str) -> tuple[ResourceCodec[Any, SnapshotItem], ...]:
    return tuple(_create_codec(KINDS[kind]) for kind in kinds)


def _create_column_codecs(*resources: tuple[str, str, str]) -> tuple[ResourceCodec[Any, SnapshotItem], ...]:
    kinds = (ClusterKind(kind, resource, version, COLUMN_TYPES[kind]) for version, resource, kind in resources)
    return tuple(map(_create_codec, kinds))


def _create_mark(kind: str, version: str) -> SnapshotItem:
    content = {"apiVersion": version, "kind": kind, "items": []}
    return SnapshotItem("", "", "", 0, _ENCODER.encode(content), kind)


def _reduce(obj: Any) -> Any:
    """Return an object without the fields that are not needed, where its type has such fields."""
    if isinstance(obj, ResourceSlice) and obj.spec is not None:
        devices = [msgspec.Raw(_ENCODER.encode(_DEVICE_DECODER.decode(device))) for device in obj.spec.devices or ()]
        return ResourceSlice(obj.metadata, msgspec.structs.replace(obj.spec, devices=devices))
    if isinstance(obj, SchedulingNode) and obj.status is not None:
        unready = list_unready(obj.status) or None
        return msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, conditions=unready))
    if isinstance(obj, ResourceClaimTemplate) and obj.spec is not None:
        return _reduce_template(obj, obj.spec)
    return obj


def _reduce_template(obj: ResourceClaimTemplate, template: ResourceClaimTemplateSpec) -> ResourceClaimTemplate:
    """Return a template of claims without the annotations of its claims."""
    labels = template.metadata.labels if template.metadata else None
    spec = ResourceClaimTemplateSpec(ObjectMeta(labels=labels) if labels else None, template.spec)
    return ResourceClaimTemplate(obj.metadata, spec)


_CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceTaintRule")
POD_CODEC, NODE_CODEC, NAMESPACE_CODEC = _create_codecs("Pod", "Node", "Namespace")
VOLUME_CODECS = _create_column_codecs(*VOLUME_RESOURCES)
"""The codecs of the volume kinds: a snapshot has all of them or none, since a claim without its volume misleads."""

SCHEDULING_CODECS = (
    *_create_codecs("PriorityClass", "LimitRange", "RuntimeClass", "ResourceQuota", "DeviceClass"),
    *_create_column_codecs(BUDGET_RESOURCE, POD_GROUP_RESOURCE),
    *_create_codecs("NodePool", "NodeClaim"),
)
"""The codecs of the other kinds that scheduling depends on: priorities, limit ranges, classes, budgets, PodGroups and
pools of nodes.
"""

CLAIM_CODECS = _create_codecs(*_CLAIM_KINDS)
"""The codecs of claims for devices, of their templates, slices and taint rules, to list in this order after the pods.
"""

LIST_MARKS = {
    KINDS[kind].resource: _create_mark(f"{kind}List", KINDS[kind].version)
    for kind in ("DeviceClass", "LimitRange", "RuntimeClass", "ResourceQuota", *_CLAIM_KINDS)
} | {POD_GROUP_RESOURCE[1]: _create_mark(POD_GROUP_LIST_KIND, POD_GROUP_RESOURCE[0])}
"""By resource: the mark of a snapshot that has all its objects, even if the cluster has none."""

VOLUMES_LISTED_ITEM = _create_mark(VOLUMES_LISTED_KIND, "v1")
"""The mark of a snapshot that has all volume objects of its cluster, even if the cluster has none."""

_LIMIT_RECORDS_LISTED_ITEM = _create_mark(LIMIT_RECORDS_LISTED_KIND, "coordination.k8s.io/v1")


def create_limit_record_items(records: Iterable[LimitRecord]) -> list[SnapshotItem]:
    """Return the records of admitted limit annotations, without the users, after a mark that all of them are there."""
    items = (
        SnapshotItem(record.namespace_uid, "", record.namespace, 0, encode_record(record._replace(user="", version="")))
        for record in records
    )
    return [_LIMIT_RECORDS_LISTED_ITEM, *items]
