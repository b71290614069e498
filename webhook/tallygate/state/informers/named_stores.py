"""Stores of namespaces, nodes and their pools, device classes and taint rules of devices.

- Namespaces: labels, the member namespaces of caps, and the annotations that set limits.
- Nodes: labels, capacity, allocatable, features, taints, and since when a node is not ready.
- Device classes: the extended resource names of their devices.
- Taint rules: the taint of each, and the devices that it selects.
- Karpenter's NodePools and NodeClaims, which an API server without Karpenter does not know: the nodes of a pool.

They are in an `ObjectStore`: records by name, as of one revision, with listeners for changes.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from tallygate.accounting.claim_charge import UNSERVED_CLASSES
from tallygate.accounting.cluster.node_pools import keep_pool_fields
from tallygate.accounting.node_fit import list_unready
from tallygate.kube import resource_codec
from tallygate.objects.core import Namespace
from tallygate.objects.devices import DeviceClass, DeviceClassSpec, DeviceTaintRule, list_expressions
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus
from tallygate.policy.limit_annotations import NO_LIMIT_ANNOTATIONS, NO_TEXTS, LimitAnnotations, select_texts


class ComparableRecord(resource_codec.ResourceRecord, Protocol):
    """A record with a compared value. A change of other fields notifies no listener."""

    @property
    def compared_value(self) -> object:
        """Value whose changes notify the listeners; compared by equality."""
        ...


T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R", bound=ComparableRecord)


class ObjectRecord(msgspec.Struct, Generic[T], frozen=True):
    """One object with the fields that are read, its `content`; of a kind without namespaces `namespace` is empty."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: T

    @property
    def compared_value(self) -> object:
        """All stored fields."""
        return self.content


def read_identity(meta: ObjectMeta | None, noun: str, *, is_namespaced: bool = False) -> tuple[str, str, str, int]:
    """Return UID, namespace, name and revision of a stored object.

    Raises:
        ValueError: if it lacks a field that every stored object has.
    """
    if meta is None or not meta.uid or not meta.name or (is_namespaced and not meta.namespace):
        raise ValueError(f"a {noun} without uid{', namespace' if is_namespaced else ''} or name")
    namespace = (meta.namespace or "") if is_namespaced else ""
    return meta.uid, namespace, meta.name, resource_codec.parse_revision(meta.resource_version or "")


def create_codec(  # noqa: PLR0913  # each is a part of the description of a kind
    path: str,
    object_type: type[S],
    noun: str,
    reduce: Callable[[S], T],
    *,
    is_namespaced: bool = False,
    is_optional: bool = False,
) -> resource_codec.ResourceCodec[S, ObjectRecord[T]]:
    """Return the codec of objects whose records have what `reduce` keeps of them."""

    def create_record(stored: S) -> ObjectRecord[T]:
        meta: ObjectMeta | None = getattr(stored, "metadata", None)
        return ObjectRecord(*read_identity(meta, noun, is_namespaced=is_namespaced), reduce(stored))

    name = path.rpartition("/")[2]
    return resource_codec.ResourceCodec(name, path, object_type, create_record, is_optional=is_optional)


def keep_metadata(stored: S, *fields: str) -> S:
    meta: ObjectMeta = getattr(stored, "metadata", None) or ObjectMeta()
    kept = ObjectMeta(name=meta.name, **{field: getattr(meta, field) for field in fields})
    return replace(stored, metadata=kept)


NameListener = Callable[[frozenset[str]], None]
"""A callback for the names of created, deleted or changed objects, after the store shows them. It must return soon
and not raise."""


