"""Observed clusters: pods, claims for devices, namespaces and CapLedgers, listed once, read, or watched."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cli.sources import cap_ledger_list
from tallygate.cli.sources.cap_ledger_list import (
    LEDGER_PAGE_SIZE,
    LEDGER_RECORD_CODEC,
    CapLedgerList,
    CapLedgerRecord,
    create_ledger_list,
)
from tallygate.cli.sources.cluster_stores import (
    CLAIMS,
    CLASSES,
    ClusterStores,
    CountedUsage,
    DeviceItems,
    list_or_record,
    read_devices,
)
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cli.sources.snapshot_reader import SNAPSHOT_HINT, SnapshotError, format_snapshot_name, read_items
from tallygate.cli.sources.unhealthy_store import (
    NODES,
    UNHEALTHY_NODE_CODEC,
    UnhealthyNodeRecord,
    create_unhealthy_record,
)
from tallygate.cluster.membership import Membership
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.informer import Informer
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, ResourceCodec, WatchEvent, parse_revision
from tallygate.objects.core import Namespace, Node, Pod
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    NAMESPACE_CODEC,
    NamespaceRecord,
    create_namespace_record,
)
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

PODS_PATH = "/api/v1/pods"
_NO_MEMBERS = Membership(frozenset(), "", 0, 0, 0)


@dataclass
class ObservedCluster:
    """Synced stores, and CapLedgers. The stores must not change while a caller reads them.

    `read_at` is the time of the read, in seconds since 1970, None if it is unknown.
    """

    stores: ClusterStores
    ledgers: CapLedgerList
    read_at: float | None = None

    @property
    def pods(self) -> PodStore:
        """The store of pods."""
        return self.stores.pods

    def list_caps(self, caps: CapIndex) -> list[ActiveCap]:
        """Return the caps that may have ledgers, by name: each group of a cap is one."""
        records = self.stores.namespaces.list_records()
        listed = caps.list_ledger_caps((record.name, record.labels) for record in records)
        return sorted(listed, key=lambda cap: (cap.definition.name, cap.group_value or ""))

    def list_ungrouped(self, cap: ActiveCap) -> list[str]:
        """Return the namespaces that a cap with groups does not count because they lack its label."""
        records, label = self.stores.namespaces.list_records(), cap.definition.group_by
        return sorted(
            record.name
            for record in records
            if label and label not in record.labels and cap.selects_namespace(record.name, record.labels)
        )

    def list_keys(self, cap: ActiveCap) -> list[LedgerKey]:
        """Return the ledgers of a cap: one if it is shared, else one for each of its member namespaces."""
        shared_key = LedgerKey(cap.key, "")
        if cap.definition.shared:
            return [shared_key]
        return [get_ledger_key(cap, name) for name in sorted(self.get_membership(cap, shared_key).names)]

    def get_membership(self, cap: ActiveCap, key: LedgerKey) -> Membership:
        """Return the member namespaces of a ledger, as the gate finds them."""
        return self.stores.usage_lister.find_membership(cap, key) or _NO_MEMBERS

    def count_usage(self, cap: ActiveCap, members: frozenset[str], ledger: Ledger | None) -> CountedUsage:
        """Return the usage of the member namespaces of a ledger."""
        terminating = [uid for name in members for uid in self._terminating_by_namespace.get(name, ())]
        return self.stores.count_usage(cap, members, terminating, ledger)

    def find_ledger(self, key: LedgerKey) -> Ledger | None:
        """Return a stored ledger, None without one, or if it cannot be read."""
        record = self.ledgers.records.get(key)
        return None if record is None else record.ledger

    def list_unknown_ledgers(self, caps: CapIndex) -> list[LedgerKey]:
        """Return the ledgers of caps that are not in `caps`."""
        records = self.ledgers.records
        return sorted(
            (key for key in records if caps.find_cap(key.cap) is None), key=lambda key: (key.cap, key.namespace)
        )

    def list_empty_groups(self, caps: CapIndex) -> list[ActiveCap]:
        """Return the groups that have a ledger and no longer a namespace."""
        listed, known = (
            {cap.key for cap in self.list_caps(caps)},
            map(caps.find_cap, {key.cap for key in self.ledgers.records}),
        )
        empty = [cap for cap in known if cap is not None and cap.key not in listed]
        return sorted(empty, key=lambda cap: cap.key)

    def list_deleted_namespaces(self, caps: CapIndex) -> list[str]:
        """Return the deleted namespaces for which a ledger of the caps still exists."""
        cap_keys = {cap.key for cap in caps.list_caps()}
        namespaces = {key.namespace for key in self.ledgers.records if key.namespace and key.cap in cap_keys}
        return sorted(name for name in namespaces if self.stores.namespaces.find(name) is None)

    @cached_property
    def _terminating_by_namespace(self) -> Mapping[str, list[str]]:
        uids_by_namespace: dict[str, list[str]] = defaultdict(list)
        for namespace in self.stores.namespaces.list_records():
            for pod in self.pods.list_all(namespace.name):
                if _is_terminating(pod):
                    uids_by_namespace[namespace.name].append(pod.uid)
        return uids_by_namespace


def observe_api_server(client_config: ClientConfig, *, slices: bool, nodes: bool = False) -> ObservedCluster:
    """List a cluster, with its `slices` of devices and the unhealthy devices of its `nodes` on request.

    Ledgers are read first, so that the pods are not older than those that a ledger counted.

    Raises:
        ListError: if pods or namespaces cannot be listed.
    """
    client = ApiClient(client_config)
    try:
        stores, ledgers = ClusterStores(), list_cap_ledgers(client)
        stores.namespaces.apply(list_resource(client, NAMESPACE_CODEC))
        stores.pods.apply(list_resource(client, ResourceCodec("pods", PODS_PATH, Pod, stores.create_pod_record)))
        read_devices(client, stores, slices=slices)
        if nodes:
            listed = list_or_record(client, UNHEALTHY_NODE_CODEC, stores)
            if NODES not in stores.unread:
                stores.nodes.apply(listed)
        return ObservedCluster(stores, ledgers, time.time())
    finally:
        client.close()


def list_cap_ledgers(client: ApiClient) -> CapLedgerList:
    """Return the CapLedgers of a cluster, or the reason why they cannot be read.

    Raises:
        ListError: if the list fails for another reason than a missing resource or permission.
    """
    try:
        return create_ledger_list(list_resource(client, LEDGER_RECORD_CODEC, LEDGER_PAGE_SIZE).items)
    except UnknownResourceError:
        return _create_unavailable(
            "the cluster has no CapLedgers: the gate keeps its ledgers in memory, or no gate runs"
        )
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        return _create_unavailable(f"CapLedgers may not be read: {error.cause}")


def _create_unavailable(reason: str) -> CapLedgerList:
    return CapLedgerList(missing_reason=reason, unavailable_reason=reason)


def _is_terminating(pod: StoredConsumer) -> bool:
    return pod.is_terminating and not pod.has_ended


class _SnapshotHandler:
    """A handler of the objects of a snapshot that keeps the record of each."""

    def __init__(self) -> None:
        self.stores = ClusterStores()
        self.pods: list[PodRecord] = []
        self.namespaces: list[NamespaceRecord] = []
        self.nodes: list[UnhealthyNodeRecord] = []
        self.ledgers: list[CapLedgerRecord] = []
        self.devices = DeviceItems(self.stores)

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object and return whether its kind is used.

        Raises:
            ValueError: if the object is not as a cluster stores it.
        """
        match kind:
            case "Pod":
                self.pods.append(self.stores.create_pod_record(_POD_DECODER.decode(item)))
            case "Namespace":
                self.namespaces.append(create_namespace_record(_NAMESPACE_DECODER.decode(item)))
            case cap_ledger.KIND:
                self.ledgers.append(cap_ledger_list.create_ledger_record(item))
            case "Node":
                self.nodes.append(create_unhealthy_record(_NODE_DECODER.decode(item)))
            case _:
                return self.devices.add(kind, item)
        return True

    def get_revision(self, list_revision: str) -> int:
        """Return the revision of the list, else the one of the newest pod."""
        return (
            max((record.revision for record in self.pods), default=1)
            if list_revision in ("", "0")
            else parse_revision(list_revision)
        )


