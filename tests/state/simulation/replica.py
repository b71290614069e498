"""A replica: its clock, the state of its watches, and its memory of each ledger."""

from collections.abc import Collection

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.state.ledger.expire import LiveRead, ReservationAges
from tallygate.webhook.state.ledger.recount import UsageSnapshot
from tests.state.simulation.ground_truth import GroundTruth, Key, Labels, Pod, amounts, hash_members, is_under
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import B

_DAY = 86_400


class Replica:
    """One process. A crash replaces it by a new one, which remembers nothing and lists everything again."""

    def __init__(self, number: int, truth: GroundTruth, rules: Rules) -> None:
        self.number = number
        self._truth = truth
        self._rules = rules
        self.is_frozen = False
        self.incarnation = 0
        self.policy = 0
        self.pods: dict[str, Pod] = {}
        self.deleted: set[str] = set()
        self.pods_revision = 0
        self.labels_revision = 0
        self.labels: Labels = ()
        self.listed_at = 0.0
        self.loaded: dict[int, int] = {}
        """For each active cap, the revision of the cluster at which this replica activated it."""
        self._position = 0
        self._label_position = 0
        self._ages: dict[Key, ReservationAges] = {}
        self.live_reads: dict[Key, list[LiveRead]] = {}
        self.start(0)

    def clock(self) -> float:
        """Return the time of its own monotonic clock, which began at another time than those of other processes."""
        return float(self._truth.now + (self.number * 7 + self.incarnation * 3 + 1) * _DAY)

    def start(self, missing_events: int) -> None:
        """Start the process again, with lists from a cache that lacks the last events."""
        self.is_frozen = False
        self.incarnation += 1
        self._ages, self.live_reads = {}, {}
        self.loaded = dict.fromkeys(self.loaded, self._truth.revision)
        self._list(max(len(self._truth.log) - missing_events, 0))
        self._label_position = len(self._truth.label_log)
        self.labels_revision, self.labels = self._truth.label_log[-1]
        self.listed_at = -1.0  # the list of a cache does not prove its age

    def load(self, policy: int, caps: Collection[int]) -> None:
        """Load a policy; a new cap is active since the current revision of the cluster."""
        self.policy = policy
        self.loaded = {cap: self.loaded.get(cap, self._truth.revision) for cap in caps}

    def relist(self) -> None:
        """List pods by a quorum read, as after a 410: the watch starts here and knows no deletion before."""
        self.listed_at = self.clock()
        before = self.pods
        self._list(len(self._truth.log))
        self.pods = dict(self._rules.relist(before, self.pods))
        self.pods_revision = self._truth.revision

    def _list(self, position: int) -> None:
        log = self._truth.log
        self._position = position
        self.deleted = set()
        if position == len(log):
            self.pods = dict(self._truth.pods)
            self.pods_revision = log[-1][0] if log else 1
            return
        self.pods, self.pods_revision = {}, log[position - 1][0] if position else 1
        for _, uid, pod in log[:position]:
            self._apply(uid, pod)

    def _apply(self, uid: str, pod: Pod | None) -> None:
        if pod is None:
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod

    def watch(self, events: int) -> bool:
        """Receive the next events of pods, or a bookmark if there are none; return whether the revision is newer."""
        log = self._truth.log
        if self._position == len(log):
            before = self.pods_revision
            if self._truth.scenario.bookmarks:
                self.pods_revision = self._truth.revision
            return before != self.pods_revision
        for revision, uid, pod in log[self._position : self._position + events]:
            self._apply(uid, pod)
            if pod is None:
                self.deleted.add(uid)
            self.pods_revision = revision
            self._position += 1
        return True

    def watch_namespaces(self, events: int) -> bool:
        """Receive the next changes of labels; return whether there were any."""
        log = self._truth.label_log
        before = self._label_position
        self._label_position = min(before + events, len(log))
        self.labels_revision, self.labels = log[self._label_position - 1]
        return before != self._label_position

    def catch_up(self) -> None:
        """Receive every event."""
        self.watch(len(self._truth.log))
        self.watch(1)
        self.watch_namespaces(len(self._truth.label_log))

    def take_snapshot(self, key: Key, resources: frozenset[str]) -> UsageSnapshot:
        """Return the used amounts under a cap, as its watches show them."""
        scenario, labels = self._truth.scenario, self.labels
        used_by_pod = {
            uid: amounts(0 if pod.ended else pod.size, resources)
            for uid, pod in self.pods.items()
            if is_under(scenario, labels, key, pod)
        }
        return UsageSnapshot(
            self.pods_revision,
            self.labels_revision,
            hash_members(scenario, labels, key),
            resources,
            used_by_pod,
            sum(used_by_pod.values(), Amounts()),
            frozenset(self._rules.select_deleted(self.deleted, self.pods.keys() - used_by_pod.keys())),
        )

    def find_ages(self, key: Key) -> ReservationAges:
        """Return the remembered ages of a ledger's reservations."""
        return self._ages.get(key) or self._rules.ages(float(B))

    def observe(self, key: Key) -> ReservationAges:
        """Read a ledger and remember the ages of its reservations."""
        ledger = self._truth.ledgers[key].ledger
        ages = self.find_ages(key)
        if ledger is not None:
            ages = self._ages[key] = ages.observe(ledger, self.clock())
        return ages

    def confirm_write(self, key: Key, started_at: float) -> None:
        """Remember that a write of its own has been committed."""
        self._ages[key] = self.find_ages(key).confirm_write(started_at, self.clock())

    def read_pods(self, key: Key) -> bool:
        """Read, by quorum, the pods of the reservations that are old enough; return whether there are any."""
        ledger = self._truth.ledgers[key].ledger
        if ledger is None:
            return False
        pods = self._truth.pods
        live_reads = [
            LiveRead(uid, self.clock(), pods[uid].revision if uid in pods else None)
            for uid in self.find_ages(key).list_confirmed()
            if uid in ledger.reservations
        ]
        self.live_reads[key] = live_reads
        return bool(live_reads)
