"""Claims for devices under one cap: their amount changes when they are allocated, and again when they no longer are.

A claim may name alternatives. Until it is allocated it counts as the largest of them; then it counts as the devices
that it got. No one is asked before an allocation ends, so the amount of a claim may grow without a decision. The API
server asks before a claim is stored (a creation) and before an allocation is stored (an update of its status).

Writes of a ledger are atomic here, and a replica may decide with any revision of the claims that it may have: `world`
and `returning` cover writes that are late and replicas that are behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_HARD = 2
_ALTERNATIVES = ((1, 2), (1,))
"""The alternatives of each claim, in the order in which the scheduler tries them."""
_MAX_EVENTS = 7
_UNALLOCATED = 0
_DELETED = -1

Event = tuple[int, int]
"""A claim, and the number of devices that it has from then on; 0 if none is allocated, -1 if the claim is deleted."""


class Attempt(NamedTuple):
    """An event that is allowed; it is stored only if the claim is still that of the revision `base` (0: a creation)."""

    claim: int
    amount: int
    base: int = 0


class Reservation(NamedTuple):
    """A reservation of a claim: the amounts that are counted and requested, and whether the claim is created."""

    claim: int
    counted: int
    requested: int
    creates: bool


class Ledger(NamedTuple):
    """The used amount as of a revision of the claims, and the reservations."""

    used: int = 0
    revision: int = 0
    reservations: tuple[Reservation, ...] = ()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + sum(max(0, each.requested - each.counted) for each in self.reservations)


class State(NamedTuple):
    """The events (a revision is their number), the ledger, and the attempts that are allowed but not stored yet.

    `refused` are claims whose first allocation was rejected although nothing but admitted creations came before.
    """

    history: tuple[Event, ...] = ()
    ledger: Ledger = Ledger()
    allowed: tuple[Attempt, ...] = ()
    refused: tuple[int, ...] = ()


Step = tuple[str, State]


def list_devices(history: tuple[Event, ...]) -> dict[int, int]:
    """Return the number of devices of each stored claim."""
    devices: dict[int, int] = {}
    for claim, amount in history:
        devices[claim] = amount
        if amount == _DELETED:
            del devices[claim]
    return devices


@dataclass(frozen=True)
class Claiming:
    """Two claims, the first of which asks for one device or two; the cap allows two."""

    mutants: Mutants = frozenset()

    def start(self) -> State:
        """Return the state without claims."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold.

        No more devices are allocated than the cap allows. A claim whose creation was admitted gets its devices, as long
        as no allocation has ended before. A ledger never counts more than the largest alternatives of the claims.
        """
        allocated = sum(list_devices(state.history).values())
        if allocated > _HARD:
            return f"over: the cap allows {_HARD}, and {allocated} devices are allocated"
        if state.refused:
            return "refused: a claim that was admitted does not get its devices"
        if state.ledger.charged > sum(map(max, _ALTERNATIVES)):
            return f"overcharge: {state.ledger.charged} are charged"
        return ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        if len(state.history) < _MAX_EVENTS:
            yield from _list_events(state)
        for attempt in state.allowed:
            yield f"{_describe(attempt)} is dropped", state._replace(allowed=_remove_attempt(state.allowed, attempt))
        devices = list_devices(state.history)
        for claim, alternatives in enumerate(_ALTERNATIVES):
            if not _find_revision(state.history, claim):
                yield from self._create(state, claim)
            if devices.get(claim) == _UNALLOCATED:
                for amount in alternatives:
                    yield from self._allocate(state, claim, amount)
        for revision in range(state.ledger.revision, len(state.history) + 1):
            yield f"a recount at {revision}", state._replace(ledger=self._recount(state, revision))
        yield from _expire(state)

    def _create(self, state: State, claim: int) -> Iterator[Step]:
        attempt = Attempt(claim, _UNALLOCATED)
        if attempt in state.allowed:
            return
        reservation = Reservation(claim, 0, self._count(claim, _UNALLOCATED, is_created=True), creates=True)
        ledger = state.ledger._replace(reservations=tuple(sorted({*state.ledger.reservations, reservation})))
        if ledger.charged <= _HARD:
            yield f"claim {claim} is allowed", _allow(state, ledger, attempt)

    def _allocate(self, state: State, claim: int, amount: int) -> Iterator[Step]:
        """Decide on an allocation (rule 10): by a ledger that counts the claim as it is stored, without devices.

        The allocated devices must be within the amount that all other claims leave free. A claim with one alternative
        counts the same before and after, so nothing is decided.
        """
        stored_at = _find_revision(state.history, claim)
        attempt = Attempt(claim, amount, stored_at)
        if attempt in state.allowed:
            return
        if len(_ALTERNATIVES[claim]) == 1:
            yield f"{_describe(attempt)} is allowed", _allow(state, state.ledger, attempt)
            return
        ledgers = [state.ledger]
        if "no_recount" not in self.mutants and state.ledger.revision < stored_at:
            ledgers = [self._recount(state, revision) for revision in range(stored_at, len(state.history) + 1)]
        for ledger in ledgers:
            if "allocation_unchecked" in self.mutants or self._count_others(ledger, claim) + amount <= _HARD:
                settled = ledger
                if "settles_when_allowed" in self.mutants:
                    settled = ledger._replace(used=ledger.used - max(_ALTERNATIVES[claim]) + amount)
                yield f"{_describe(attempt)} is allowed", _allow(state, settled, attempt)
            elif not _has_ended(state.history):
                yield f"{_describe(attempt)} is rejected", state._replace(refused=(*state.refused, claim))

    def _count_others(self, ledger: Ledger, claim: int) -> int:
        """Return the charged amount without that of the claim, which counts as its largest alternative."""
        is_created = any(each.claim == claim for each in ledger.reservations)
        own = self._count(claim, _UNALLOCATED, is_created=is_created)
        if "skips_reservations" in self.mutants:
            return ledger.used - own
        return ledger.charged - own

    def _recount(self, state: State, revision: int) -> Ledger:
        """Return the ledger as counted from the claims of a revision: stored claims replace their creations."""
        devices = list_devices(state.history[:revision])
        seen = {claim for claim, _ in state.history[:revision]}
        left = tuple(each for each in state.ledger.reservations if each.claim not in seen)
        return Ledger(sum(self._count(claim, amount) for claim, amount in devices.items()), revision, left)

    def _count(self, claim: int, devices: int, *, is_created: bool = False) -> int:
        """Return the amount that a claim counts: its devices, or the largest alternative."""
        if devices > 0:
            return devices
        if "free_until_allocated" in self.mutants and not is_created:
            return 0
        return _ALTERNATIVES[claim][0] if "first_alternative" in self.mutants else max(_ALTERNATIVES[claim])


def _list_events(state: State) -> Iterator[Step]:
    """Yield the events that may be stored now: allowed attempts, the end of an allocation, and deletions."""
    for attempt in state.allowed:
        if attempt.base == _find_revision(state.history, attempt.claim):
            stored = _store(state, (attempt.claim, attempt.amount))
            yield f"{_describe(attempt)} is stored", stored._replace(allowed=_remove_attempt(state.allowed, attempt))
    for claim, amount in list_devices(state.history).items():
        if amount > 0:
            yield f"the allocation of claim {claim} ends", _store(state, (claim, _UNALLOCATED))
        else:
            yield f"claim {claim} is deleted", _store(state, (claim, _DELETED))


def _expire(state: State) -> Iterator[Step]:
    """Remove the reservation of a creation that can no longer be stored (rule 6)."""
    for each in state.ledger.reservations:
        if Attempt(each.claim, _UNALLOCATED) not in state.allowed and not _find_revision(state.history, each.claim):
            left = tuple(other for other in state.ledger.reservations if other != each)
            yield (
                f"the reservation of claim {each.claim} expires",
                state._replace(ledger=state.ledger._replace(reservations=left)),
            )


def _find_revision(history: tuple[Event, ...], claim: int) -> int:
    """Return the revision of the last event of a claim, or 0."""
    return max((revision for revision, event in enumerate(history, 1) if event[0] == claim), default=0)


def _describe(attempt: Attempt) -> str:
    if attempt.amount:
        return f"the allocation of {attempt.amount} to claim {attempt.claim}"
    return f"the creation of claim {attempt.claim}"


def _has_ended(history: tuple[Event, ...]) -> bool:
    """Return whether an allocation has ended: then claims may count more than was admitted."""
    allocated: set[int] = set()
    for claim, amount in history:
        if amount > 0:
            allocated.add(claim)
        elif claim in allocated:
            return True
    return False


def _allow(state: State, ledger: Ledger, attempt: Attempt) -> State:
    return state._replace(ledger=ledger, allowed=tuple(sorted([*state.allowed, attempt])))


def _store(state: State, event: Event) -> State:
    return state._replace(history=(*state.history, event))


def _remove_attempt(attempts: tuple[Attempt, ...], attempt: Attempt) -> tuple[Attempt, ...]:
    return tuple(each for each in attempts if each != attempt)