def observe_snapshot(path: Path) -> ObservedCluster:
    """Read a snapshot, JSON or YAML.

    Raises:
        SnapshotError: if the file cannot be read, is not a snapshot, or has no namespaces.
    """
    handler = _SnapshotHandler()
    list_revision = read_items(path, handler)
    if not handler.namespaces:
        raise SnapshotError(
            f"{format_snapshot_name(path)}: it contains no namespaces, which caps need; {SNAPSHOT_HINT}"
        )
    try:
        revision = handler.get_revision(list_revision)
    except ValueError as error:
        raise SnapshotError(f"{format_snapshot_name(path)}: no snapshot: {error}; {SNAPSHOT_HINT}") from None
    handler.stores.namespaces.apply(Replaced(handler.namespaces, revision))
    handler.stores.pods.apply(Replaced(handler.pods, revision))
    if handler.nodes:
        handler.stores.nodes.apply(Replaced(handler.nodes, revision))
    else:
        handler.stores.unread[NODES] = f"the snapshot has no {NODES}"
    handler.devices.apply(revision)
    cap_ledgers = create_ledger_list(handler.ledgers)
    return ObservedCluster(
        handler.stores,
        CapLedgerList(missing_reason="the snapshot has no CapLedgers") if cap_ledgers.missing_reason else cap_ledgers,
    )


