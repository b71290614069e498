"""A replica: its clock, the state of its watches, and its memory of each ledger."""

from collections.abc import Collection, Mapping

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.state.ledger.expire import LiveRead, ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tests.state.simulation.annotation_rules import Annotations
from tests.state.simulation.class_rules import list_sources
from tests.state.simulation.ground_truth import GroundTruth, Key, Labels, amounts, hash_members, is_under
from tests.state.simulation.policies import Policy
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import SKEW, UNITS, B, Cap
from tests.state.simulation.stored_objects import Claim, Pod, Template

_DAY = 86_400


class Replica:
    """One process. A crash replaces it by a new one, which remembers nothing and lists everything again."""

    def __init__(self, number: int, truth: GroundTruth, rules: Rules) -> None:
        self.number = number
        self._truth = truth
        self.rules = rules
        self.is_frozen = False
        self.incarnation = 0
        self.policy = 0
        self.skew = number * SKEW
        self._loaded_at = 0
        self.pods: dict[str, Pod] = {}
        self.deleted: set[str] = set()
        self.pods_revision = 0
        self.claims: dict[str, Claim] = {}
        self.deleted_claims: set[str] = set()
        self.claims_revision = 0
        self.labels_revision = 0
        self.labels: Labels = ()
        self.annotations: Annotations = ()
        self.pods_listed_at = self.claims_listed_at = 0.0
        self.loaded: dict[int, int] = {}
        """For each active cap, the revision of the cluster at which this replica activated it."""
        self._position = 0
        self._claim_position = 0
        self._namespace_position = 0
        self._class_position = 0
        self._ended: dict[str, tuple[Pod, int]] = {}
        """The pods that this watch saw end or deleted, as they were before, with the revision of that."""
        self._oldest_claims = 0
        """The lowest revision of claims to count with: no older than a list of pods, which lacks those that ended."""
        self._seen_at: dict[str, float] = {}
        self._ages: dict[Key, ReservationAges] = {}
        self.live_reads: dict[Key, list[LiveRead]] = {}
        self.start(0)

    def clock(self) -> float:
        """Return the time of its own monotonic clock, which began at another time than those of other processes."""
        return float(self._truth.now + (self.number * 7 + self.incarnation * 3 + 1) * _DAY)

    @property
    def listed_at(self) -> float:
        """The time since which the replica is no older than a quorum list of pods, and of claims if there are any."""
        return (
            min(self.pods_listed_at, self.claims_listed_at) if self._truth.scenario.has_claims else self.pods_listed_at
        )

    def start(self, missing_events: int, missing_claims: int = 0) -> None:
        """Start the process again, with lists from a cache that lacks the last events."""
        self.is_frozen = False
        self.incarnation += 1
        self._ages, self.live_reads = {}, {}
        self.loaded = dict.fromkeys(self.loaded, self._truth.revision)
        self._list(max(len(self._truth.log) - missing_events, 0))
        self._seen_at = {}
        self._list_claims(max(len(self._truth.claim_log) - missing_claims, 0))
        self._class_position = len(self._truth.class_states) - 1
        self._namespace_position = len(self._truth.namespace_log)
        self.labels_revision, self.labels, self.annotations = self._truth.namespace_log[-1]
        self.pods_listed_at = self.claims_listed_at = -1.0  # the list of a cache does not prove its age

    def read_time(self) -> int:
        """Return the time of day by the clock of this machine, which is not that of others."""
        return self._truth.now + self.skew

    def choose_time(self) -> int:
        """Return the time at which the limits of the policy apply."""
        return self.rules.choose_time(self._loaded_at, self.read_time())

    def list_limits(self, policy: Policy, key: Key) -> Amounts:
        """Return the hard limits of a ledger's cap at present, by its clock and its view of the annotations."""
        time = self.choose_time()
        return policy.list_limits(key, time, self.rules.find_annotation(self.annotations, *key, time))

    def load(self, policy: int, caps: Collection[int]) -> None:
        """Load a policy; a new cap is active since the current revision of the cluster."""
        self.policy, self._loaded_at = policy, self.read_time()
        self.loaded = {cap: self.loaded.get(cap, self._truth.revision) for cap in caps}

    def relist(self) -> None:
        """List pods by a quorum read, as after a 410: the watch starts here and knows no deletion before."""
        self.pods_listed_at = self.clock()
        before = self.pods
        self._list(len(self._truth.log))
        self.pods = dict(self.rules.relist(before, self.pods))
        self.pods_revision = self._oldest_claims = self._truth.revision

    def relist_claims(self) -> None:
        """List claims by a quorum read."""
        self.claims_listed_at = self.clock()
        self._list_claims(len(self._truth.claim_log))
        self.claims_revision = self._truth.revision

    def _list_claims(self, position: int) -> None:
        log = self._truth.claim_log
        self._claim_position = position
        self.deleted_claims = set()
        self.claims, self.claims_revision = {}, log[position - 1][0] if position else 1
        for _, uid, claim in log[:position]:
            self._apply_claim(uid, claim)

    def _apply_claim(self, uid: str, claim: Claim | None) -> None:
        if claim is None:
            self.claims.pop(uid, None)
        else:
            self.claims[uid] = claim
            self._seen_at.setdefault(uid, self.clock())

    def watch_claims(self, events: int) -> bool:
        """Receive the next events of claims, or a bookmark if there are none; return whether the revision is newer."""
        log = self._truth.claim_log
        if self._claim_position == len(log):
            before = self.claims_revision
            self.claims_revision = self._truth.revision
            return before != self.claims_revision
        for revision, uid, claim in log[self._claim_position : self._claim_position + events]:
            self._apply_claim(uid, claim)
            if claim is None:
                self.deleted_claims.add(uid)
            self.claims_revision = revision
            self._claim_position += 1
        return True

    def _list(self, position: int) -> None:
        log = self._truth.log
        self._position = position
        self.deleted = set()
        self._ended = {}
        if position == len(log):
            self.pods = dict(self._truth.pods)
            self.pods_revision = self._oldest_claims = log[-1][0] if log else 1
            return
        self.pods, self.pods_revision = {}, log[position - 1][0] if position else 1
        for _, uid, pod in log[:position]:
            self._apply(uid, pod, 0)
        self._ended, self._oldest_claims = {}, self.pods_revision

    def _apply(self, uid: str, pod: Pod | None, revision: int) -> None:
        before = self.pods.get(uid)
        if before is not None and not before.ended and (pod is None or pod.ended):
            self._ended[uid] = before, revision
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
            self._apply(uid, pod, revision)
            if pod is None:
                self.deleted.add(uid)
            self.pods_revision = revision
            self._position += 1
        return True

    def watch_namespaces(self, events: int) -> bool:
        """Receive the next changes of namespaces; return whether there were any."""
        log, before = self._truth.namespace_log, self._namespace_position
        self._namespace_position = min(before + events, len(log))
        self.labels_revision, self.labels, annotations = log[self._namespace_position - 1]
        self.annotations = self.rules.see_annotations(self.annotations, annotations)
        return before != self._namespace_position

    @property
    def class_state(self) -> str:
        """The state of the class of claims as it sees it."""
        return self._truth.class_states[self._class_position]

    def watch_class(self) -> bool:
        """See the next state of the class; return whether there was one. The caps count something else from then on."""
        if self._class_position + 1 == len(self._truth.class_states):
            return False
        before = self.rules.select_mappings(self.class_state, NO_MAPPINGS)
        self._class_position += 1
        if self.rules.select_mappings(self.class_state, NO_MAPPINGS) != before:
            self.loaded = dict.fromkeys(self.loaded, self._truth.revision)
        return True

    def select_mappings(self, recorded: ClassMappings) -> ClassMappings:
        """Return the mappings of the class by which it counts a ledger that has these."""
        return self.rules.select_mappings(self.class_state, recorded) if self._truth.scenario.has_classes else recorded

    def catch_up(self) -> None:
        """Receive every event."""
        while self.watch_class():
            pass
        self.watch(len(self._truth.log))
        self.watch(1)
        self.watch_claims(len(self._truth.claim_log))
        self.watch_claims(1)
        self.watch_namespaces(len(self._truth.namespace_log))

    def take_snapshot(self, key: Key, policy: Policy, ledger: Ledger) -> UsageSnapshot:
        """Return the used amounts under a cap, as its watches show them."""
        scenario, labels, cap = self._truth.scenario, self.labels, self._truth.cap(key)
        mappings = self.select_mappings(ledger.mappings)
        resources = policy.resources | (ledger.resources & UNITS.keys()) | list_sources(mappings)
        units = {
            uid: 0 if pod.ended or cap.by_allocation else pod.size
            for uid, pod in self.pods.items()
            if is_under(scenario, labels, key, pod)
        }
        units |= self._count_ended(key)
        claims = {uid: claim for uid, claim in self.claims.items() if is_under(scenario, labels, key, claim)}
        units |= {uid: self.count_claim(claim, cap, mappings, units) for uid, claim in claims.items()}
        unconfirmed = sum(units[uid] for uid, claim in claims.items() if self._may_be_of_pod(claim))
        used_by_consumer = {uid: amounts(size, resources) for uid, size in units.items()}
        return UsageSnapshot(
            self.pods_revision,
            self.labels_revision,
            hash_members(scenario, labels, key),
            resources,
            used_by_consumer,
            sum(used_by_consumer.values(), Amounts()),
            frozenset(self.rules.select_deleted(self.deleted, self.pods.keys() - used_by_consumer.keys()))
            | self.deleted_claims,
            claims_revision=self._get_claims_revision(),
            unconfirmed=amounts(0 if cap.by_allocation else unconfirmed, resources),
            served=self.rules.select_served({claim.owner for claim in claims.values() if claim.owner}),
            mappings=mappings,
            holders={(str(pod.namespace), pod.name): uid for uid, pod in self.pods.items()},
        )

    def end_mappings(self, key: Key, ledger: Ledger) -> ClassMappings:
        """Return the mappings of a ledger that was counted a moment ago, without those by which nothing counts."""
        scenario, labels, cap = self._truth.scenario, self.labels, self._truth.cap(key)
        claims = [claim for claim in self.claims.values() if is_under(scenario, labels, key, claim)]
        counted = (self.count_claim(claim, cap, ledger.mappings, {}) for claim in claims)
        return self.rules.end_mappings(ledger, self.class_state, counted)

    def count_claim(self, claim: Claim, cap: Cap, mappings: ClassMappings, units: Mapping[str, int]) -> int:
        """Return the units that a claim counts beside those of the pods."""
        counted = self.rules.count_claim(claim, cap) if mappings or not self._truth.scenario.has_classes else 0
        if cap.by_allocation or not self.rules.belongs_to_pod(claim, self.pods):
            return counted
        return self.rules.count_rest(counted, units.get(claim.owner or claim.reserved_for, 0))

    def _count_ended(self, key: Key) -> dict[str, int]:
        """Return the units of the pods that count although they have ended."""
        return {
            uid: pod.size
            for uid, (pod, revision) in self._ended.items()
            if self.claims_revision < revision
            and self.rules.counts_ended is not None
            and self.rules.counts_ended(pod)
            and is_under(self._truth.scenario, self.labels, key, pod)
            and not self._truth.cap(key).by_allocation
        }

    def _lacks_claims(self) -> bool:
        """Return whether the claims are older than a list of pods, which lacks those that ended before."""
        return self.rules.counts_ended is not None and self.claims_revision < self._oldest_claims

    def _get_claims_revision(self) -> int:
        """Return the revision of claims in a snapshot; 0 if the API server has no claims."""
        if not self._truth.scenario.has_claims:
            return 0
        return -1 if self._lacks_claims() else self.claims_revision

    def _may_be_of_pod(self, claim: Claim) -> bool:
        """Return whether a young claim that is counted seems to be the scheduler's for a pod."""
        pod = self.pods.get(claim.owner)
        is_young = self.clock() - self._seen_at[claim.uid] < B
        return pod is not None and not pod.ended and pod.claim in {"", claim.name} and is_young

    def list_templates(self, key: Key, namespace: int) -> list[Template]:
        """Return the templates of the pods in a namespace that may show a rollout under a cap of pods."""
        scenario, labels = self._truth.scenario, self.labels
        return [
            pod.template
            for pod in self.pods.values()
            if pod.namespace == namespace and self.rules.shows_rollout(pod, is_under(scenario, labels, key, pod))
        ]

    def find_ages(self, key: Key) -> ReservationAges:
        """Return the remembered ages of a ledger's reservations."""
        return self._ages.get(key) or self.rules.ages(float(B))

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
        stored: dict[str, Pod | Claim] = {**self._truth.pods, **self._truth.claims}
        live_reads = [
            LiveRead(uid, self.clock(), stored[uid].revision if uid in stored else None)
            for uid in self.find_ages(key).list_confirmed()
            if uid in ledger.reservations
        ]
        self.live_reads[key] = live_reads
        return bool(live_reads)
