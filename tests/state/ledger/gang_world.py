"""Random histories of workloads, pods and one ledger with the transitions of the product, or wrong ones in their place.

A controller makes the pods of its workload, and one more for each that is lost; it may stop. Other pods belong to no
workload, or name one that is not theirs.
"""

from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger import expire as expiry
from tallygate.state.ledger.expire import LiveRead
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ledger.reserve import (
    ReservationRequest,
    WorkloadTerms,
)
from tests.schedules import ViolationError
from tests.state.ledger.ledger_history import GPU, B, Creation, LedgerHistory, create_gpus

HARD = 12
_JOB = "batch/v1/Job"
_STEPS = 160
_QUIET_ROUNDS = 60


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
class GangWorld(LedgerHistory):
    """The world of one history; each step chooses by the random numbers of a seed."""

    revision: int = 1
    pods: dict[str, tuple[int, str]] = field(default_factory=dict)  # revision and workload of each stored pod
    workloads: dict[str, Workload] = field(default_factory=dict)
    stored: dict[str, Creation] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def play(self) -> None:
        """Take the steps, then let everything become quiet."""
        steps = (
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
        self._take_steps(steps, _STEPS)
        for creation in list(self.in_flight.values()):
            self._resolve(creation, is_stored=True)
            self._check()
        for _ in range(_QUIET_ROUNDS):
            self._tick()
            self._recount(at=self.revision)
            self._check()
        self._check_charged(len(self.pods))

    def _create_ledger(self) -> Ledger:
        return Ledger(create_gpus(HARD), resources=frozenset({GPU}))

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
            uid,
            "team-a",
            uid,
            Amounts(),
            create_gpus(size),
            nonce,
            Operation.CREATE,
            create_gpus(HARD),
            workload=workload,
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
        return stored + sum(each.owner == workload.uid != uid for uid, each in self.in_flight.items())

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

    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        del self.in_flight[creation.uid]
        if not is_stored:
            self.lost.add(creation.uid)
        elif creation.uid in self.workloads:
            self.workloads[creation.uid].is_stored = True
        else:
            self.revision += 1
            self.pods[creation.uid] = self.revision, creation.owner
            self.stored[creation.uid] = creation

    def _stop(self) -> None:
        if self.workloads:
            self.random.choice(list(self.workloads.values())).has_stopped = True

    def _recount(self, at: int | None = None) -> None:
        revision = self.random.randint(self.ledger.pods_revision, self.revision) if at is None else at
        counted = {uid: create_gpus(1) for uid, (stored_at, _) in self.pods.items() if stored_at <= revision}
        snapshot = UsageSnapshot(revision, 0, "", frozenset({GPU}), counted, create_gpus(len(counted)))
        self.ledger = self.rules.recount(self.ledger, snapshot)

    def _tick(self) -> None:
        """Let time pass, and make the live reads that are due."""
        for uid in self._pass_time():
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


def drop_reservation(ledger: Ledger, uid: str) -> Ledger:
    """Return the ledger without a reservation, and with equal sums otherwise."""
    others = {each: kept for each, kept in ledger.reservations.items() if each != uid}
    return replace(ledger, reservations=MappingProxyType(others)).with_reservations(others.items())
