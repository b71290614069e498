"""Random histories of rollouts under one ledger with the transitions of the product, or wrong ones in their place.

Two controllers have pods of one GPU each, and roll from one revision to the next: they create new pods before they
delete old ones. Other pods belong to no controller that rolls. Replicas differ in their clocks, and one has a policy
with a larger surge than the ledger.
"""

from dataclasses import dataclass, field

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.expire import LiveRead
from tallygate.state.ledger.ledger import Ledger, Operation, Surge
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ledger.reserve import ReservationRequest
from tallygate.state.ledger.surges import NO_TERMS, SurgeTerms
from tests.schedules import ViolationError
from tests.state.ledger.ledger_history import GPU, Creation, LedgerHistory, Rules, create_gpus

HARD = 10
SURGE = 3
SECONDS = 20
SKEW = 5
_SIZES = {"a": 4, "b": 5}
_MAX_SURGE = 3
_REPLICAS = ((0, SURGE), (SKEW, SURGE), (-SKEW, SURGE + 2))
"""By replica: the seconds by which its clock is ahead, and the surge of its policy."""
_STEPS = 260
_QUIET_ROUNDS = 400


@dataclass
class Controller:
    """A controller that rolls: its number of pods, and its newest revision."""

    name: str
    size: int
    revision: int = 1


