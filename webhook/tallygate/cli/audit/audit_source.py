"""The source of an audit: a cluster at present, or a snapshot of one."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.admission.kinds import BUILT_IN_TARGETS, ReviewTargets
from tallygate.audit.audit import AuditInput, AuditScope, ListedObject, list_objects, sort_objects
from tallygate.audit.listing import (
    DEVICE_CLASS,
    POD,
    POOL_KINDS,
    PageReader,
    create_list_path,
    index_groups,
    ingest_objects,
    list_nodes,
)
from tallygate.cli.doctor.mounted_policies import find_gate_namespace
from tallygate.cli.framework import UsageError
from tallygate.cli.sources.cluster_stores import (
    CLASSES,
    ClusterStores,
    DefaultItems,
    DeviceItems,
    read_devices,
    read_pod_defaults,
)
from tallygate.cli.sources.resource_lists import list_resource
from tallygate.cli.sources.snapshot_items import LIMIT_RECORDS_LISTED_KIND
from tallygate.cli.sources.snapshot_reader import SNAPSHOT_HINT, SnapshotError, format_snapshot_name, read_items
from tallygate.errors import TallygateError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.pagination import PAGE_SIZE, WaitFunction
from tallygate.kube.resource_codec import Replaced, ResourceCodec
from tallygate.objects.core import Namespace, Pod
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.review.advertised_devices import KnownDevices
from tallygate.review.cluster_snapshot import FixedSnapshot, SnapshotProvider
from tallygate.review.schedulability import count_pods_on_nodes
from tallygate.state.informers import named_stores as namespaces_read
from tallygate.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.kubernetes.limit_record_store import decode_record, read_limit_records


@dataclass(frozen=True, slots=True)
class AuditSource:
    """The stores of a cluster, its objects that are evaluated one by one, and the remarks on both.

    The objects of a cluster are listed while they are evaluated; that may add remarks.
    """

    stores: ClusterStores
    audit_input: AuditInput
    objects: Iterable[ListedObject]
    remarks: list[str]


class ClusterNeeds(NamedTuple):
    """What policies need to know of a cluster: nodes for rules, nodes for the number of pods, slices of devices."""

    nodes_for_rules: bool
    nodes_for_pods: bool
    slices: bool


def read_cluster(connection: ClientConfig, scope: AuditScope, sleep: WaitFunction, needs: ClusterNeeds) -> AuditSource:
    """Return the source that reads a cluster, and of its nodes and slices what the policies need.

    Raises:
        UsageError: if a requested namespace does not exist.
        AuditError, ListError: if the cluster cannot be listed.
    """
    client = ApiClient(connection)
    stores, pages = ClusterStores(), PageReader(client, PAGE_SIZE, sleep)
    stores.namespaces.apply(list_resource(client, NAMESPACE_CODEC))
    for name in sorted(scope.included_namespaces or ()):
        if stores.namespaces.find(name) is None:
            raise UsageError(f"namespace {name} does not exist at {connection.server}")
    stores.pods.apply(_list_pods(client, stores, scope))
    read_devices(client, stores, _list_scopes(scope), slices=needs.slices)
    read_pod_defaults(client, stores, _list_scopes(scope))
    is_whole = scope.included_namespaces is None
    remarks = [_NODES_NOT_CHECKED] if needs.nodes_for_rules and not is_whole else []
    nodes = list_nodes(pages) if (needs.nodes_for_rules or needs.nodes_for_pods) and is_whole else None
    objects = list_objects(pages, scope, remarks.append)
    records = _read_limit_records(connection, client, remarks) if stores.namespaces.get_limit_annotations() else None
    return AuditSource(stores, _create_audit_input(stores, nodes, nodes, records), objects, remarks)


def _read_limit_records(connection: ClientConfig, client: ApiClient, remarks: list[str]) -> LimitRecords | None:
    """Return the annotations that the gate in the cluster admitted; None, with a remark, if they cannot be read."""
    try:
        return read_limit_records(client, find_gate_namespace(connection))
    except TallygateError as error:
        remarks.append(f"the gate's records of admitted annotations cannot be read: {error}")
        return None


def _list_pods(client: ApiClient, stores: ClusterStores, scope: AuditScope) -> Replaced[PodRecord]:
    """Return the records of the pods, which share the fields that pods of one group have in common."""
    records: list[PodRecord] = []
    revision = 1
    for name in _list_scopes(scope):
        page = list_resource(
            client,
            ResourceCodec("pods", create_list_path(POD, name), Pod, stores.create_pod_record),
        )
        records += page.items
        revision = max(revision, page.revision)
    return Replaced(records, revision)


def _list_scopes(scope: AuditScope) -> list[str]:
    """Return the namespaces to list, an empty text for all."""
    return sorted(scope.included_namespaces) if scope.included_namespaces is not None else [""]


class _Type(msgspec.Struct, rename="camel", frozen=True):
    api_version: str | None = None


def _find_group(item: msgspec.Raw) -> str | None:
    """Return the API group of an object; None if it has no `apiVersion`."""
    api_version = _TYPE_DECODER.decode(item).api_version
    return None if api_version is None else api_version.rpartition("/")[0]


class _SnapshotCollector:
    """A handler that collects the objects of a snapshot that are of these kinds, and counts others that have pods."""

    def __init__(self, targets: ReviewTargets) -> None:
        self._targets = targets
        self._kinds = index_groups(targets)
        self.stores = ClusterStores()
        self.pods: list[PodRecord] = []
        self.namespaces: list[NamespaceRecord] = []
        self.other_objects: list[tuple[str, msgspec.Raw]] = []
        self.marked_kinds: set[str] = set()
        self.unread_kinds: Counter[str] = Counter()  # of objects with containers
        self.limit_records: dict[str, Mapping[str, str]] | None = None  # by the UID of the namespace
        self.devices = DeviceItems(self.stores)
        self.defaults = DefaultItems(self.stores)

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object and return whether its kind is used.

        Raises:
            ValueError: if the object is not as a cluster stores it.
        """
        is_used = self.devices.add(kind, item) or self.defaults.add(kind, item)
        if kind == "Pod":
            self.pods.append(self.stores.create_pod_record(_POD_DECODER.decode(item)))
        elif kind == "Namespace":
            self.namespaces.append(namespaces_read.create_namespace_record(_NAMESPACE_DECODER.decode(item)))
        elif self._is_read(kind, item) or kind in {DEVICE_CLASS, *POOL_KINDS}:
            self.other_objects.append((kind, item))
        elif kind == LIMIT_RECORDS_LISTED_KIND:
            self.limit_records = {}
        elif kind == _LEASE and self.limit_records is not None:
            if record := decode_record(item):
                self.limit_records[record.namespace_uid] = record.texts
        elif kind.endswith("List") and kind.removesuffix("List") in self._kinds:
            self.marked_kinds.add(kind.removesuffix("List"))
        elif not is_used and _CONTAINERS.search(bytes(item)):
            group = _find_group(item)
            self.unread_kinds[f"{kind} of {group}" if group else kind] += 1
        else:
            return is_used
        return True

    def _is_read(self, kind: str, item: msgspec.Raw) -> bool:
        """Return whether an object is of a kind that is read; one of a list of one kind has no group."""
        if kind not in self._kinds:
            return False
        group = _find_group(item)
        return group is None or (group, kind) in self._targets

    def get_revision(self) -> int:
        """Return the newest revision of the pods and namespaces."""
        return max([1, *(pod.revision for pod in self.pods), *(namespace.revision for namespace in self.namespaces)])


