"""Random histories of workloads, pods and one ledger with the transitions of the product, or wrong ones in their place.

A creation that the gate allows is stored or lost within B. A controller makes the pods of its workload, and one more
for each that is lost; it may stop. Other pods belong to no workload, or name one that is not theirs.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec.structs import replace

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.charge import ConsumerKind
from tallygate.webhook.state.ledger import expire as expiry
from tallygate.webhook.state.ledger.expire import LiveRead, ReservationAges
from tallygate.webhook.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.webhook.state.ledger.recount import UsageSnapshot, recount
from tallygate.webhook.state.ledger.reserve import (
    Exceeded,
    ReservationRequest,
    Reserved,
    WorkloadTerms,
    release,
    reserve,
)
from tests.schedules import ViolationError

B = 40.0
HARD = 12
GPU = "nvidia.com/gpu"
_JOB = "batch/v1/Job"
_STEPS = 160
_QUIET_ROUNDS = 60
_TICK = 7.0


class Rules:
    """The transitions of the product; a wrong variant replaces one."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        """Return the ledger with the reservation, None if the cap is exceeded."""
        result = reserve(ledger, request)
        assert isinstance(result, Reserved | Exceeded), result
        return result.ledger if isinstance(result, Reserved) else None

    def release(self, ledger: Ledger, uid: str, attempt: str) -> Ledger:
        """Return the ledger without the reservation of an attempt."""
        return release(ledger, uid, attempt)

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        """Return the recounted ledger, or the same one if the snapshot is too old."""
        counted = recount(ledger, snapshot)
        return counted if isinstance(counted, Ledger) else ledger

    def expire(self, ledger: Ledger, ages: ReservationAges, read: LiveRead) -> Ledger:
        """Return the ledger without a reservation whose end a live read shows."""
        return expiry.expire(ledger, ages, read)


@dataclass
class Workload:
    """A workload of `size` pods of one GPU each; `is_disturbed` if it lost its claim to room for all of them."""

    uid: str
    size: int
    is_stored: bool = False
    has_stopped: bool = False
    is_disturbed: bool = False
    made: int = 0
    request: ReservationRequest | None = None


@dataclass
class Creation:
    """A creation that the gate has allowed, and that is neither stored nor lost."""

    uid: str
    workload: str
    allowed_at: float
    request: ReservationRequest


@dataclass
class GangWorld:
    """The world of one history; each step chooses by the random numbers of a seed."""

    rules: Rules
    seed: int
    now: float = 1000.0
    revision: int = 1
    pods: dict[str, tuple[int, str]] = field(default_factory=dict)  # revision and workload of each stored pod
    workloads: dict[str, Workload] = field(default_factory=dict)
    in_flight: dict[str, Creation] = field(default_factory=dict)
    stored: dict[str, Creation] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    number: int = 0

    def __post_init__(self) -> None:
        """Start with an empty ledger."""
        self.random = random.Random(self.seed)  # noqa: S311  # reproducible
        self.ledger = Ledger(_gpus(HARD), resources=frozenset({GPU}))
        self.ages = ReservationAges(B)
        self.steps: tuple[tuple[Callable[[], None], int], ...] = (
            (self._create_workload, 3),
            (self._make_pod, 14),
            (self._create_other, 3),
            (self._repeat, 3),
            (self._store, 14),
            (self._lose, 2),
            (self._stop, 1),
            (self._recount, 6),
            (self._tick, 6),
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
        for creation in list(self.in_flight.values()):
            self._resolve(creation, is_stored=True)
            self._check()
        for _ in range(_QUIET_ROUNDS):
            self._tick()
            self._recount(at=self.revision)
            self._check()
        if self.ledger.compute_charged() != _gpus(len(self.pods)) or self.ledger.reservations:
            raise ViolationError(f"kept: {self.ledger.compute_charged()} charged for {len(self.pods)} pods")

    def _check(self) -> None:
        if len(self.pods) > HARD:
            raise ViolationError(f"over: {len(self.pods)} pods")
        summed = self.ledger.with_reservations(self.ledger.reservations.items())
        if summed.reserved != self.ledger.reserved:
            raise ViolationError(f"sums: {self.ledger.reserved} in place of {summed.reserved}")
        for workload in self.workloads.values():
            reservation = self.ledger.reservations.get(workload.uid)
            left = reservation.compute_reserved().get(GPU, 0) if reservation is not None else 0
            lost = sum(uid.startswith(f"{workload.uid}-") for uid in self.lost)
            if left > workload.size - self._count_made(workload) + lost:
                raise ViolationError(f"more: {left} are left of {workload.uid}, which makes fewer pods")

    def _request(self, uid: str, size: int, workload: WorkloadTerms) -> ReservationRequest:
        self.number += 1
        nonce = f"n{self.number}"
        return ReservationRequest(
            uid, "team-a", uid, Amounts(), _gpus(size), nonce, Operation.CREATE, _gpus(HARD), workload=workload
        )

    def _charge(self, request: ReservationRequest, workload: str) -> bool:
        after = self.rules.reserve(self.ledger, request)
        if after is None:
            return False
        self.ledger = after
        if self.random.random() < 0.1 and request.uid not in self.in_flight:  # another cap rejects it
            self.ledger = self.rules.release(self.ledger, request.uid, request.attempt)
            return True
        self.in_flight.setdefault(request.uid, Creation(request.uid, workload, self.now, request))
        return True

    def _create_workload(self) -> None:
        self.number += 1
        workload = Workload(f"job{self.number}", self.random.randint(2, 8))
        request = self._request(workload.uid, workload.size, WorkloadTerms(_JOB))
        if self._charge(request, workload.uid) and workload.uid in self.in_flight:
            workload.request = request
            self.workloads[workload.uid] = workload

    def _make_pod(self) -> None:
        waiting = [each for each in self.workloads.values() if self._count_missing(each)]
        if not waiting:
            return
        workload = self.random.choice(waiting)
        workload.made += 1
        uid = f"{workload.uid}-{workload.made}"
        request = self._request(uid, 1, WorkloadTerms(owner_uids=("replica-set", workload.uid)))
        if self._charge(request, workload.uid):
            return
        pending = [
            each for each in self.lost if each.startswith(f"{workload.uid}-") and each in self.ledger.reservations
        ]
        if not pending and not workload.is_disturbed:
            raise ViolationError(f"half: no room for {uid}, of {workload.size} pods")

    def _count_missing(self, workload: Workload) -> int:
        if not workload.is_stored or workload.has_stopped:
            return 0
        return workload.size - self._count_made(workload)

    def _count_made(self, workload: Workload) -> int:
        """Return the number of its pods that are stored or in flight."""
        stored = sum(owner == workload.uid for _, owner in self.pods.values())
        return stored + sum(each.workload == workload.uid != uid for uid, each in self.in_flight.items())

    def _create_other(self) -> None:
        self.number += 1
        owners = self.random.choice(((), ("unknown",), ("team-b-job",)))
        self._charge(self._request(f"other{self.number}", 1, WorkloadTerms(owner_uids=owners)), "")

    def _repeat(self) -> None:
        """Let another attempt of a creation arrive: within B of the first one, or while a workload is reserved.

        One of a workload that arrives later reserves for all pods, until this expires.
        """
        creations = [each.request for each in self.in_flight.values()]
        creations += [each.request for each in self.stored.values() if self.now < each.allowed_at + B]
        reserved = [each for each in self.workloads.values() if each.uid in self.ledger.reservations]
        creations += [each.request for each in reserved if each.request is not None]
        if creations:
            self.number += 1
            after = self.rules.reserve(self.ledger, replace(self.random.choice(creations), attempt=f"n{self.number}"))
            self.ledger = after or self.ledger

    def _store(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=True)

    def _lose(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=False)

    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        del self.in_flight[creation.uid]
        if not is_stored:
            self.lost.add(creation.uid)
        elif creation.uid in self.workloads:
            self.workloads[creation.uid].is_stored = True
        else:
            self.revision += 1
            self.pods[creation.uid] = self.revision, creation.workload
            self.stored[creation.uid] = creation

    def _stop(self) -> None:
        if self.workloads:
            self.random.choice(list(self.workloads.values())).has_stopped = True

    def _recount(self, at: int | None = None) -> None:
        revision = self.random.randint(self.ledger.pods_revision, self.revision) if at is None else at
        counted = {uid: _gpus(1) for uid, (stored_at, _) in self.pods.items() if stored_at <= revision}
        snapshot = UsageSnapshot(revision, 0, "", frozenset({GPU}), counted, _gpus(len(counted)))
        self.ledger = self.rules.recount(self.ledger, snapshot)

    def _tick(self) -> None:
        """Let time pass: creations within B, then a write of the ledger, and the live reads that are due."""
        self.now += _TICK
        for creation in list(self.in_flight.values()):
            if self.now >= creation.allowed_at + B:
                self._resolve(creation, is_stored=self.random.random() < 0.5)
        self.ages = self.ages.observe(self.ledger, self.now).confirm_write(self.now, self.now)
        for uid in self.ages.list_confirmed():
            reservation = self.ledger.reservations.get(uid)
            if reservation is None:
                continue
            before = self.ledger
            self.ledger = self.rules.expire(self.ledger, self.ages, self._read(uid, reservation))
            if reservation.kind is ConsumerKind.WORKLOAD and self.ledger is not before and uid in self.workloads:
                late = self.ages.is_older(uid, reservation.attempt, self.now, expiry.GANG_BOUND_SECONDS)
                self.workloads[uid].is_disturbed |= late

    def _read(self, uid: str, reservation: Reservation) -> LiveRead:
        if reservation.kind is ConsumerKind.WORKLOAD:
            workload = self.workloads.get(uid)
            if workload is None or not workload.is_stored:
                return LiveRead(uid, self.now, None)
            return LiveRead(uid, self.now, 1, is_active=not workload.has_stopped)
        stored = self.pods.get(uid)
        return LiveRead(uid, self.now, stored[0] if stored else None)


def _gpus(count: int) -> Amounts:
    return Amounts({GPU: count} if count else {})


def drop_reservation(ledger: Ledger, uid: str) -> Ledger:
    """Return the ledger without a reservation, and with equal sums otherwise."""
    others = {each: kept for each, kept in ledger.reservations.items() if each != uid}
    return replace(ledger, reservations=MappingProxyType(others)).with_reservations(others.items())
