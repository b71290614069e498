"""What must hold after every step.

Pod by pod: what a ledger charges a UID is never less than what it holds, or may yet come to hold by an attempt that was
promised room. In all: where policies and labels stay, what is held or may come to be never exceeds a cap.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.state.simulation.cluster import Cluster, Key, size_under
from tests.state.simulation.handling import Phase, Request, State
from tests.state.simulation.scenario import B, X, Y
from tests.state.simulation.violation import ViolationError
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Operation

_UNITS = {X: 1, Y: 2}


class Invariants:
    """Looks at what a step may have touched, and no further.

    What came under a cap without having been charged to it is `foreign`: brought by a label, or stored under another
    policy, so that the gate has not admitted under this cap. It is excused until a recount that must have seen it.
    """

    def __init__(self, cluster: Cluster, requests: Mapping[str, list[Request]]) -> None:
        self._cluster = cluster
        self._requests = requests
        self._foreign: dict[Key, dict[tuple[str, str], tuple[int, int]]] = defaultdict(dict)

    def may_hold(self, key: Key, uid: str, name: str) -> int:
        """What a pod holds under a cap, or may come to hold by an attempt that was promised room for this name."""
        cluster = self._cluster
        pod = cluster.pods.get(uid)
        most = size_under(cluster.scenario, cluster.labels, key, pod)
        for request in self._requests.get(uid, ()):
            under = key.cap in cluster.labels[request.namespace]
            promised = name in request.names and key in _promised(request)
            if under and promised and self._may_be_stored(request):
                most = max(most, request.held(cluster, key)[1])
        return most * _UNITS[name]

    def _may_be_stored(self, request: Request) -> bool:
        pod = self._cluster.pods.get(request.uid)
        if request.state is not State.SENT and self._cluster.now - request.arrived >= B:
            return False
        if request.kind is Operation.CREATE:
            return pod is None
        return pod is not None and pod.revision == request.seen

    def pod(self, key: Key, uid: str) -> None:
        """Look at one pod under one cap."""
        book = self._cluster.books[key]
        if book.ledger is None or book.ledger.initializer:
            return
        row, counted = book.ledger.reservations.get(uid), book.counted.get(uid, Amounts())
        promised = row.compute_reserved() if row else Amounts()
        for name in book.ledger.resources:
            claim = self.may_hold(key, uid, name)
            charged = counted.get(name, 0) + promised.get(name, 0)
            if charged < claim and (uid, name) not in self._foreign[key]:
                raise ViolationError(f"undercount: {key} charges {uid} {charged} {name}; it holds or may hold {claim}")

    def ledger(self, key: Key, *, counts: bool) -> None:
        """Look at every pod of a ledger that has just been written, `counts` says whether anew."""
        book, cluster = self._cluster.books[key], self._cluster
        if book.ledger is None:
            return
        self._pardon(key)
        uids = {*cluster.pods, *self._requests}
        for uid in uids:
            self.pod(key, uid)
        if not book.ledger.initializer:
            self.total(key, uids)
        if counts:
            self.tight(key)

    def tight(self, key: Key) -> None:
        """Look that a recount has left nobody charged for more than is held or was promised."""
        book = self._cluster.books[key]
        for uid, row in book.ledger.reservations.items() if book.ledger else ():
            counted, promised = book.counted.get(uid, Amounts()), row.compute_reserved()
            for name in row.requested:
                charged = counted.get(name, 0) + promised.get(name, 0)
                if charged > max(counted.get(name, 0), row.requested[name]):
                    raise ViolationError(f"overcharge: {key} charges {uid} {charged} {name} right after a recount")

    def total(self, key: Key, uids: Iterable[str]) -> None:
        """Look at a cap in all."""
        hard = self._cluster.cap(key).hard
        if self._cluster.scenario.fixed:
            most = sum(self.may_hold(key, uid, X) for uid in uids)
            if most > hard:
                raise ViolationError(f"over: {key} allows {hard}; {most} are held or promised")

    def store(self, uid: str, request: Request) -> None:
        """Look at a pod that has just been stored, and note the caps that it was not charged to."""
        cluster = self._cluster
        pod = cluster.pods[uid]
        for key in cluster.books:
            if size_under(cluster.scenario, cluster.labels, key, pod):
                for name in (X, Y):
                    if key not in request.judged or name not in request.names or self._moved(key, request):
                        self.excuse(key, uid, name)
            self.pod(key, uid)
            held = sum(size_under(cluster.scenario, cluster.labels, key, each) for each in cluster.pods.values())
            if cluster.scenario.fixed and held > cluster.cap(key).hard:
                raise ViolationError(f"over: {key} allows {cluster.cap(key).hard}; {held} are held")

    def _moved(self, key: Key, request: Request) -> bool:
        """Whether the namespace has come into the cap by a label since this request was judged."""
        return self._cluster.entered.get((request.namespace, key.cap), 0) > request.label_revision

    def excuse(self, key: Key, uid: str, name: str) -> None:
        """Hold nobody to what a ledger says of this pod until it must have been counted."""
        cluster = self._cluster
        self._foreign[key][uid, name] = cluster.pods[uid].revision, cluster.label_log[-1][0]

    def _pardon(self, key: Key) -> None:
        ledger = self._cluster.books[key].ledger
        foreign = self._foreign[key]
        if ledger is None or not foreign:
            return
        for (uid, name), (revision, labels) in list(foreign.items()):
            if ledger.pods_revision >= revision and ledger.namespaces_revision >= labels and name in ledger.resources:
                del foreign[uid, name]


def _promised(request: Request) -> Iterable[Key]:
    """The ledgers that have promised room to what the API server may store of this request."""
    if request.state in {State.ALLOWED, State.SENT}:
        return request.promised
    handler = request.handler
    if request.state is State.CALLING and handler is not None and handler.phase not in {Phase.BACK, Phase.OVER}:
        return handler.confirmed
    return ()