def read_snapshot(snapshot: Path, scope: AuditScope, *, check_nodes: bool) -> AuditSource:
    """Return the source that reads a snapshot; `check_nodes` if the policies check that pods fit a node.

    Raises:
        UsageError: if a requested namespace does not exist.
        SnapshotError: if the snapshot cannot be read, or has no namespaces.
    """
    collected = _SnapshotCollector(scope.targets)
    read_items(snapshot, collected)
    if not collected.namespaces:
        raise SnapshotError(
            f"{format_snapshot_name(snapshot)}: it contains no namespaces, which policies need; {SNAPSHOT_HINT}"
        )
    collected.stores.namespaces.apply(Replaced(collected.namespaces, collected.get_revision()))
    collected.stores.pods.apply(Replaced(collected.pods, collected.get_revision()))
    collected.devices.apply(collected.get_revision())
    collected.defaults.apply(collected.get_revision())
    for name in sorted(scope.included_namespaces or ()):
        if collected.stores.namespaces.find(name) is None:
            raise UsageError(f"namespace {name} does not exist in {format_snapshot_name(snapshot)}")
    cluster = Cluster()
    counted_kinds = ("Node",) if any(kind == _DAEMON_SET for kind, _ in collected.other_objects) else ()
    for kind in ("Node", DEVICE_CLASS, *POOL_KINDS) if check_nodes else counted_kinds:
        ingest_objects(cluster, kind, (item for other, item in collected.other_objects if other == kind))
    kinds = {*collected.marked_kinds, *(kind for kind, _ in collected.other_objects)}
    missing_kinds = sorted(kind for _, kind in BUILT_IN_TARGETS if kind not in kinds and kind != "Pod")
    remarks = (
        [f"the snapshot does not contain these kinds, and they were not evaluated: {', '.join(missing_kinds)}"]
        if missing_kinds
        else []
    )
    if collected.unread_kinds:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(collected.unread_kinds.items()))
        remarks.append(f"these kinds have pods and are not read, so they were not evaluated: {names}")
    if check_nodes and (not len(cluster.nodes) or scope.included_namespaces is not None):
        remarks.append(_NODES_NOT_CHECKED)
    nodes = FixedSnapshot(cluster, has_pods=False) if len(cluster.nodes) else None
    snapshots = nodes if scope.included_namespaces is None else None
    objects = (
        (group, kind, item)
        for group, kind, item in sort_objects(collected.other_objects, scope.targets)
        if _is_in_scope(item, kind, scope)
    )
    return AuditSource(
        collected.stores,
        _create_audit_input(collected.stores, snapshots, nodes, collected.limit_records),
        objects,
        remarks,
    )


