"""Many attempts of few pods, recounts and withdrawals, against a plain account of each pod.

One observer that is never behind, and attempts that end at once: what the ledger says must then be what a list of pods
and promises says. What lags, crashes and gets lost is the simulation's matter (tests/state/simulation).
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.effort import examples
from tests.state.ledger.ledgers import GPU, empty, recounted, view, wants
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.expire import LiveRead, ReservationAges, expire
from webhook.state.ledger.ledger import Operation
from webhook.state.ledger.recount import UsageSnapshot, apply_limits
from webhook.state.ledger.reserve import Exceeded, Reserved, release, reserve

HARD = 6
B = 10.0
uids = st.sampled_from("abcd")
counts = st.integers(0, 4)


@dataclass
class Pod:
    """What one pod holds, is counted with, and may come to hold: all three said without any ledger."""

    holds: int = 0
    stored: bool = False
    counted: int = 0
    allowed: list[tuple[str, int, Operation]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    since: float = 0.0
    last: str = ""

    def charged(self) -> int:
        """Never less than it holds or may hold."""
        return max([self.counted, *(new for _, new, _ in self.allowed)])


class Account(RuleBasedStateMachine):
    """The ledger beside a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = empty(HARD)
        self.hard = HARD
        self.pods = {uid: Pod() for uid in "abcd"}
        self.ages = ReservationAges(B)
        self.now = 0.0
        self.attempts = 0

    @rule(uid=uids, new=counts)
    def ask(self, uid: str, new: int) -> None:
        """An attempt, of what is there as of what is not."""
        self.attempts += 1
        pod, by = self.pods[uid], str(self.attempts)
        kind = Operation.UPDATE if pod.stored else Operation.CREATE
        answer = reserve(self.ledger, wants(uid, new, pod.holds, by=by, hard=99, kind=kind))
        others = sum(other.charged() for name, other in self.pods.items() if name != uid)
        if isinstance(answer, Exceeded):
            assert new > pod.holds
            assert self.ledger.compute_charged().get(GPU, 0) + new > self.hard
            return
        assert isinstance(answer, Reserved)
        assert new <= max(pod.charged(), pod.holds) or others + new <= self.hard
        if not answer.needs_no_write:
            pod.allowed.append((by, new, kind))
            pod.since, pod.last = self.now, by
        self.ledger = answer.ledger
        self.ages = self.ages.observe(self.ledger, self.now)

    @rule(uid=uids, which=st.integers(0, 5))
    def store(self, uid: str, which: int) -> None:
        """What was allowed is stored, whichever of the attempts it is."""
        pod = self.pods[uid]
        fitting = [(by, new) for by, new, kind in pod.allowed if (kind is Operation.UPDATE) is pod.stored]
        if fitting:
            by, pod.holds = fitting[which % len(fitting)]
            pod.stored, pod.kept = True, {*pod.kept, by}

    @rule(uid=uids)
    def give_back(self, uid: str) -> None:
        """The last attempt gives up, unless it was allowed and came to something."""
        pod = self.pods[uid]
        if pod.last in pod.kept:
            return
        self.ledger = release(self.ledger, uid, pod.last)
        if len(pod.allowed) == 1 and pod.allowed[0][0] == pod.last and uid not in self.ledger.reservations:
            pod.allowed.clear()

    @rule()
    def count(self) -> None:
        """A recount of what is there now."""
        self.ledger = recounted(self.ledger, self._view())
        for pod in self.pods.values():
            pod.counted = pod.holds if pod.stored else 0
            if pod.stored and all(kind is Operation.CREATE for _, _, kind in pod.allowed):
                pod.allowed.clear()
        assert self._charged() == {uid: pod.charged() for uid, pod in self.pods.items()}

    @rule(hard=st.integers(0, 8))
    def allow(self, hard: int) -> None:
        """The leader writes another bound."""
        self.ledger, self.hard = apply_limits(self.ledger, Amounts({GPU: hard}), self.ledger.resources), hard

    @rule(by=st.floats(0, 8))
    def wait(self, by: float) -> None:
        """Time passes."""
        self.now += by

    @rule(uid=uids)
    def give_up_on(self, uid: str) -> None:
        """Nothing comes of an attempt any more once its time is over; then, and only then, its promise goes."""
        pod = self.pods[uid]
        self.ages = self.ages.confirm_write(started_at=self.now, now=self.now)
        reading = LiveRead(
            uid, self.now, self.ledger.pods_revision if pod.stored and pod.counted == pod.holds else None
        )
        if pod.stored and pod.counted != pod.holds:
            reading = LiveRead(uid, self.now, self.ledger.pods_revision + 1)
        before = uid in self.ledger.reservations
        self.ledger = expire(self.ledger, self.ages, reading)
        old_enough = self.now >= pod.since + B and not (pod.stored and pod.counted != pod.holds)
        assert (uid in self.ledger.reservations) is (before and not old_enough)
        if before and old_enough:
            pod.allowed.clear()

    def _view(self) -> UsageSnapshot:
        return view(self.ledger.pods_revision + 1, {uid: pod.holds for uid, pod in self.pods.items() if pod.stored})

    def _charged(self) -> dict[str, int]:
        rows = self.ledger.reservations
        return {
            uid: pod.counted + (rows[uid].compute_reserved().get(GPU, 0) if uid in rows else 0)
            for uid, pod in self.pods.items()
        }

    @invariant()
    def every_pod_is_charged_what_the_list_says_or_more(self) -> None:
        """Per pod, since totals alone would let two mistakes cancel out."""
        charged = self._charged()
        assert all(charged[uid] >= pod.charged() for uid, pod in self.pods.items())
        assert sum(charged.values()) == self.ledger.compute_charged().get(GPU, 0)

    @invariant()
    def the_sums_go_along(self) -> None:
        """What is kept by difference is what adding up would give."""
        anew = self.ledger.with_reservations(self.ledger.reservations.items())
        assert (anew.reserved, dict(anew.reserved_by_namespace)) == (
            self.ledger.reserved,
            dict(self.ledger.reserved_by_namespace),
        )

    @invariant()
    def nobody_holds_more_than_is_charged(self) -> None:
        """The point of it all."""
        assert all(pod.holds <= pod.charged() for pod in self.pods.values())


Account.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestAccount = Account.TestCase