_POD_DECODER = msgspec.json.Decoder(Pod)
_NAMESPACE_DECODER = msgspec.json.Decoder(Namespace)
_NODE_DECODER = msgspec.json.Decoder(Node)


_POLL_SECONDS = 1.0
"""The poll interval: changes within it are reported together."""


class CapLedgerStore:
    """The CapLedgers of one revision. The mapping is replaced, never changed, so that any thread may read it."""

    def __init__(self) -> None:
        self._records: dict[str, CapLedgerRecord] = {}
        self.revision: int | None = None

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, event: WatchEvent[CapLedgerRecord]) -> None:
        """Apply an event to the store."""
        if isinstance(event, Replaced):
            self._records = {record.uid: record for record in event.items}
        elif isinstance(event, Changed):
            self._records = {**self._records, event.item.uid: event.item}
        elif isinstance(event, Deleted):
            self._records = {uid: record for uid, record in self._records.items() if uid != event.item.uid}
        self.revision = event.revision

    def list_ledgers(self) -> CapLedgerList:
        """Return all ledgers."""
        return create_ledger_list(self._records.values())


class WatchedCluster:
    """The watches of all that was read of a cluster: what could not be read then is not watched."""

    def __init__(self, client_config: ClientConfig, observed: ObservedCluster) -> None:
        self._unavailable_reason, unread = observed.ledgers.unavailable_reason, observed.stores.unread
        self._stores, self._ledger_store = ClusterStores(), CapLedgerStore()
        self._stores.unread |= unread
        namespaces, pods = self._stores.namespaces, self._stores.pods
        self._informers: list[Informer[Any, Any]] = [
            Informer(NAMESPACE_CODEC, client_config, namespaces.apply, namespaces.__len__),
            Informer(pods.codec, client_config, pods.apply, pods.__len__),
        ]
        if CLASSES not in unread:
            classes = self._stores.device_classes
            self._informers.append(Informer(DEVICE_CLASS_CODEC, client_config, classes.apply, classes.__len__))
        claims = self._stores.claims
        if CLAIMS in unread:
            claims.apply(Replaced((), 0))
        else:
            self._informers.append(Informer(claims.codec, client_config, claims.apply, claims.__len__))
        if observed.stores.nodes.revision is not None:
            nodes = self._stores.nodes
            self._informers.append(Informer(UNHEALTHY_NODE_CODEC, client_config, nodes.apply, nodes.__len__))
        if observed.stores.devices.revision is not None:
            devices = self._stores.devices
            self._informers.append(Informer(RESOURCE_SLICE_CODEC, client_config, devices.apply, devices.__len__))
        if not self._unavailable_reason:
            self._informers.append(
                Informer(LEDGER_RECORD_CODEC, client_config, self._ledger_store.apply, self._ledger_store.__len__)
            )

    def start(self) -> None:
        """Start the watches."""
        for informer in self._informers:
            informer.start()

    def stop(self) -> None:
        """Stop the watches, within a second each."""
        for informer in self._informers:
            informer.stop()

    def iterate_changes(self) -> Iterator[tuple[ObservedCluster, tuple[str, ...]]]:
        """Yield the cluster after each possible change, with the messages of its stale stores; without end."""
        previous: object = None
        while True:
            statuses = [informer.get_status() for informer in self._informers]
            stale = tuple(
                status.stale for status in statuses if status.stale is not None and status.revision is not None
            )
            current = ([status.revision for status in statuses], stale)
            if current != previous and all(status.revision is not None for status in statuses):
                previous = current
                yield ObservedCluster(self._stores, self._list_ledgers()), stale
            time.sleep(_POLL_SECONDS)

    def _list_ledgers(self) -> CapLedgerList:
        reason = self._unavailable_reason
        return (
            CapLedgerList(missing_reason=reason, unavailable_reason=reason)
            if reason
            else self._ledger_store.list_ledgers()
        )


@contextmanager
def watch_cluster(client_config: ClientConfig, observed: ObservedCluster) -> Iterator[WatchedCluster]:
    """Yield the cluster that was observed, watched while the block runs."""
    cluster = WatchedCluster(client_config, observed)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