@dataclass
class SurgeWorld(LedgerHistory):
    """The world of one history; each step chooses by the random numbers of a seed."""

    revision: int = 0
    pods: dict[str, tuple[str, int]] = field(default_factory=dict)  # controller and its revision of each stored pod
    events: list[tuple[str, int]] = field(default_factory=list)  # UID and 1 or -1, for stored and deleted pods
    above_since: float | None = None

    def __post_init__(self) -> None:
        """Start with the pods of both controllers, and a ledger that counts them."""
        super().__post_init__()
        self.controllers = {name: Controller(name, size) for name, size in _SIZES.items()}
        for name, size in _SIZES.items():
            for number in range(size):
                self._put(f"{name}-1-{number}", (name, 1))
        self._recount(at=self.revision)

    def play(self) -> None:
        """Take the steps, then let everything become quiet."""
        steps = (
            (self._roll, 1),
            (self._make_pod, 16),
            (self._delete_old, self.random.choice((1, 8))),  # of a controller whose pods are ready late or soon
            (self._create_other, 4),
            (self._delete_other, 2),
            (self._repeat, 3),
            (self._store, 16),
            (self._lose, 1),
            (self._recount, 10),
            (self._tick, 7),
        )
        self._take_steps(steps, _STEPS)
        for _ in range(_QUIET_ROUNDS):
            for step in (self._make_pod, self._store, self._delete_old, self._tick):
                step()
                self._check()
            self._recount(at=self.revision)
        unfinished = [each.name for each in self.controllers.values() if self._count_old(each)]
        if unfinished:
            raise ViolationError(f"stuck: {', '.join(unfinished)} cannot roll, {len(self.pods)} pods are stored")
        self._check_charged(len(self.pods))
        if len(self.pods) <= HARD and self.ledger.surge.since is not None:
            raise ViolationError("kept: the surge has no end")

    def _create_ledger(self) -> Ledger:
        return Ledger(create_gpus(HARD), resources=frozenset({GPU}), surge=Surge(create_gpus(SURGE)))

    def _check(self) -> None:
        if len(self.pods) > HARD + SURGE:
            raise ViolationError(f"over: {len(self.pods)} pods")
        if len(self.pods) + len(self.in_flight) <= HARD:
            self.above_since = None
        elif self.above_since is None:
            self.above_since = self.now

    def _count_old(self, controller: Controller) -> int:
        return sum(
            owner == controller.name and revision < controller.revision for owner, revision in self.pods.values()
        )

    def _count_own(self, controller: Controller, revision: int | None = None) -> int:
        """Return the number of its pods that are stored or in flight, of one revision or of all."""
        stored = [each for owner, each in self.pods.values() if owner == controller.name]
        flying = [int(uid.split("-")[1]) for uid, each in self.in_flight.items() if each.owner == controller.name]
        return sum(revision in (None, each) for each in (*stored, *flying))

    def _roll(self) -> None:
        """Begin a rollout of a controller that has no old pods."""
        controller = self.random.choice(list(self.controllers.values()))
        if not self._count_old(controller):
            controller.revision += 1

    def _make_pod(self) -> None:
        """Create a new pod of a controller that lacks one, if its own surge allows that."""
        waiting = [
            each
            for each in self.controllers.values()
            if self._count_own(each, each.revision) < each.size and self._count_own(each) < each.size + _MAX_SURGE
        ]
        if waiting:
            controller = self.random.choice(waiting)
            self.number += 1
            uid = f"{controller.name}-{controller.revision}-{self.number}"
            self._charge(uid, controller.name, is_rolling=self._count_old(controller) > 0)

    def _create_other(self) -> None:
        self.number += 1
        self._charge(f"other-0-{self.number}", "", is_rolling=False)

    def _charge(self, uid: str, controller: str, *, is_rolling: bool) -> None:
        """Let a replica decide about a creation: as an ordinary one first, then as one of a controller that rolls."""
        request = self._request(uid)
        after = self.rules.reserve(self.ledger, request)
        if after is None and (is_rolling or self._takes_for_rolling()):
            request = self._request(uid, self.random.choice(_REPLICAS))
            after = self.rules.reserve(self.ledger, request)
        if after is None:
            return
        self.ledger = after
        if self.random.random() < 0.05:  # another cap rejects it
            self.ledger = self.rules.release(self.ledger, uid, request.attempt)
            return
        self.in_flight[uid] = Creation(uid, controller, self.now, request)
        count = len(self.pods) + len(self.in_flight)
        if not is_rolling and count > HARD:
            raise ViolationError(f"shared: {uid} does not roll, and makes {count} of {HARD}")
        if self.above_since is not None and self.now - self.above_since > SECONDS + 2 * SKEW and count > HARD:
            raise ViolationError(f"late: {uid} surges {self.now - self.above_since} s after the surge began")

    def _takes_for_rolling(self) -> bool:
        return isinstance(self.rules, OpenRules)

    def _request(self, uid: str, replica: tuple[int, int] | None = None) -> ReservationRequest:
        self.number += 1
        terms = NO_TERMS
        if replica is not None:
            ahead, surge = replica
            terms = SurgeTerms(create_gpus(surge), SECONDS, int(self.now) + ahead)
        nonce = f"n{self.number}"
        return ReservationRequest(
            uid, "team-a", uid, Amounts(), create_gpus(1), nonce, Operation.CREATE, create_gpus(HARD), surge=terms
        )

    def _repeat(self) -> None:
        """Let another attempt of a creation arrive while the first one is in flight."""
        if self.in_flight:
            creation = self.random.choice(list(self.in_flight.values()))
            terms = creation.request.surge
            rolls = terms is not NO_TERMS
            self.ledger = (
                self.rules.reserve(self.ledger, self._request(creation.uid, (0, SURGE) if rolls else None))
                or self.ledger
            )

    def _delete_old(self) -> None:
        """Delete an old pod of a controller that has more pods than its size, or an excess pod."""
        for controller in self.random.sample(list(self.controllers.values()), k=len(self.controllers)):
            own = [uid for uid, (owner, _) in self.pods.items() if owner == controller.name]
            old = [uid for uid in own if self.pods[uid][1] < controller.revision]
            if old and len(own) > controller.size:
                self._remove(self.random.choice(old))
                return

    def _delete_other(self) -> None:
        others = [uid for uid, (owner, _) in self.pods.items() if not owner]
        if others:
            self._remove(self.random.choice(others))

    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        del self.in_flight[creation.uid]
        if is_stored:
            self._put(creation.uid, (creation.owner, int(creation.uid.split("-")[1])))

    def _put(self, uid: str, pod: tuple[str, int]) -> None:
        self.revision += 1
        self.pods[uid] = pod
        self.events.append((uid, 1))

    def _remove(self, uid: str) -> None:
        self.revision += 1
        del self.pods[uid]
        self.events.append((uid, -1))

    def _recount(self, at: int | None = None) -> None:
        revision = self.random.randint(self.ledger.pods_revision, self.revision) if at is None else at
        stored: dict[str, Amounts] = {}
        deleted: set[str] = set()
        for uid, change in self.events[:revision]:
            if change > 0:
                stored[uid] = create_gpus(1)
            else:
                del stored[uid]
                deleted.add(uid)
        snapshot = UsageSnapshot(revision, 0, "", frozenset({GPU}), stored, create_gpus(len(stored)), deleted)
        self.ledger = self.rules.recount(self.ledger, snapshot)

    def _tick(self) -> None:
        """Let time pass, and make the live reads that are due."""
        for uid in self._pass_time():
            revisions = [number for number, event in enumerate(self.events, 1) if event[0] == uid]
            stored_at = revisions[-1] if uid in self.pods else None
            self.ledger = self.rules.expire(self.ledger, self.ages, LiveRead(uid, self.now, stored_at))


class OpenRules(Rules):
    """A base of wrong variants in which the surge is open to pods of any controller."""
