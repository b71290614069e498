"""What there may be very much of, read page by page: namespaces, quotas, caps' bounds, and who uses opaque names."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from webhook.accounting.names import OPAQUE_PREFIX
from webhook.admission.capping import CapIndex, get_cap_name
from webhook.cli.cluster.listing import ListingError, UnservedError, listed
from webhook.cli.cluster.seen import PODS_PATH, ledgers_of
from webhook.cli.doctoring.facts import Bound, Unseen, User
from webhook.cli.doctoring.records import Space
from webhook.objects.core import Namespace, Node, ResourceQuota
from webhook.objects.meta import ObjectMeta, StringMap
from webhook.policy.model import PodFilter
from webhook.state.watch.failure import WatchError
from webhook.state.watch.pool import PooledTransport
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import Reading, revision_of

T = TypeVar("T")
R = TypeVar("R")


class _Row(NamedTuple):
    """An object, as a list keeps it: `names` are the opaque ones that it uses."""

    uid: str
    namespace: str
    name: str
    revision: int
    names: tuple[str, ...] = ()
    labels: StringMap = {}  # noqa: RUF012  never changed
    quota: ResourceQuota | None = None


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, msgspec.Raw] | None = None
    limits: dict[str, msgspec.Raw] | None = None


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _PodSpec(msgspec.Struct, rename="camel", frozen=True):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    """Of a pod the names of what it asks for."""

    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class Lists:
    """Reads them. What cannot be listed is `Unseen`, in the API server's words."""

    def __init__(self, transport: PooledTransport, server: str) -> None:
        self._transport: Transport = transport
        self._server = server

    def spaces(self) -> tuple[Space, ...] | Unseen:
        """Every namespace."""
        reading = Reading("namespaces", "/api/v1/namespaces", Namespace, _space)
        return self._listed(reading, lambda rows: tuple(Space(each.name, each.labels) for each in rows))

    def quotas(self) -> tuple[ResourceQuota, ...] | Unseen:
        """Every ResourceQuota."""
        reading = Reading("resourcequotas", "/api/v1/resourcequotas", ResourceQuota, _quota)
        return self._listed(reading, lambda rows: tuple(each.quota for each in rows if each.quota))

    def users(self) -> tuple[User, ...] | Unseen:
        """Nodes that advertise opaque names, and pods that ask for them and have not ended."""
        nodes = self._listed(Reading("nodes", "/api/v1/nodes", Node, _node), _users("Node"))
        if isinstance(nodes, Unseen):
            return nodes
        pods = self._listed(Reading("pods", PODS_PATH, _Pod, _pod), _users("Pod"))
        return pods if isinstance(pods, Unseen) else (*nodes, *pods)

    def bounds(self, caps: CapIndex | None, spaces: tuple[Space, ...] | Unseen) -> tuple[Bound, ...] | Unseen:
        """What caps allow namespaces: by these policies, else by the CapLedgers. Shared caps are left out."""
        if caps is None:
            return self._by_ledgers()
        if isinstance(spaces, Unseen):
            return spaces
        return tuple(_by_policies(caps, spaces))

    def _by_ledgers(self) -> tuple[Bound, ...] | Unseen:
        try:
            found = ledgers_of(self._transport, self._server)
        except (ListingError, WatchError) as error:
            return Unseen(str(error))
        if found.closed:
            return Unseen(f"{found.closed}; name the policy files by --policies")
        return tuple(
            Bound(get_cap_name(key.cap), key.namespace, row.ledger.hard, whole=False)
            for key, row in found.rows.items()
            if row.ledger and key.namespace
        )

    def _listed(self, reading: Reading[T, _Row], keep: Callable[[list[_Row]], tuple[R, ...]]) -> tuple[R, ...] | Unseen:
        try:
            return keep(list(listed(self._transport, reading, self._server).items))
        except UnservedError:
            return ()
        except (ListingError, WatchError) as error:
            return Unseen(str(error))


def _by_policies(caps: CapIndex, spaces: tuple[Space, ...]) -> Iterator[Bound]:
    for space in spaces:
        for each in caps.find_matching(space.name, space.labels).caps:
            if not each.definition.shared:
                yield Bound(each.definition.name, space.name, each.hard, whole=each.definition.pods == PodFilter())


def _users(kind: str) -> Callable[[list[_Row]], tuple[User, ...]]:
    return lambda rows: tuple(User(kind, each.namespace, each.name, name) for each in rows for name in each.names)


def _row(meta: ObjectMeta | None, names: set[str], quota: ResourceQuota | None = None) -> _Row:
    """The row of a stored object.

    Raises:
        ValueError: it is none.
    """
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("an object without uid or name")
    opaque = tuple(sorted(name for name in names if name.startswith(OPAQUE_PREFIX)))
    revision = revision_of(meta.resource_version or "")
    return _Row(meta.uid, meta.namespace or "", meta.name, revision, opaque, meta.labels or {}, quota)


def _space(namespace: Namespace) -> _Row:
    return _row(namespace.metadata, set())


def _quota(quota: ResourceQuota) -> _Row:
    return _row(quota.metadata, set(), quota)


def _node(node: Node) -> _Row:
    status = node.status
    return _row(node.metadata, {*((status.capacity if status else None) or {})})


def _pod(pod: _Pod) -> _Row:
    if pod.status.phase in {"Succeeded", "Failed"}:
        return _row(pod.metadata, set())
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return _row(pod.metadata, {name for each in containers for name in (each.resources.requests or {})})
