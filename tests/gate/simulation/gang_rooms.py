"""Workloads as a whole: each one that is admitted must find room for all its pods, until its reservation may end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.ground_truth import GroundTruth
from tests.state.informers.pods import GPU

GANG_SECONDS = 16.0
"""The time after which the rest of a reservation ends without further pods, in these schedules."""


class _Sighting(NamedTuple):
    """The attempt that last wrote the reservation of a workload, and when the first ledger with it was stored."""

    attempt: str
    stored_at: float


@dataclass
class GangRooms:
    """The rooms of admitted workloads by ledger; `may_come` returns whether the pods of a workload may still come.

    A workload has no room any more once its reservation may have ended, or its namespace has left the ledger.
    """

    truth: GroundTruth
    may_come: Callable[[str], bool]

    def __post_init__(self) -> None:
        """Start without workloads."""
        self._rooms: dict[tuple[LedgerKey, str], int] = {}
        self._sightings: dict[tuple[LedgerKey, str], _Sighting] = {}

    def open(self, key: LedgerKey, uid: str, size: int) -> None:
        """Record that a ledger has room for all pods of a workload."""
        self._rooms[key, uid] = size

    def close(self, namespace: str) -> None:
        """Drop the rooms of a namespace that has moved to another group."""
        for key, uid in list(self._rooms):
            workload = self.truth.workloads.get(uid) or self.truth.groups.get(uid)
            if workload is None or workload.namespace == namespace:
                del self._rooms[key, uid]

    def list_violations(self, key: LedgerKey, ledger: Ledger) -> Iterator[str]:
        """Yield the workloads that have no room for the rest of their pods in a ledger that was just stored."""
        if ledger.initializer:
            return
        now = self.truth.now
        for uid, reservation in ledger.reservations.items():
            seen = self._sightings.get((key, uid))
            if reservation.kind is ConsumerKind.WORKLOAD and (seen is None or seen.attempt != reservation.attempt):
                self._sightings[key, uid] = _Sighting(reservation.attempt, now)
        for (room_key, uid), size in list(self._rooms.items()):
            if room_key != key:
                continue
            missing = size - len(self.truth.pods_of_workloads.get(uid, ()))
            room = self._count_room(ledger, uid)
            if not self.may_come(uid) or (room < missing and now >= self._sightings[key, uid].stored_at + GANG_SECONDS):
                del self._rooms[key, uid]
            elif room < missing:
                yield f"half: {uid} has room for {room} of the {missing} pods that it still makes"

    def _count_room(self, ledger: Ledger, uid: str) -> int:
        """Return what is left of a workload, and what pods have taken over that are not stored yet."""
        reservation, stored = ledger.reservations.get(uid), self.truth.pods_of_workloads.get(uid, ())
        left = reservation.compute_reserved().get(GPU, 0) if reservation is not None else 0
        in_flight = (
            each.taken for pod, each in ledger.reservations.items() if each.workload == uid and pod not in stored
        )
        return left + sum(taken.get(GPU, 0) for taken in in_flight)