class ObjectStore(Generic[R]):
    """Records by name, updated by the events of a reflector."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._records: dict[str, R] = {}
        self._revision: int | None = None
        self._unchanged_since = 0
        self._generation = 0
        self._listeners: list[NameListener] = []

    @property
    def revision(self) -> int | None:
        """Revision up to which the store is complete; None before the first list."""
        return self._revision

    @property
    def unchanged_since(self) -> int:
        """Revision of the last change of a compared value, or of the last list."""
        return self._unchanged_since

    @property
    def generation(self) -> int:
        """Counter that grows with every change of a compared value."""
        return self._generation

    def __len__(self) -> int:
        return len(self._records)

    def find(self, name: str) -> R | None:
        """Return the record of this name, or None."""
        return self._records.get(name)

    def list_records(self) -> tuple[R, ...]:
        with self._lock:
            return tuple(self._records.values())

    def add_listener(self, listener: NameListener) -> None:
        """Add a listener. The thread that applies an event calls it."""
        self._listeners.append(listener)

    def apply(self, event: resource_codec.WatchEvent[R]) -> None:
        """Apply an event; ignore an event that is not newer than `revision`."""
        with self._lock:
            changed_names = (
                self._replace(event) if isinstance(event, resource_codec.Replaced) else self._apply_change(event)
            )
            self._generation += bool(changed_names)
            if self._revision is not None and (changed_names or isinstance(event, resource_codec.Replaced)):
                self._unchanged_since = event.revision
        if changed_names:
            for listener in self._listeners:
                listener(changed_names)

    def _replace(self, event: resource_codec.Replaced[R]) -> frozenset[str]:
        before, self._records = self._records, {record.name: record for record in event.items}
        self._revision = event.revision
        names = before.keys() | self._records.keys()
        return frozenset(name for name in names if _is_different(before.get(name), self._records.get(name)))

    def _apply_change(self, event: resource_codec.WatchEvent[R]) -> frozenset[str]:
        if self._revision is None or event.revision <= self._revision:
            return frozenset()
        self._revision = event.revision
        if isinstance(event, resource_codec.Changed):
            before, self._records[event.item.name] = self._records.get(event.item.name), event.item
            return frozenset({event.item.name} if _is_different(before, event.item) else ())
        if isinstance(event, resource_codec.Deleted) and self._records.pop(event.item.name, None) is not None:
            return frozenset({event.item.name})
        return frozenset()


def _is_different(before: ComparableRecord | None, after: ComparableRecord | None) -> bool:
    if before is None or after is None:
        return before is not after
    return before.uid != after.uid or before.compared_value != after.compared_value


_MAX_SELECTIONS = 4096

Labels = Mapping[str, str]


class NamespaceRecord(msgspec.Struct, frozen=True):
    """One namespace; it may be terminating."""

    uid: str
    name: str
    revision: int
    labels: Labels
    namespace: str = ""
    limit_texts: Mapping[str, str] = NO_TEXTS
    """The annotations that set limits, by the name of the cap; no other annotation is kept."""

    @property
    def compared_value(self) -> object:
        """Labels, by which policies select, and the annotations that set limits."""
        return self.labels, self.limit_texts


class MemberNamespaces(NamedTuple):
    """The selected namespaces at `revision`, and at every revision since `unchanged_since`."""

    names: frozenset[str]
    revision: int
    unchanged_since: int


class NamespaceGroups(NamedTuple):
    """The names of the selected namespaces by group, with the revisions of `MemberNamespaces`."""

    names_by_group: Mapping[str, frozenset[str]]
    revision: int
    unchanged_since: int


class NamespaceStore(ObjectStore[NamespaceRecord]):
    """A live `NamespaceLister` of all namespaces as of its revision; empty before the first list."""

    def __init__(self) -> None:
        super().__init__()
        self._selections: OrderedDict[str, tuple[int, frozenset[str]]] = OrderedDict()
        self._groups: dict[str, tuple[int, Mapping[str, frozenset[str]]]] = {}
        self._limit_annotations = NO_LIMIT_ANNOTATIONS

    def get_limit_annotations(self) -> LimitAnnotations:
        """Return the annotations that set limits, by namespace and cap: the same object until one changes."""
        return self._limit_annotations

    def _replace(self, event: resource_codec.Replaced[NamespaceRecord]) -> frozenset[str]:
        changed_names = super()._replace(event)
        self._update_limit_annotations(changed_names)
        return changed_names

    def _apply_change(self, event: resource_codec.WatchEvent[NamespaceRecord]) -> frozenset[str]:
        changed_names = super()._apply_change(event)
        self._update_limit_annotations(changed_names)
        return changed_names

    def _update_limit_annotations(self, names: frozenset[str]) -> None:
        """Apply the changes of these namespaces, before any listener is notified."""
        before = self._limit_annotations
        texts_by_name = {name: self._records[name].limit_texts if name in self._records else NO_TEXTS for name in names}
        if any(before.get(name, NO_TEXTS) != texts for name, texts in texts_by_name.items()):
            after = {name: texts for name, texts in {**before, **texts_by_name}.items() if texts}
            self._limit_annotations = MappingProxyType(after)

    def labels(self, namespace: str) -> Labels | None:
        """Return the labels of a namespace, or None if the store does not contain it."""
        record = self.find(namespace)
        return None if record is None else record.labels

    def list_members(self, key: str, is_selected: Callable[[str, Labels], bool]) -> MemberNamespaces | None:
        """Return the namespaces for which `is_selected(name, labels)` is true; None before the first list.

        The store caches the result under `key` until a namespace is created, deleted or relabelled. So the same key
        must always stand for the same selection.
        """
        with self._lock:
            if self._revision is None:
                return None
            selection = self._selections.get(key)
            if selection is None or selection[0] != self._generation:
                names = frozenset(
                    record.name for record in self._records.values() if is_selected(record.name, record.labels)
                )
                selection = self._selections[key] = (self._generation, names)
            self._selections.move_to_end(key)
            if len(self._selections) > _MAX_SELECTIONS:
                self._selections.popitem(last=False)
            return MemberNamespaces(selection[1], self._revision, self._unchanged_since)

    def list_groups(self, key: str, find_group: Callable[[str, Labels], str | None]) -> NamespaceGroups | None:
        """Return the namespaces by the group that `find_group(name, labels)` returns; None before the first list.

        All groups are found in one pass, and cached under `key` as by `list_members`.
        """
        with self._lock:
            if self._revision is None:
                return None
            known = self._groups.get(key)
            if known is None or known[0] != self._generation:
                names_by_group: dict[str, set[str]] = {}
                for record in self._records.values():
                    group = find_group(record.name, record.labels)
                    if group is not None:
                        names_by_group.setdefault(group, set()).add(record.name)
                if len(self._groups) >= _MAX_SELECTIONS:
                    self._groups.clear()
                known = self._generation, {group: frozenset(names) for group, names in names_by_group.items()}
                self._groups[key] = known
            return NamespaceGroups(known[1], self._revision, self._unchanged_since)


def _create_namespace_record(namespace: Namespace) -> NamespaceRecord:
    uid, _, name, revision = read_identity(namespace.metadata, "namespace")
    meta = namespace.metadata or ObjectMeta()
    labels, limit_texts = MappingProxyType(meta.labels or {}), select_texts(meta.annotations)
    return NamespaceRecord(uid, name, revision, labels, limit_texts=limit_texts)


NAMESPACE_CODEC = resource_codec.ResourceCodec("namespaces", "/api/v1/namespaces", Namespace, _create_namespace_record)

_NODE_ENCODER = msgspec.json.Encoder(order="deterministic")
_NODE_DECODER = msgspec.json.Decoder(SchedulingNode)


class NodeStore(ObjectStore[ObjectRecord[bytes]]):
    """All nodes as of its revision: name, labels, taints, capacity, allocatable, features, and the pool of each.

    A node that is not ready has this condition, and no node another one: a heartbeat changes only the revision.
    """

    def find_node(self, name: str) -> SchedulingNode | None:
        """Decode and return a node; None if it does not exist."""
        record = self.find(name)
        return None if record is None else decode_node(record.content)

    def list_nodes(self) -> tuple[SchedulingNode, ...]:
        return tuple(decode_node(record.content) for record in self.list_records())


def decode_node(content: bytes) -> SchedulingNode:
    """Return the node of a record of a `NodeStore`."""
    return _NODE_DECODER.decode(content)


def _encode_node(node: SchedulingNode) -> bytes:
    spec, status = node.spec or NodeSpec(), node.status or SchedulingNodeStatus()
    kept = SchedulingNode(
        metadata=keep_pool_fields(node.metadata or ObjectMeta()),
        spec=NodeSpec(spec.taints, spec.unschedulable) if spec.taints or spec.unschedulable else None,
        status=SchedulingNodeStatus(
            status.capacity,
            status.allocatable,
            declared_features=status.declared_features,
            conditions=list_unready(status) or None,
        ),
    )
    return _NODE_ENCODER.encode(kept)


NODE_CODEC = create_codec("/api/v1/nodes", SchedulingNode, "node", _encode_node)


class DeviceClassStore(ObjectStore[ObjectRecord[DeviceClass]]):
    """All device classes as of its revision."""

    def __init__(self) -> None:
        super().__init__()
        self._resources: tuple[int, Mapping[str, str]] = (0, MappingProxyType({}))

    def get_resources_by_class(self) -> Mapping[str, str]:
        """Return the extended resource of each class, empty if it has none; the same object until one changes."""
        if self._revision == 0:
            return UNSERVED_CLASSES
        if self._resources[0] != self._generation:
            with self._lock:
                specs = {record.name: record.content.spec or DeviceClassSpec() for record in self._records.values()}
                resources = {name: spec.extended_resource_name or "" for name, spec in specs.items()}
                known = self._resources[1]
                self._resources = self._generation, known if resources == known else MappingProxyType(resources)
        return self._resources[1]

    def find_selectors(self, class_name: str) -> tuple[str, ...] | None:
        """Return the expressions that select the devices of a class; None if the class is unknown.

        One is empty for a selector of another kind than CEL, which no API server stores yet.
        """
        record = self.find(class_name)
        return None if record is None else list_expressions((record.content.spec or DeviceClassSpec()).selectors)


DEVICE_CLASS_CODEC = create_codec(
    "/apis/resource.k8s.io/v1/deviceclasses",
    DeviceClass,
    "device class",
    lambda stored: keep_metadata(stored, "creation_timestamp"),  # of classes with one resource the newest serves it
    is_optional=True,
)
"""The API group is stable since 1.34 (k8s.io/api/resource/v1); an older API server does not have it."""

DeviceTaintRuleStore = ObjectStore[ObjectRecord[DeviceTaintRule]]
"""All DeviceTaintRules as of its revision; a change of the conditions of one changes only the revision."""

DEVICE_TAINT_RULE_CODEC = create_codec(
    "/apis/resource.k8s.io/v1/devicetaintrules", DeviceTaintRule, "device taint rule", keep_metadata, is_optional=True
)
"""The kind is stable since 1.37 (k8s.io/api/resource/v1); an older API server does not have it in this version."""

NodePoolStore = ObjectStore[ObjectRecord[KarpenterNodePool]]
"""All NodePools as of its revision."""

NodeClaimStore = ObjectStore[ObjectRecord[NodeClaim]]
"""All NodeClaims as of its revision."""

_KARPENTER = "/apis/karpenter.sh/v1"
NODE_POOL_CODEC = create_codec(
    f"{_KARPENTER}/nodepools",
    KarpenterNodePool,
    "pool of nodes",
    lambda stored: keep_metadata(stored, "labels", "creation_timestamp"),
    is_optional=True,
)
NODE_CLAIM_CODEC = create_codec(
    f"{_KARPENTER}/nodeclaims",
    NodeClaim,
    "claim of nodes",
    lambda stored: keep_metadata(stored, "labels", "creation_timestamp"),
    is_optional=True,
)