def _is_in_scope(item: msgspec.Raw, kind: str, scope: AuditScope) -> bool:
    if scope.included_namespaces is None:
        return True
    metadata = _OBJECT_DECODER.decode(item).metadata
    return kind != "Node" and metadata is not None and metadata.namespace in scope.included_namespaces


def _create_audit_input(
    stores: ClusterStores,
    snapshots: SnapshotProvider | None,
    nodes: SnapshotProvider | None,
    limit_records: LimitRecords | None,
) -> AuditInput:
    """Return the input of an audit; `snapshots` are for rules, and DaemonSets are counted by the `nodes`."""
    resources_by_class = stores.device_classes.get_resources_by_class()
    devices = KnownDevices(
        lambda: None if CLASSES in stores.unread else stores.device_classes.get_resources_by_class(),
        LeastAmounts(stores.devices.list_slices, stores.device_classes.find_selectors),
        lambda _namespace, _name: None,  # the templates are evaluated themselves
    )
    return AuditInput(
        stores.pods,
        stores.namespaces,
        stores.usage_lister,
        datetime.now(UTC),
        snapshots,
        resources_by_class,
        devices=devices,
        limit_records=limit_records,
        find_pod_defaults=stores.find_pod_defaults,
        count_daemon_pods=None if nodes is None else partial(count_pods_on_nodes, snapshots=nodes),
    )


_DAEMON_SET = "DaemonSet"
_LEASE = "Lease"
_NODES_NOT_CHECKED = "whether there are nodes for pods was not asked: that needs the nodes, and the whole cluster"
_POD_DECODER, _NAMESPACE_DECODER = msgspec.json.Decoder(Pod), msgspec.json.Decoder(Namespace)
_CONTAINERS = re.compile(rb'"containers"\s*:\s*\[')
_OBJECT_DECODER = msgspec.json.Decoder(Namespace)
"""The decoder of the metadata of any object."""
_TYPE_DECODER = msgspec.json.Decoder(_Type)
