"""The source of an audit: a cluster at present, or a snapshot of one."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.admission.kinds import BUILT_IN_TARGETS, ReviewTargets
from tallygate.audit import listing
from tallygate.audit.audit import AuditInput, AuditScope, ListedObject, list_objects, sort_objects
from tallygate.cli.doctor.mounted_policies import find_gate_namespace
from tallygate.cli.framework import UsageError
from tallygate.cli.sources.cluster_source import StateNeeds, read_api_server
from tallygate.cli.sources.snapshot_file import create_no_namespaces_error, format_snapshot_name, read_items
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLASSES
from tallygate.cluster.state_builder import StateBuilder
from tallygate.errors import TallygateError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.pagination import PAGE_SIZE, WaitFunction
from tallygate.objects.core import Namespace
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.review.advertised_devices import KnownDevices
from tallygate.review.cluster_snapshot import SnapshotProvider
from tallygate.review.schedulability import count_pods_on_nodes
from tallygate.state.kubernetes.limit_record_store import read_limit_records


@dataclass(frozen=True, slots=True)
class AuditSource:
    """The stores of a cluster, its objects that are evaluated one by one, and the remarks on both.

    The objects of a cluster are listed while they are evaluated; that may add remarks.
    """

    state: ClusterState
    audit_input: AuditInput
    objects: Iterable[ListedObject]
    remarks: list[str]


class ClusterNeeds(NamedTuple):
    """The objects of a cluster that policies need: slices of devices, and nodes.

    Nodes are for rules, for the number of pods, and for limits that are percentages of what nodes have.
    """

    nodes_for_rules: bool
    nodes_for_pods: bool
    slices: bool
    nodes_for_limits: bool = False


def read_cluster(connection: ClientConfig, scope: AuditScope, sleep: WaitFunction, needs: ClusterNeeds) -> AuditSource:
    """Return the source that reads a cluster, and of its nodes and slices what the policies need.

    Raises:
        UsageError: if a requested namespace does not exist.
        AuditError, ListError: if the cluster cannot be listed.
    """
    scopes = sorted(scope.included_namespaces) if scope.included_namespaces is not None else [""]
    is_whole = scope.included_namespaces is None
    needs_nodes = is_whole and (needs.nodes_for_rules or needs.nodes_for_pods)
    state_needs = StateNeeds(
        nodes=needs_nodes or needs.nodes_for_limits,
        node_pools=needs_nodes,
        slices=needs.slices,
        defaults=True,
        namespaces=scopes,
    )
    state = read_api_server(connection, state_needs)
    _check_namespaces(state, scope, f"at {connection.server}")
    client = ApiClient(connection)
    pages = listing.PageReader(client, PAGE_SIZE, sleep)
    remarks = [_NODES_NOT_CHECKED] if needs.nodes_for_rules and not is_whole else []
    nodes = listing.copy_nodes(state) if needs_nodes else None
    objects = list_objects(pages, scope, remarks.append)
    if state.namespaces.get_limit_annotations():
        state.limit_records = _read_limit_records(connection, client, remarks)
    return AuditSource(state, _create_audit_input(state, nodes, nodes), objects, remarks)


def _check_namespaces(state: ClusterState, scope: AuditScope, place: str) -> None:
    for name in sorted(scope.included_namespaces or ()):
        if state.namespaces.find(name) is None:
            raise UsageError(f"namespace {name} does not exist {place}")


def _read_limit_records(connection: ClientConfig, client: ApiClient, remarks: list[str]) -> LimitRecords | None:
    """Return the annotations that the gate in the cluster admitted; None, with a remark, if they cannot be read."""
    try:
        return read_limit_records(client, find_gate_namespace(connection))
    except TallygateError as error:
        remarks.append(f"the gate's records of admitted annotations cannot be read: {error}")
        return None


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
        self._kinds = listing.index_groups(targets)
        self.builder = StateBuilder(skipped={"ResourceQuota"})  # it is evaluated as an object
        self.other_objects: list[tuple[str, msgspec.Raw]] = []
        self.marked_kinds: set[str] = set()
        self.unread_kinds: Counter[str] = Counter()  # of objects with containers

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object and return whether its kind is used.

        Raises:
            ValueError: if the object is not as a cluster stores it.
        """
        is_used = self.builder.add(kind, item)
        if kind in {"Pod", "Namespace"}:
            return is_used
        if self._is_read(kind, item):
            self.other_objects.append((kind, item))
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


def read_snapshot(snapshot: Path, scope: AuditScope, *, check_nodes: bool) -> AuditSource:
    """Return the source that reads a snapshot; `check_nodes` if the policies check that pods fit a node.

    Raises:
        UsageError: if a requested namespace does not exist.
        SnapshotError: if the snapshot cannot be read, or has no namespaces.
    """
    collected = _SnapshotCollector(scope.targets)
    state = read_items(snapshot, collected, collected.builder.finish_snapshot)
    if not len(state.namespaces):
        raise create_no_namespaces_error(snapshot)
    _check_namespaces(state, scope, f"in {format_snapshot_name(snapshot)}")
    has_daemon_sets = any(kind == _DAEMON_SET for kind, _ in collected.other_objects)
    nodes = listing.copy_nodes(state) if len(state.nodes) and (check_nodes or has_daemon_sets) else None
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
    if check_nodes and (nodes is None or scope.included_namespaces is not None):
        remarks.append(_NODES_NOT_CHECKED)
    snapshots = nodes if scope.included_namespaces is None else None
    objects = (
        (group, kind, item)
        for group, kind, item in sort_objects(collected.other_objects, scope.targets)
        if _is_in_scope(item, kind, scope)
    )
    return AuditSource(state, _create_audit_input(state, snapshots, nodes), objects, remarks)


def _is_in_scope(item: msgspec.Raw, kind: str, scope: AuditScope) -> bool:
    if scope.included_namespaces is None:
        return True
    metadata = _OBJECT_DECODER.decode(item).metadata
    return kind != "Node" and metadata is not None and metadata.namespace in scope.included_namespaces


def _create_audit_input(
    state: ClusterState, snapshots: SnapshotProvider | None, nodes: SnapshotProvider | None
) -> AuditInput:
    """Return the input of an audit; `snapshots` are for rules, and DaemonSets are counted by the `nodes`."""
    devices = KnownDevices(
        lambda: state.device_classes.get_resources_by_class() if state.knows(CLASSES) else None,
        LeastAmounts(state.devices.list_slices, state.device_classes.find_selectors),
        lambda _namespace, _name: None,  # the templates are evaluated themselves
    )
    return AuditInput(
        state.pods,
        state.namespaces,
        state.usage_lister,
        datetime.now(UTC),
        snapshots,
        state.get_cap_sources,
        devices=devices,
        limit_records=state.limit_records,
        find_pod_defaults=state.find_pod_defaults,
        count_daemon_pods=None if nodes is None else partial(count_pods_on_nodes, snapshots=nodes),
    )


_DAEMON_SET = "DaemonSet"
_NODES_NOT_CHECKED = "whether there are nodes for pods was not asked: that needs the nodes, and the whole cluster"
_CONTAINERS = re.compile(rb'"containers"\s*:\s*\[')
_OBJECT_DECODER = msgspec.json.Decoder(Namespace)
"""The decoder of the metadata of any object."""
_TYPE_DECODER = msgspec.json.Decoder(_Type)
