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
from webhook.cli.checking.snapshot import SnapshotError, walk
from webhook.cli.cluster import kept
from webhook.cli.cluster.kept import Item, Other
from webhook.cli.cluster.listing import ListingError, UnservedError, listed
from webhook.cli.cluster.seen import PODS_PATH
from webhook.cli.cluster.source import Source
from webhook.errors import TallygateError
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingPod
from webhook.state.kubernetes import naming
from webhook.state.watch.failure import Reason
from webhook.state.watch.pool import Access, PooledTransport
from webhook.state.watch.wire import Reading, revision_of

_POD = msgspec.json.Decoder(SchedulingPod)


class WorldError(TallygateError):
    """What was read is not as a cluster stores it."""


@dataclass(slots=True)
class World:
    """A cluster, and its pods without a node by namespace and name; `left_out` says what could not be read."""

    cluster: Cluster = field(default_factory=Cluster)
    pending: dict[tuple[str, str], SchedulingPod] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class _PodRow(NamedTuple):
    """One pod of a list: as it stands on its node, or as it waits for one."""

    uid: str
    namespace: str
    name: str
    revision: int
    on_node: PodInfo | None
    pending: SchedulingPod | None


def read(source: Source) -> World:
    """What is there now, or was when the snapshot was taken.

    Raises:
        ConnectError: nothing says where the API server is.
        ListingError: it does not say what is there.
        SnapshotError: the snapshot cannot be read.
        WorldError: an object is not as a cluster stores it.
    """
    return _stored(source.snapshot) if source.snapshot else _live(source.connection())


def _stored(path: Path) -> World:
    world = World()

    def add(kind: str, item: msgspec.Raw) -> bool:
        if kind == "Pod":
            _add_pod(world, _row(world.cluster, _identified(_POD.decode(item))))
            return True
        if kind == kept.VOLUMES_KIND:
            world.cluster.storage = world.cluster.storage or StorageIndex()
            return True
        return ingest(world.cluster, kind, item) or kind == naming.KIND

    try:
        walk(path, add)
    except QuantityError as error:
        raise SnapshotError(f"{path}: it has a quantity that no API server would have stored: {error}") from error
    if not len(world.cluster.nodes):
        world.left_out.append("the snapshot has no nodes")
    return world


def _live(access: Access) -> World:
    world, transport = World(), PooledTransport(access)
    pods = Reading("pods", PODS_PATH, SchedulingPod, lambda pod: _row(world.cluster, pod))
    try:
        _take_all(world, listed(transport, kept.NAMESPACES, access.server).items)
        _take_all(world, listed(transport, kept.NODES, access.server).items)
        volumes = [_if_allowed(world, transport, reading, access.server) for reading in kept.VOLUMES]
        if None not in volumes:
            world.cluster.storage = StorageIndex()
            _take_all(world, chain.from_iterable(filter(None, volumes)))
        for ranks in kept.RANKS:
            _take_all(world, _if_allowed(world, transport, ranks, access.server) or ())
        for row in listed(transport, pods, access.server).items:
            _add_pod(world, row)
    except QuantityError as error:
        raise WorldError(f"{access.server} has stored a quantity that is none: {error}") from error
    finally:
        transport.close()
    return world


def _if_allowed(
    world: World, transport: PooledTransport, reading: Reading[Other, Item], where: str
) -> Sequence[Item] | None:
    """What is listed, nothing where there is no such resource, None where we may not."""
    try:
        return listed(transport, reading, where).items
    except UnservedError:
        return ()
    except ListingError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        world.left_out.append(f"{reading.name} may not be listed: {error.cause}")
        return None


def _take_all(world: World, items: Iterable[Item]) -> None:
    for item in items:
        ingest(world.cluster, item.kind, item.content)


def _row(cluster: Cluster, pod: SchedulingPod) -> _PodRow:
    """A stored pod.

    Raises:
        QuantityError: a quantity that it asks for is none.
        ValueError: it lacks what every stored pod has.
    """
    meta = pod.metadata or ObjectMeta()
    if not meta.uid or not meta.name or not meta.namespace:
        raise ValueError("a pod without uid, namespace or name")
    waits = not has_ended(pod) and not (pod.spec and pod.spec.node_name) and meta.deletion_timestamp is None
    on_node, pending = create_pod_info(pod, cluster.groups), pod if waits else None
    return _PodRow(meta.uid, meta.namespace, meta.name, revision_of(meta.resource_version or "1"), on_node, pending)


def _identified(pod: SchedulingPod) -> SchedulingPod:
    """A pod of a snapshot, which may be written by hand, with what the API server would have given it."""
    meta = pod.metadata or ObjectMeta()
    namespace = meta.namespace or "default"
    named = msgspec.structs.replace(meta, namespace=namespace, uid=meta.uid or f"{namespace}/{meta.name}")
    return msgspec.structs.replace(pod if meta.uid else merge_label_keys(pod), metadata=named)


def _add_pod(world: World, row: _PodRow) -> None:
    if row.on_node is not None:
        world.cluster.put_pod(row.on_node)
    if row.pending is not None:
        world.pending[row.namespace, row.name] = row.pending
