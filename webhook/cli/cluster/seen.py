"""A cluster as it was at one time."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from webhook.admission.cap_index import ActiveCap, CapIndex
from webhook.cli.cluster.ledgers import LEDGER_PAGE_SIZE, LEDGER_RECORD_CODEC, CapLedgerList, create_ledger_list
from webhook.cli.cluster.listing import ListError, UnknownResourceError, list_all
from webhook.gate.usage_lister import Membership, UsageLister
from webhook.objects.core import Pod
from webhook.state.ports import LedgerKey
from webhook.state.watch.columns import Place
from webhook.state.watch.failure import Reason
from webhook.state.watch.namespaces import NAMESPACES, NamespaceView
from webhook.state.watch.pods import PodRow, digest
from webhook.state.watch.pool import Access, PooledTransport
from webhook.state.watch.ports import Transport
from webhook.state.watch.shapes import Shapes
from webhook.state.watch.view import PodView
from webhook.state.watch.wire import Reading

PODS_PATH = "/api/v1/pods"
_NO_MEMBERS = Membership(frozenset(), "", 0, 0, 0)


class ClusterStores:
    """Pods and namespaces as the gate sees them, empty until they are told what there is.

    `born` says when pods were created, in seconds since 1970, as far as they were digested here.
    """

    def __init__(self) -> None:
        self.pods = PodView()
        self.namespaces = NamespaceView()
        self.usage_lister = UsageLister(self.pods, self.namespaces, time.monotonic, lambda: None)
        self.creation_times: dict[str, float] = {}
        self._interner = Shapes()

    def create_pod_record(self, pod: Pod) -> PodRow:
        """The row of a stored pod.

        Raises:
            ValueError: it lacks what every stored pod has.
        """
        record = digest(pod, self._interner)
        created = pod.metadata.creation_timestamp if pod.metadata else None
        if created:
            self.creation_times[record.uid] = datetime.fromisoformat(created).replace(tzinfo=UTC).timestamp()
        return record


@dataclass
class ObservedCluster:
    """Pods and namespaces, which have been listed, and CapLedgers. It is asked while the views stay as they are.

    `now` is when it was read, in seconds since 1970, unless that is not known.
    """

    stores: ClusterStores
    ledgers: CapLedgerList
    read_at: float | None = None

    @property
    def pods(self) -> PodView:
        """The pods."""
        return self.stores.pods

    def list_keys(self, cap: ActiveCap) -> list[LedgerKey]:
        """The ledgers that a cap has here: one, or one for each of its namespaces."""
        if cap.definition.shared:
            return [LedgerKey(cap.key, "")]
        return [LedgerKey(cap.key, name) for name in sorted(self.get_membership(cap, LedgerKey(cap.key, "")).names)]

    def get_membership(self, cap: ActiveCap, key: LedgerKey) -> Membership:
        """The namespaces that draw on a ledger, as the gate finds them."""
        return self.stores.usage_lister.find_membership(cap, key) or _NO_MEMBERS

    def list_terminating(self, namespaces: Iterable[str]) -> list[str]:
        """The UIDs of pods of these namespaces that are being deleted and have not ended."""
        return [uid for name in namespaces for uid in self._terminating_by_namespace.get(name, ())]

    def list_unknown_ledgers(self, caps: CapIndex) -> list[LedgerKey]:
        """The ledgers of caps that are not among these."""
        cap_keys = {counted.key for counted in caps.list_caps()}
        return sorted(
            (key for key in self.ledgers.records if key.cap not in cap_keys), key=lambda key: (key.cap, key.namespace)
        )

    def list_deleted_namespaces(self, caps: CapIndex) -> list[str]:
        """The namespaces that are gone, of which a ledger of these caps is left."""
        cap_keys = {counted.key for counted in caps.list_caps()}
        namespaces = {key.namespace for key in self.ledgers.records if key.namespace and key.cap in cap_keys}
        return sorted(name for name in namespaces if self.stores.namespaces.row(name) is None)

    @cached_property
    def _terminating_by_namespace(self) -> Mapping[str, list[str]]:
        uids_by_namespace: dict[str, list[str]] = defaultdict(list)
        for namespace in self.stores.namespaces.rows():
            for pod in self.pods.within(namespace.name):
                if _is_terminating(pod):
                    uids_by_namespace[namespace.name].append(pod.uid)
        return uids_by_namespace


def observe_api_server(access: Access) -> ObservedCluster:
    """What is there now. Ledgers are read first, so that pods are no older than what a ledger was counted from.

    Raises:
        ListingError: pods or namespaces cannot be listed.
    """
    transport = PooledTransport(access)
    try:
        stores, ledgers = ClusterStores(), list_cap_ledgers(transport, access.server)
        stores.namespaces.apply(list_all(transport, NAMESPACES, access.server))
        stores.pods.apply(list_all(transport, Reading("pods", PODS_PATH, Pod, stores.create_pod_record), access.server))
        return ObservedCluster(stores, ledgers, time.time())
    finally:
        transport.close()


def list_cap_ledgers(transport: Transport, server: str) -> CapLedgerList:
    """The CapLedgers of a cluster, or why there are none to be had.

    Raises:
        ListingError: the API server fails in another way than by refusing.
    """
    try:
        return create_ledger_list(list_all(transport, LEDGER_RECORD_CODEC, server, LEDGER_PAGE_SIZE).items)
    except UnknownResourceError:
        return _create_unavailable(
            "the cluster has no CapLedgers: the gate keeps its ledgers in memory, or there is none"
        )
    except ListError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        return _create_unavailable(f"CapLedgers may not be read: {error.cause}")


def _create_unavailable(reason: str) -> CapLedgerList:
    return CapLedgerList(missing_reason=reason, unavailable_reason=reason)


def _is_terminating(pod: Place) -> bool:
    return pod.is_terminating and not pod.has_ended
