"""Random histories of rollouts under one ledger with the transitions of the product, or wrong ones in their place.

Two controllers have pods of one GPU each, and roll from one revision to the next: they create new pods before they
delete old ones. Other pods belong to no controller that rolls. A creation that the gate allows is stored or lost within
B. Replicas differ in their clocks, and one has a policy with a larger surge than the ledger.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.state.ledger import expire as expiry
from tallygate.webhook.state.ledger.expire import LiveRead, ReservationAges
from tallygate.webhook.state.ledger.ledger import Ledger, Operation, Surge
from tallygate.webhook.state.ledger.recount import UsageSnapshot, recount
from tallygate.webhook.state.ledger.reserve import Exceeded, ReservationRequest, Reserved, release, reserve
from tallygate.webhook.state.ledger.surges import NO_TERMS, SurgeTerms
from tests.schedules import ViolationError

B = 40.0
HARD = 10
SURGE = 3
SECONDS = 20
SKEW = 5
GPU = "nvidia.com/gpu"
_SIZES = {"a": 4, "b": 5}
_MAX_SURGE = 3
_REPLICAS = ((0, SURGE), (SKEW, SURGE), (-SKEW, SURGE + 2))
"""By replica: the seconds by which its clock is ahead, and the surge of its policy."""
_STEPS = 260
_QUIET_ROUNDS = 400
_TICK = 7.0


class Rules:
    """The transitions of the product; a wrong variant replaces one."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        """Return the ledger with the reservation, None if the cap is exceeded."""
        result = reserve(ledger, request)
        assert isinstance(result, Reserved | Exceeded), result
        return result.ledger if isinstance(result, Reserved) else None

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        """Return the recounted ledger, or the same one if the snapshot is too old."""
        counted = recount(ledger, snapshot)
        return counted if isinstance(counted, Ledger) else ledger


@dataclass
class Controller:
    """A controller that rolls: its number of pods, and its newest revision."""

    name: str
    size: int
    revision: int = 1


@dataclass
class Creation:
    """A creation that the gate has allowed, and that is neither stored nor lost; `controller` is empty for others."""

    uid: str
    controller: str
    allowed_at: float
    request: ReservationRequest


@dataclass
class SurgeWorld:
    """The world of one history; each step chooses by the random numbers of a seed."""

    rules: Rules
    seed: int
    now: float = 1000.0
    revision: int = 0
    pods: dict[str, tuple[str, int]] = field(default_factory=dict)  # controller and its revision of each stored pod
    events: list[tuple[str, int]] = field(default_factory=list)  # UID and 1 or -1, for stored and deleted pods
    in_flight: dict[str, Creation] = field(default_factory=dict)
    number: int = 0
    above_since: float | None = None

    def __post_init__(self) -> None:
        """Start with the pods of both controllers, and a ledger that counts them."""
        self.random = random.Random(self.seed)  # noqa: S311  # reproducible
        self.controllers = {name: Controller(name, size) for name, size in _SIZES.items()}
        for name, size in _SIZES.items():
            for number in range(size):
                self._put(f"{name}-1-{number}", (name, 1))
        surge = Surge(_gpus(SURGE))
        self.ledger = Ledger(_gpus(HARD), resources=frozenset({GPU}), surge=surge)
        self._recount(at=self.revision)
        self.ages = ReservationAges(B)
        self.steps: tuple[tuple[Callable[[], None], int], ...] = (
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

    def play(self) -> None:
        """Take the steps, then let everything become quiet.

        Raises:
            ViolationError: if an invariant is violated.
        """
        functions, weights = zip(*self.steps, strict=True)
        for step in self.random.choices(functions, weights, k=_STEPS):
            step()
            self._check()
        for _ in range(_QUIET_ROUNDS):
            for step in (self._make_pod, self._store, self._delete_old, self._tick):
                step()
                self._check()
            self._recount(at=self.revision)
        unfinished = [each.name for each in self.controllers.values() if self._count_old(each)]
        if unfinished:
            raise ViolationError(f"stuck: {', '.join(unfinished)} cannot roll, {len(self.pods)} pods are stored")
        if self.ledger.compute_charged() != _gpus(len(self.pods)) or self.ledger.reservations:
            raise ViolationError(f"kept: {self.ledger.compute_charged()} charged for {len(self.pods)} pods")
        if len(self.pods) <= HARD and self.ledger.surge.since is not None:
            raise ViolationError("kept: the surge has no end")

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
        flying = [int(uid.split("-")[1]) for uid, each in self.in_flight.items() if each.controller == controller.name]
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
            self.ledger = release(self.ledger, uid, request.attempt)
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
            terms = SurgeTerms(_gpus(surge), SECONDS, int(self.now) + ahead)
        nonce = f"n{self.number}"
        return ReservationRequest(
            uid, "team-a", uid, Amounts(), _gpus(1), nonce, Operation.CREATE, _gpus(HARD), surge=terms
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

    def _store(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=True)

    def _lose(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=False)

    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        del self.in_flight[creation.uid]
        if is_stored:
            self._put(creation.uid, (creation.controller, int(creation.uid.split("-")[1])))

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
                stored[uid] = _gpus(1)
            else:
                del stored[uid]
                deleted.add(uid)
        snapshot = UsageSnapshot(revision, 0, "", frozenset({GPU}), stored, _gpus(len(stored)), deleted)
        self.ledger = self.rules.recount(self.ledger, snapshot)

    def _tick(self) -> None:
        """Let time pass: creations within B, then a write of the ledger, and the live reads that are due."""
        self.now += _TICK
        for creation in list(self.in_flight.values()):
            if self.now >= creation.allowed_at + B:
                self._resolve(creation, is_stored=self.random.random() < 0.5)
        self.ages = self.ages.observe(self.ledger, self.now).confirm_write(self.now, self.now)
        for uid in self.ages.list_confirmed():
            revisions = [number for number, event in enumerate(self.events, 1) if event[0] == uid]
            stored_at = revisions[-1] if uid in self.pods else None
            self.ledger = expiry.expire(self.ledger, self.ages, LiveRead(uid, self.now, stored_at))


class OpenRules(Rules):
    """A base of wrong variants in which the surge is open to pods of any controller."""


def _gpus(count: int) -> Amounts:
    return Amounts({GPU: count} if count else {})
