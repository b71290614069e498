"""The ledger of one resource and its transitions; `mutants` names the rules that are replaced by wrong ones."""

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import NamedTuple

Mutants = frozenset[str]
Attempt = tuple[int, int]
"""The number of a request and the number of its attempt."""


class Reservation(NamedTuple):
    """A reservation. `first_seen` is the same for every observer, as early as possible, which is the worst case."""

    uid: str
    counted: int
    requested: int
    attempt: Attempt
    single_attempt: bool
    creates: bool
    first_seen: int


class Ledger(NamedTuple):
    """The used amount as of a revision of pods, and the reservations by UID."""

    used: int
    pods_revision: int
    reservations: tuple[Reservation, ...] = ()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + sum(max(0, each.requested - each.counted) for each in self.reservations)

    def find_reservation(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod."""
        return next((each for each in self.reservations if each.uid == uid), None)

    def remove_reservation(self, uid: str) -> "Ledger":
        """Return the ledger without the reservation of a pod."""
        return self._replace(reservations=tuple(each for each in self.reservations if each.uid != uid))

    def with_reservation(self, reservation: Reservation) -> "Ledger":
        """Return the ledger with a reservation instead of the pod's earlier one."""
        others = self.remove_reservation(reservation.uid).reservations
        return self._replace(reservations=tuple(sorted([*others, reservation])))


class Outcome(Enum):
    """The result of the transition reserve."""

    NEEDS_NO_WRITE = auto()
    RESERVED = auto()
    EXCEEDED = auto()


class ReservationRequest(NamedTuple):
    """The amounts of the stored and of the requested pod, and the attempt."""

    uid: str
    current: int
    requested: int
    attempt: Attempt
    creates: bool


def reserve(
    ledger: Ledger, request: ReservationRequest, hard: int, now: int, mutants: Mutants
) -> tuple[Outcome, Ledger]:
    """Reserve the requested amount (rule 2)."""
    earlier = ledger.find_reservation(request.uid)
    if earlier is None and request.requested <= request.current:
        return Outcome.NEEDS_NO_WRITE, ledger
    if earlier is not None and _is_taken_for_done(earlier, request, mutants):
        return Outcome.NEEDS_NO_WRITE, ledger
    after = ledger.with_reservation(_merge(earlier, request, now, mutants))
    grows = after.charged > ledger.charged if "guards_growth" in mutants else request.requested > request.current
    if grows and after.charged > hard:
        return Outcome.EXCEEDED, ledger
    return Outcome.RESERVED, after


def _is_taken_for_done(earlier: Reservation, request: ReservationRequest, mutants: Mutants) -> bool:
    if "retry_without_write" in mutants and earlier.requested >= request.requested:
        return True
    return "change_first_wins" in mutants and not request.creates


def _merge(earlier: Reservation | None, request: ReservationRequest, now: int, mutants: Mutants) -> Reservation:
    uid, current, requested, attempt, creates = request
    if earlier is None or ("change_replaces" in mutants and not creates):
        return Reservation(uid, current, requested, attempt, single_attempt=True, creates=creates, first_seen=now)
    return Reservation(
        uid,
        earlier.counted if "merge_keeps_base" in mutants else min(earlier.counted, current),
        max(earlier.requested, requested),
        attempt,
        single_attempt="release_by_last" in mutants,
        creates=earlier.creates and creates,
        first_seen=earlier.first_seen if "age_by_uid" in mutants else now,
    )


def release(ledger: Ledger, uid: str, attempt: Attempt, mutants: Mutants) -> Ledger:
    """Release the reservation of an attempt (rule 3)."""
    reservation = ledger.find_reservation(uid)
    if reservation is None:
        return ledger
    is_own = "release_by_uid" in mutants or (reservation.attempt == attempt and reservation.single_attempt)
    return ledger.remove_reservation(uid) if is_own else ledger


class UsageSnapshot(NamedTuple):
    """The state of a watch: the amount of each stored pod, and the pods whose deletion it has seen."""

    pods_revision: int
    used_by_pod: Mapping[str, int]
    deleted: Collection[str] = ()


def recount(ledger: Ledger, snapshot: UsageSnapshot, mutants: Mutants) -> Ledger:
    """Recount from a snapshot (rule 4)."""
    if snapshot.pods_revision < ledger.pods_revision and "no_as_of" not in mutants:
        return ledger
    remaining = (_count(each, snapshot, mutants) for each in ledger.reservations)
    revision = snapshot.pods_revision
    if "no_as_of" not in mutants:
        revision = max(revision, ledger.pods_revision)
    used = sum(snapshot.used_by_pod.values())
    return Ledger(used, revision, tuple(each for each in remaining if each is not None))


def _count(reservation: Reservation, snapshot: UsageSnapshot, mutants: Mutants) -> Reservation | None:
    if reservation.uid in snapshot.deleted:
        return None
    used = snapshot.used_by_pod.get(reservation.uid)
    if used is None:
        return reservation._replace(counted=0)
    is_settled = "settle_on_sight" in mutants or ("settle_by_size" in mutants and used >= reservation.requested)
    if reservation.creates or is_settled:
        return None
    return reservation if "no_rebase" in mutants else reservation._replace(counted=used)
