"""What is audited: a cluster as it is now, or what a snapshot has of one."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.admission.workloads import REVIEW_TARGETS
from webhook.audit.audit import ListedObject, AuditScope, AuditInput, list_objects, sort_objects
from webhook.audit.kinds import GROUPS_BY_KIND, POD, create_list_path
from webhook.audit.nodes import DEVICE_CLASS, ingest_objects, list_nodes
from webhook.audit.pages import PageReader, WaitFunction
from webhook.cli.checking.snapshot import HOW, SnapshotError, walk
from webhook.cli.cluster.listing import listed as listed_whole
from webhook.cli.cluster.seen import Views
from webhook.cli.command import Misuse
from webhook.gate.scheduling_snapshot import FixedSnapshot, SnapshotProvider
from webhook.objects.core import Namespace, Pod
from webhook.state.watch import namespaces as namespaces_read
from webhook.state.watch.connect import Connection
from webhook.state.watch.events import Replaced
from webhook.state.watch.namespaces import NAMESPACES, NamespaceRow
from webhook.state.watch.pods import PodRow
from webhook.state.watch.pool import PooledTransport
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import Reading

PAGE = 500
"""Objects asked for at a time."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A world, the objects in it that are judged one by one, and what is to be said of both."""

    world: AuditInput
    objects: Iterable[ListedObject]
    remarks: tuple[str, ...] = ()


def live(access: Connection, scope: AuditScope, wait: WaitFunction, *, places: bool) -> Audited:
    """A cluster; `places` when the policies ask whether there are nodes for pods.

    Raises:
        Misuse: a namespace is meant that is not there.
        AuditError, ListingError: it cannot be listed.
    """
    transport = PooledTransport(access)
    views, pages = Views(), PageReader(transport, access.server, PAGE, wait)
    views.namespaces.apply(listed_whole(transport, NAMESPACES, access.server))
    for name in sorted(scope.included_namespaces or ()):
        if views.namespaces.row(name) is None:
            raise Misuse(f"there is no namespace {name} at {access.server}")
    views.pods.apply(_pods(transport, access.server, views, scope))
    remarks = (_NODES_NOT_ASKED,) if places and scope.included_namespaces is not None else ()
    placing = list_nodes(pages) if places and scope.included_namespaces is None else None
    return Audited(_world(views, placing), list_objects(pages, scope), remarks)


def _pods(transport: Transport, server: str, views: Views, scope: AuditScope) -> Replaced[PodRow]:
    """The pods, of which no more is kept than what they have in common."""
    rows: list[PodRow] = []
    revision = 1
    for name in sorted(scope.included_namespaces) if scope.included_namespaces is not None else [""]:
        found = listed_whole(transport, Reading("pods", create_list_path(POD, name), Pod, views.digest), server, PAGE)
        rows += found.items
        revision = max(revision, found.revision)
    return Replaced(rows, revision)


class _Taking:
    """Takes the objects of a snapshot as they come."""

    def __init__(self) -> None:
        self.views = Views()
        self.pods: list[PodRow] = []
        self.namespaces: list[NamespaceRow] = []
        self.others: list[tuple[str, msgspec.Raw]] = []

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Take one; ValueError for one that is not as a cluster stores it."""
        if kind == "Pod":
            self.pods.append(self.views.digest(_POD.decode(item)))
        elif kind == "Namespace":
            self.namespaces.append(namespaces_read.digest(_NAMESPACE.decode(item)))
        elif kind in GROUPS_BY_KIND or kind == DEVICE_CLASS:
            self.others.append((kind, item))
        else:
            return False
        return True

    def revision(self) -> int:
        """When it was so, as far as the objects themselves say."""
        return max([1, *(pod.revision for pod in self.pods), *(each.revision for each in self.namespaces)])


def stored(snapshot: Path, scope: AuditScope, *, places: bool) -> Audited:
    """What a snapshot has; `places` when the policies ask whether there are nodes for pods.

    Raises:
        Misuse: a namespace is meant that is not there.
        SnapshotError: it cannot be read, or has no namespaces.
    """
    taken = _Taking()
    walk(snapshot, taken)
    if not taken.namespaces:
        raise SnapshotError(f"{snapshot}: it holds no namespaces, and policies speak of namespaces; {HOW}")
    taken.views.namespaces.apply(Replaced(taken.namespaces, taken.revision()))
    taken.views.pods.apply(Replaced(taken.pods, taken.revision()))
    for name in sorted(scope.included_namespaces or ()):
        if taken.views.namespaces.row(name) is None:
            raise Misuse(f"there is no namespace {name} in {snapshot}")
    cluster = Cluster()
    for kind in ("Node", DEVICE_CLASS) if places else ():
        ingest_objects(cluster, kind, (item for other, item in taken.others if other == kind))
    there = {kind for kind, _ in taken.others}
    absent = sorted(kind for _, kind in REVIEW_TARGETS if kind not in there and kind != "Pod")
    remarks = [f"the snapshot has none of these, and nothing is said of them: {', '.join(absent)}"] if absent else []
    if places and (not len(cluster.nodes) or scope.included_namespaces is not None):
        remarks.append(_NODES_NOT_ASKED)
    placing = FixedSnapshot(cluster, has_pods=False) if len(cluster.nodes) and scope.included_namespaces is None else None
    objects = ((group, kind, item) for group, kind, item in sort_objects(taken.others) if _is_meant(item, kind, scope))
    return Audited(_world(taken.views, placing), objects, tuple(remarks))


def _is_meant(item: msgspec.Raw, kind: str, scope: AuditScope) -> bool:
    if scope.included_namespaces is None:
        return True
    metadata = _OBJECT.decode(item).metadata
    return kind != "Node" and metadata is not None and metadata.namespace in scope.included_namespaces


def _world(views: Views, placing: SnapshotProvider | None) -> AuditInput:
    return AuditInput(views.pods, views.namespaces, views.sight, placing)


_NODES_NOT_ASKED = "whether there are nodes for pods was not asked: that needs the nodes, and the whole cluster"
_POD, _NAMESPACE = msgspec.json.Decoder(Pod), msgspec.json.Decoder(Namespace)
_OBJECT = msgspec.json.Decoder(Namespace)
"""Of any object its metadata."""
