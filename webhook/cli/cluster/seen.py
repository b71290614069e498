"""A cluster as it was at one time."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from webhook.admission.capping import CapIndex, ActiveCap
from webhook.cli.cluster.ledgers import LEDGERS, PAGE, Ledgers, gathered
from webhook.cli.cluster.listing import ListingError, UnservedError, listed
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
_NONE = Membership(frozenset(), "", 0, 0, 0)


class Views:
    """Pods and namespaces as the gate sees them, empty until they are told what there is.

    `born` says when pods were created, in seconds since 1970, as far as they were digested here.
    """

    def __init__(self) -> None:
        self.pods = PodView()
        self.namespaces = NamespaceView()
        self.sight = UsageLister(self.pods, self.namespaces, time.monotonic, lambda: None)
        self.born: dict[str, float] = {}
        self._shapes = Shapes()

    def digest(self, pod: Pod) -> PodRow:
        """The row of a stored pod.

        Raises:
            ValueError: it lacks what every stored pod has.
        """
        row = digest(pod, self._shapes)
        created = pod.metadata.creation_timestamp if pod.metadata else None
        if created:
            self.born[row.uid] = datetime.fromisoformat(created).replace(tzinfo=UTC).timestamp()
        return row


@dataclass
class Seen:
    """Pods and namespaces, which have been listed, and CapLedgers. It is asked while the views stay as they are.

    `now` is when it was read, in seconds since 1970, unless that is not known.
    """

    views: Views
    ledgers: Ledgers
    now: float | None = None

    @property
    def pods(self) -> PodView:
        """The pods."""
        return self.views.pods

    def keys(self, counted: ActiveCap) -> list[LedgerKey]:
        """The ledgers that a cap has here: one, or one for each of its namespaces."""
        if counted.definition.shared:
            return [LedgerKey(counted.key, "")]
        return [
            LedgerKey(counted.key, name) for name in sorted(self.members(counted, LedgerKey(counted.key, "")).names)
        ]

    def members(self, counted: ActiveCap, key: LedgerKey) -> Membership:
        """The namespaces that draw on a ledger, as the gate finds them."""
        return self.views.sight.find_membership(counted, key) or _NONE

    def terminating(self, namespaces: Iterable[str]) -> list[str]:
        """The UIDs of pods of these namespaces that are being deleted and have not ended."""
        return [uid for name in namespaces for uid in self._terminating.get(name, ())]

    def strangers(self, caps: CapIndex) -> list[LedgerKey]:
        """The ledgers of caps that are not among these."""
        known = {counted.key for counted in caps.list_caps()}
        return sorted(
            (key for key in self.ledgers.rows if key.cap not in known), key=lambda key: (key.cap, key.namespace)
        )

    def bereft(self, caps: CapIndex) -> list[str]:
        """The namespaces that are gone, of which a ledger of these caps is left."""
        known = {counted.key for counted in caps.list_caps()}
        named = {key.namespace for key in self.ledgers.rows if key.namespace and key.cap in known}
        return sorted(name for name in named if self.views.namespaces.row(name) is None)

    @cached_property
    def _terminating(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for row in self.views.namespaces.rows():
            for place in self.pods.within(row.name):
                if _is_going(place):
                    found[row.name].append(place.uid)
        return found


def live(access: Access) -> Seen:
    """What is there now. Ledgers are read first, so that pods are no older than what a ledger was counted from.

    Raises:
        ListingError: pods or namespaces cannot be listed.
    """
    transport = PooledTransport(access)
    try:
        views, ledgers = Views(), ledgers_of(transport, access.server)
        views.namespaces.apply(listed(transport, NAMESPACES, access.server))
        views.pods.apply(listed(transport, Reading("pods", PODS_PATH, Pod, views.digest), access.server))
        return Seen(views, ledgers, time.time())
    finally:
        transport.close()


def ledgers_of(transport: Transport, where: str) -> Ledgers:
    """The CapLedgers of a cluster, or why there are none to be had.

    Raises:
        ListingError: the API server fails in another way than by refusing.
    """
    try:
        return gathered(listed(transport, LEDGERS, where, PAGE).items)
    except UnservedError:
        return _closed("the cluster has no CapLedgers: the gate keeps its ledgers in memory, or there is none")
    except ListingError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        return _closed(f"CapLedgers may not be read: {error.cause}")


def _closed(why: str) -> Ledgers:
    return Ledgers(absent=why, closed=why)


def _is_going(place: Place) -> bool:
    return place.is_terminating and not place.has_ended
