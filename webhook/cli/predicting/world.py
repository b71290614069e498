"""A cluster in columns, read from an API server or a snapshot, and the pods in it that have no node yet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from webhook.accounting.charge import has_ended
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.cluster.inter_pod_terms import merge_label_keys
from webhook.accounting.cluster.pod_info import PodInfo, create_pod_info
from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.checking.snapshot import SnapshotError, read_items
from webhook.cli.cluster import kept
from webhook.cli.cluster.kept import SchedulingObject, SnapshotItem
from webhook.cli.cluster.listing import ListError, UnknownResourceError, list_all
from webhook.cli.cluster.seen import PODS_PATH
from webhook.cli.cluster.source import ClusterSource
from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingPod
from webhook.state.kubernetes import naming
from webhook.state.watch.failure import Reason
from webhook.state.watch.pool import Access, PooledTransport
from webhook.state.watch.wire import Reading, revision_of

_POD_DECODER = msgspec.json.Decoder(SchedulingPod)


class ClusterInputError(TallygateError):
    """What was read is not as a cluster stores it."""


@dataclass(slots=True)
class ClusterInput:
    """A cluster, and its pods without a node by namespace and name; `left_out` says what could not be read."""

    cluster: Cluster = field(default_factory=Cluster)
    pending_pods: dict[tuple[str, str], SchedulingPod] = field(default_factory=dict)
    omissions: list[str] = field(default_factory=list)


class _PodRecord(NamedTuple):
    """One pod of a list: as it stands on its node, or as it waits for one."""

    uid: str
    namespace: str
    name: str
    revision: int
    pod_info: PodInfo | None
    pending: SchedulingPod | None


def read_cluster(source: ClusterSource) -> ClusterInput:
    """What is there now, or was when the snapshot was taken.

    Raises:
        ConnectError: nothing says where the API server is.
        ListingError: it does not say what is there.
        SnapshotError: the snapshot cannot be read.
        WorldError: an object is not as a cluster stores it.
    """
    return _read_snapshot(source.snapshot) if source.snapshot else _list_cluster(source.connect())


def _read_snapshot(path: Path) -> ClusterInput:
    cluster_input = ClusterInput()

    def handle_item(kind: str, item: msgspec.Raw) -> bool:
        if kind == "Pod":
            _add_pod(cluster_input, _create_record(cluster_input.cluster, _fill_identity(_POD_DECODER.decode(item))))
            return True
        if kind == kept.VOLUMES_LISTED_KIND:
            cluster_input.cluster.storage = cluster_input.cluster.storage or StorageIndex()
            return True
        return ingest(cluster_input.cluster, kind, item) or kind == naming.KIND

    try:
        read_items(path, handle_item)
    except QuantityError as error:
        raise SnapshotError(f"{path}: it has a quantity that no API server would have stored: {error}") from error
    if not len(cluster_input.cluster.nodes):
        cluster_input.omissions.append("the snapshot has no nodes")
    return cluster_input


def _list_cluster(access: Access) -> ClusterInput:
    cluster_input, transport = ClusterInput(), PooledTransport(access)
    pods = Reading("pods", PODS_PATH, SchedulingPod, lambda pod: _create_record(cluster_input.cluster, pod))
    try:
        _ingest_all(cluster_input, list_all(transport, kept.NAMESPACE_CODEC, access.server).items)
        _ingest_all(cluster_input, list_all(transport, kept.NODE_CODEC, access.server).items)
        volumes = [_list_if_allowed(cluster_input, transport, codec, access.server) for codec in kept.VOLUME_CODECS]
        if None not in volumes:
            cluster_input.cluster.storage = StorageIndex()
            _ingest_all(cluster_input, chain.from_iterable(filter(None, volumes)))
        for codec in kept.SCHEDULING_CODECS:
            _ingest_all(cluster_input, _list_if_allowed(cluster_input, transport, codec, access.server) or ())
        for record in list_all(transport, pods, access.server).items:
            _add_pod(cluster_input, record)
    except QuantityError as error:
        raise ClusterInputError(f"{access.server} has stored a quantity that is none: {error}") from error
    finally:
        transport.close()
    return cluster_input


def _list_if_allowed(
    cluster_input: ClusterInput, transport: PooledTransport, codec: Reading[SchedulingObject, SnapshotItem], server: str
) -> Sequence[SnapshotItem] | None:
    """What is listed, nothing where there is no such resource, None where we may not."""
    try:
        return list_all(transport, codec, server).items
    except UnknownResourceError:
        return ()
    except ListError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        cluster_input.omissions.append(f"{codec.name} may not be listed: {error.cause}")
        return None


def _ingest_all(cluster_input: ClusterInput, items: Iterable[SnapshotItem]) -> None:
    for item in items:
        ingest(cluster_input.cluster, item.kind, item.content)


def _create_record(cluster: Cluster, pod: SchedulingPod) -> _PodRecord:
    """A stored pod.

    Raises:
        QuantityError: a quantity that it asks for is none.
        ValueError: it lacks what every stored pod has.
    """
    meta = pod.metadata or ObjectMeta()
    if not meta.uid or not meta.name or not meta.namespace:
        raise ValueError("a pod without uid, namespace or name")
    is_pending = not has_ended(pod) and not (pod.spec and pod.spec.node_name) and meta.deletion_timestamp is None
    pod_info, pending = create_pod_info(pod, cluster.groups), pod if is_pending else None
    return _PodRecord(meta.uid, meta.namespace, meta.name, revision_of(meta.resource_version or "1"), pod_info, pending)


def _fill_identity(pod: SchedulingPod) -> SchedulingPod:
    """A pod of a snapshot, which may be written by hand, with what the API server would have given it."""
    meta = pod.metadata or ObjectMeta()
    namespace = meta.namespace or "default"
    metadata = msgspec.structs.replace(meta, namespace=namespace, uid=meta.uid or f"{namespace}/{meta.name}")
    return msgspec.structs.replace(pod if meta.uid else merge_label_keys(pod), metadata=metadata)


def _add_pod(cluster_input: ClusterInput, record: _PodRecord) -> None:
    if record.pod_info is not None:
        cluster_input.cluster.put_pod(record.pod_info)
    if record.pending is not None:
        cluster_input.pending_pods[record.namespace, record.name] = record.pending
