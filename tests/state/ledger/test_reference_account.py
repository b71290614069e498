"""Many attempts of few pods, recounts and releases, against a reference account of each pod.

One observer is always current, and attempts end at once: the ledger must then equal a list of pods and reservations.
Lags, crashes and lost messages are the subject of tests/gate/simulation.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.expire import LiveRead, ReservationAges, expire
from tallygate.state.ledger.ledger import Operation
from tallygate.state.ledger.recount import UsageSnapshot, apply_limits
from tallygate.state.ledger.reserve import Exceeded, Reserved, release, reserve
from tests.effort import examples
from tests.state.ledger.ledger_builders import GPU, create_request, create_snapshot, empty_ledger, expect_recount

HARD = 6
B = 10.0
uids = st.sampled_from("abcd")
counts = st.integers(0, 4)


@dataclass
class Pod:
    """The used, the counted and the allowed amounts of one pod, computed without a ledger."""

    used: int = 0
    stored: bool = False
    counted: int = 0
    allowed: list[tuple[str, int, Operation]] = field(default_factory=list)
    stored_attempts: set[str] = field(default_factory=set)
    since: float = 0.0
    last: str = ""

    def compute_charge(self) -> int:
        """Return the charge, which is never less than the used or an allowed amount."""
        return max([self.counted, *(new for _, new, _ in self.allowed)])


class Account(RuleBasedStateMachine):
    """The ledger and a reference list of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = empty_ledger(HARD)
        self.hard = HARD
        self.pods = {uid: Pod() for uid in "abcd"}
        self.ages = ReservationAges(B)
        self.now = 0.0
        self.attempts = 0

    @rule(uid=uids, new=counts)
    def request(self, uid: str, new: int) -> None:
        """Reserve for a stored or a new pod."""
        self.attempts += 1
        pod, by = self.pods[uid], str(self.attempts)
        kind = Operation.UPDATE if pod.stored else Operation.CREATE
        result = reserve(self.ledger, create_request(uid, new, pod.used, by=by, hard=99, kind=kind))
        others = sum(other.compute_charge() for name, other in self.pods.items() if name != uid)
        if isinstance(result, Exceeded):
            assert new > pod.used
            assert self.ledger.compute_charged().get(GPU, 0) + new > self.hard
            return
        assert isinstance(result, Reserved)
        assert new <= max(pod.compute_charge(), pod.used) or others + new <= self.hard
        if not result.needs_no_write:
            pod.allowed.append((by, new, kind))
            pod.since, pod.last = self.now, by
        self.ledger = result.ledger
        self.ages = self.ages.observe(self.ledger, self.now)

    @rule(uid=uids, which=st.integers(0, 5))
    def store(self, uid: str, which: int) -> None:
        """Store the pod of any allowed attempt."""
        pod = self.pods[uid]
        fitting = [(by, new) for by, new, kind in pod.allowed if (kind is Operation.UPDATE) is pod.stored]
        if fitting:
            by, pod.used = fitting[which % len(fitting)]
            pod.stored, pod.stored_attempts = True, {*pod.stored_attempts, by}

    @rule(uid=uids)
    def release_last(self, uid: str) -> None:
        """Release the last attempt, unless its pod is stored."""
        pod = self.pods[uid]
        if pod.last in pod.stored_attempts:
            return
        self.ledger = release(self.ledger, uid, pod.last)
        if len(pod.allowed) == 1 and pod.allowed[0][0] == pod.last and uid not in self.ledger.reservations:
            pod.allowed.clear()

    @rule()
    def count(self) -> None:
        """Recount the stored pods."""
        self.ledger = expect_recount(self.ledger, self._create_snapshot())
        for pod in self.pods.values():
            pod.counted = pod.used if pod.stored else 0
            if pod.stored and all(kind is Operation.CREATE for _, _, kind in pod.allowed):
                pod.allowed.clear()
        assert self._compute_charges() == {uid: pod.compute_charge() for uid, pod in self.pods.items()}

    @rule(hard=st.integers(0, 8))
    def allow(self, hard: int) -> None:
        """Write another hard limit as the leader."""
        self.ledger, self.hard = apply_limits(self.ledger, Amounts({GPU: hard}), self.ledger.resources), hard

    @rule(by=st.floats(0, 8))
    def wait(self, by: float) -> None:
        """Let time pass."""
        self.now += by

    @rule(uid=uids)
    def expire_due(self, uid: str) -> None:
        """Expire the reservation of an attempt if, and only if, its time is over."""
        pod = self.pods[uid]
        self.ages = self.ages.confirm_write(started_at=self.now, now=self.now)
        reading = LiveRead(uid, self.now, self.ledger.pods_revision if pod.stored and pod.counted == pod.used else None)
        if pod.stored and pod.counted != pod.used:
            reading = LiveRead(uid, self.now, self.ledger.pods_revision + 1)
        before = uid in self.ledger.reservations
        self.ledger = expire(self.ledger, self.ages, reading)
        old_enough = self.now >= pod.since + B and not (pod.stored and pod.counted != pod.used)
        assert (uid in self.ledger.reservations) is (before and not old_enough)
        if before and old_enough:
            pod.allowed.clear()

    def _create_snapshot(self) -> UsageSnapshot:
        return create_snapshot(
            self.ledger.pods_revision + 1, {uid: pod.used for uid, pod in self.pods.items() if pod.stored}
        )

    def _compute_charges(self) -> dict[str, int]:
        reservations = self.ledger.reservations
        return {
            uid: pod.counted + (reservations[uid].compute_reserved().get(GPU, 0) if uid in reservations else 0)
            for uid, pod in self.pods.items()
        }

    @invariant()
    def every_pod_is_charged_at_least_as_in_the_list(self) -> None:
        """Compare per pod, since two errors could cancel out in totals."""
        charged = self._compute_charges()
        assert all(charged[uid] >= pod.compute_charge() for uid, pod in self.pods.items())
        assert sum(charged.values()) == self.ledger.compute_charged().get(GPU, 0)

    @invariant()
    def sums_of_reservations_are_correct(self) -> None:
        """Compare the sums, which are updated by differences, with a new addition."""
        recomputed = self.ledger.with_reservations(self.ledger.reservations.items())
        assert (recomputed.reserved, dict(recomputed.reserved_by_namespace)) == (
            self.ledger.reserved,
            dict(self.ledger.reserved_by_namespace),
        )

    @invariant()
    def no_pod_uses_more_than_its_charge(self) -> None:
        """Check the purpose of the ledger: no pod uses more than its charge."""
        assert all(pod.used <= pod.compute_charge() for pod in self.pods.values())


Account.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestAccount = Account.TestCase
