"""What there may be very much of, read page by page: namespaces, quotas, caps' bounds, and who uses opaque names."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from webhook.accounting.names import OPAQUE_PREFIX
from webhook.admission.cap_index import CapIndex, get_cap_name
from webhook.cli.cluster.listing import ListError, UnknownResourceError, list_all
from webhook.cli.cluster.seen import PODS_PATH, list_cap_ledgers
from webhook.cli.doctoring.facts import CapLimits, OpaqueNameUser, Unavailable
from webhook.cli.doctoring.records import LabelledNamespace
from webhook.objects.core import Namespace, Node, ResourceQuota
from webhook.objects.meta import ObjectMeta, StringMap
from webhook.policy.model import PodFilter
from webhook.state.watch.failure import WatchError
from webhook.state.watch.pool import PooledTransport
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import Reading, revision_of

T = TypeVar("T")
R = TypeVar("R")


class _ListedRecord(NamedTuple):
    """An object, as a list keeps it: `names` are the opaque ones that it uses."""

    uid: str
    namespace: str
    name: str
    revision: int
    opaque_names: tuple[str, ...] = ()
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


class PagedLists:
    """Reads them. What cannot be listed is `Unseen`, in the API server's words."""

    def __init__(self, transport: PooledTransport, server: str) -> None:
        self._transport: Transport = transport
        self._server = server

    def list_namespaces(self) -> tuple[LabelledNamespace, ...] | Unavailable:
        """Every namespace."""
        codec = Reading("namespaces", "/api/v1/namespaces", Namespace, _convert_namespace)
        return self._list(
            codec, lambda records: tuple(LabelledNamespace(record.name, record.labels) for record in records)
        )

    def list_quotas(self) -> tuple[ResourceQuota, ...] | Unavailable:
        """Every ResourceQuota."""
        codec = Reading("resourcequotas", "/api/v1/resourcequotas", ResourceQuota, _convert_quota)
        return self._list(codec, lambda records: tuple(record.quota for record in records if record.quota))

    def list_opaque_name_users(self) -> tuple[OpaqueNameUser, ...] | Unavailable:
        """Nodes that advertise opaque names, and pods that ask for them and have not ended."""
        nodes = self._list(Reading("nodes", "/api/v1/nodes", Node, _convert_node), _create_user_converter("Node"))
        if isinstance(nodes, Unavailable):
            return nodes
        pods = self._list(Reading("pods", PODS_PATH, _Pod, _convert_pod), _create_user_converter("Pod"))
        return pods if isinstance(pods, Unavailable) else (*nodes, *pods)

    def list_cap_limits(
        self, caps: CapIndex | None, namespaces: tuple[LabelledNamespace, ...] | Unavailable
    ) -> tuple[CapLimits, ...] | Unavailable:
        """What caps allow namespaces: by these policies, else by the CapLedgers. Shared caps are left out."""
        if caps is None:
            return self._list_limits_by_ledgers()
        if isinstance(namespaces, Unavailable):
            return namespaces
        return tuple(_list_limits_by_policies(caps, namespaces))

    def _list_limits_by_ledgers(self) -> tuple[CapLimits, ...] | Unavailable:
        try:
            ledger_list = list_cap_ledgers(self._transport, self._server)
        except (ListError, WatchError) as error:
            return Unavailable(str(error))
        if ledger_list.unavailable_reason:
            return Unavailable(f"{ledger_list.unavailable_reason}; name the policy files by --policies")
        return tuple(
            CapLimits(get_cap_name(key.cap), key.namespace, ledger_record.ledger.hard, counts_all_pods=False)
            for key, ledger_record in ledger_list.records.items()
            if ledger_record.ledger and key.namespace
        )

    def _list(
        self, codec: Reading[T, _ListedRecord], convert: Callable[[list[_ListedRecord]], tuple[R, ...]]
    ) -> tuple[R, ...] | Unavailable:
        try:
            return convert(list(list_all(self._transport, codec, self._server).items))
        except UnknownResourceError:
            return ()
        except (ListError, WatchError) as error:
            return Unavailable(str(error))


def _list_limits_by_policies(caps: CapIndex, namespaces: tuple[LabelledNamespace, ...]) -> Iterator[CapLimits]:
    for namespace in namespaces:
        for active_cap in caps.find_matching(namespace.name, namespace.labels).caps:
            if not active_cap.definition.shared:
                yield CapLimits(
                    active_cap.definition.name,
                    namespace.name,
                    active_cap.hard,
                    counts_all_pods=active_cap.definition.pods == PodFilter(),
                )


def _create_user_converter(kind: str) -> Callable[[list[_ListedRecord]], tuple[OpaqueNameUser, ...]]:
    return lambda records: tuple(
        OpaqueNameUser(kind, record.namespace, record.name, name) for record in records for name in record.opaque_names
    )


def _create_record(
    meta: ObjectMeta | None, resource_names: set[str], quota: ResourceQuota | None = None
) -> _ListedRecord:
    """The row of a stored object.

    Raises:
        ValueError: it is none.
    """
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("an object without uid or name")
    opaque_names = tuple(sorted(name for name in resource_names if name.startswith(OPAQUE_PREFIX)))
    revision = revision_of(meta.resource_version or "")
    return _ListedRecord(meta.uid, meta.namespace or "", meta.name, revision, opaque_names, meta.labels or {}, quota)


def _convert_namespace(namespace: Namespace) -> _ListedRecord:
    return _create_record(namespace.metadata, set())


def _convert_quota(quota: ResourceQuota) -> _ListedRecord:
    return _create_record(quota.metadata, set(), quota)


def _convert_node(node: Node) -> _ListedRecord:
    status = node.status
    return _create_record(node.metadata, {*((status.capacity if status else None) or {})})


def _convert_pod(pod: _Pod) -> _ListedRecord:
    if pod.status.phase in {"Succeeded", "Failed"}:
        return _create_record(pod.metadata, set())
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return _create_record(
        pod.metadata, {name for container in containers for name in (container.resources.requests or {})}
    )
