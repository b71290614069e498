"""A replica: its clock, what its watches show, and what it remembers of each ledger."""

from collections.abc import Collection

from tests.state.simulation.cluster import Cluster, Key, Labels, Pod, amounts, is_under, members
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import B
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.expire import LiveRead, ReservationAges
from webhook.state.ledger.recount import UsageSnapshot

_DAY = 86_400


class Replica:
    """One process. A crash makes it a new one in the same place: nothing is remembered, watches list again."""

    def __init__(self, number: int, cluster: Cluster, rules: Rules) -> None:
        self.number = number
        self._cluster = cluster
        self._rules = rules
        self.frozen = False
        self.incarnation = 0
        self.policy = 0
        self.pods: dict[str, Pod] = {}
        self.gone: set[str] = set()
        self.revision = 0
        self.label_revision = 0
        self.labels: Labels = ()
        self.listed = 0.0
        self.loaded: dict[int, int] = {}
        self._position = 0
        self._label_position = 0
        self._ages: dict[Key, ReservationAges] = {}
        self.readings: dict[Key, list[LiveRead]] = {}
        self.start(0)

    def clock(self) -> float:
        """Its own monotonic clock: every machine's began at another time, and another after each start."""
        return float(self._cluster.now + (self.number * 7 + self.incarnation * 3 + 1) * _DAY)

    def start(self, behind: int) -> None:
        """Begin anew, with lists that some cache served: `behind` events old."""
        self.frozen = False
        self.incarnation += 1
        self._ages, self.readings = {}, {}
        self.loaded = dict.fromkeys(self.loaded, self._cluster.revision)
        self._list(max(len(self._cluster.log) - behind, 0))
        self._label_position = len(self._cluster.label_log)
        self.label_revision, self.labels = self._cluster.label_log[-1]
        self.listed = -1.0  # a cache's list proves nothing of when it was made

    def load(self, number: int, caps: Collection[int]) -> None:
        """Read a policy; a cap that comes into force is known of since the revision that the cluster is at now."""
        self.policy = number
        self.loaded = {cap: self.loaded.get(cap, self._cluster.revision) for cap in caps}

    def relist(self) -> None:
        """List pods by quorum, as after a 410: the watch begins here, and knows of no deletion before."""
        self.listed = self.clock()
        before = self.pods
        self._list(len(self._cluster.log))
        self.pods = dict(self._rules.listed(before, self.pods))
        self.revision = self._cluster.revision

    def _list(self, position: int) -> None:
        log = self._cluster.log
        self._position = position
        self.gone = set()
        if position == len(log):
            self.pods = dict(self._cluster.pods)
            self.revision = log[-1][0] if log else 1
            return
        self.pods, self.revision = {}, log[position - 1][0] if position else 1
        for _, uid, pod in log[:position]:
            self._apply(uid, pod)

    def _apply(self, uid: str, pod: Pod | None) -> None:
        if pod is None:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod

    def watch(self, events: int) -> bool:
        """See some more events; a watch with nothing more to see is told how far it is."""
        log = self._cluster.log
        if self._position == len(log):
            before = self.revision
            if self._cluster.scenario.bookmarks:
                self.revision = self._cluster.revision
            return before != self.revision
        for revision, uid, pod in log[self._position : self._position + events]:
            self._apply(uid, pod)
            if pod is None:
                self.gone.add(uid)
            self.revision = revision
            self._position += 1
        return True

    def watch_labels(self, events: int) -> bool:
        """See some more changes of namespaces."""
        log = self._cluster.label_log
        before = self._label_position
        self._label_position = min(before + events, len(log))
        self.label_revision, self.labels = log[self._label_position - 1]
        return before != self._label_position

    def catch_up(self) -> None:
        """See everything."""
        self.watch(len(self._cluster.log))
        self.watch(1)
        self.watch_labels(len(self._cluster.label_log))

    def view(self, key: Key, names: frozenset[str]) -> UsageSnapshot:
        """What its watches show of the pods under one cap."""
        scenario, labels = self._cluster.scenario, self.labels
        counted = {
            uid: amounts(0 if pod.ended else pod.size, names)
            for uid, pod in self.pods.items()
            if is_under(scenario, labels, key, pod)
        }
        total = sum(counted.values(), Amounts())
        where = members(scenario, labels, key)
        gone = self._rules.gone(self.gone, self.pods.keys() - counted.keys())
        return UsageSnapshot(self.revision, self.label_revision, where, names, counted, total, frozenset(gone))

    def ages(self, key: Key) -> ReservationAges:
        """What it remembers of one ledger's rows."""
        return self._ages.get(key) or self._rules.ages(float(B))

    def observe(self, key: Key) -> ReservationAges:
        """Look at a ledger."""
        ledger = self._cluster.books[key].ledger
        ages = self.ages(key)
        if ledger is not None:
            ages = self._ages[key] = ages.observe(ledger, self.clock())
        return ages

    def committed(self, key: Key, begun: float) -> None:
        """Be told that a write of its own has committed."""
        self._ages[key] = self.ages(key).confirm_write(begun, self.clock())

    def read(self, key: Key) -> bool:
        """Read, by quorum, what became of the pods whose promises are old enough."""
        ledger = self._cluster.books[key].ledger
        if ledger is None:
            return False
        found = [
            LiveRead(uid, self.clock(), self._cluster.pods[uid].revision if uid in self._cluster.pods else None)
            for uid in self.ages(key).list_confirmed()
            if uid in ledger.reservations
        ]
        self.readings[key] = found
        return bool(found)
