"""The reservations of a shared ledger are limited, for each namespace and in all (the bounds on reservations).

A sender in one namespace has creations that reserve and are never stored: of pods, of claims, of pods that take over
amounts from their workload, and by a user who may exceed limits. It sends some of them again. Their reservations expire
at any time. A victim in another namespace creates pods, which are stored and counted. The amounts never exceed a limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

MAX_RESERVATIONS = 4
SHARE = 2
"""Divisor of the largest number: the part of one namespace."""
_SENDER, _VICTIM = "sender", "victim"
_KINDS = ("pod", "claim", "taking pod", "privileged pod")
_GUARDED = ("pod", "claim")
"""The kinds whose amounts the guard checks."""
_ATTEMPTS = 6
_VICTIMS = 3


class Reservation(NamedTuple):
    """A reservation of one consumer."""

    namespace: str
    kind: str
    number: int

    def __str__(self) -> str:
        """Return the consumer as text."""
        return f"{self.kind} {self.number} of the {self.namespace}"


class State(NamedTuple):
    """The reservations, the number of creations that either namespace has sent, and the invariant that is violated."""

    reservations: frozenset[Reservation] = frozenset()
    sent: int = 0
    created: int = 0
    mistake: str = ""


@dataclass(frozen=True)
class Sharing:
    """A sender that may fill the ledger, and a victim that has a few pods in it at a time."""

    mutants: Mutants = frozenset()

    def start(self) -> State:
        """Return the state with an empty ledger."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold."""
        return state.mistake

    def list_steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield every next step and the state after it."""
        if state.sent < _ATTEMPTS:
            for kind in _KINDS:
                yield from self._create(state._replace(sent=state.sent + 1), Reservation(_SENDER, kind, state.sent))
        for each in sorted(state.reservations):
            if each.namespace == _SENDER:
                yield from self._create(state, each)
                yield f"{each} expires", state._replace(reservations=state.reservations - {each})
            else:
                yield f"{each} is counted", state._replace(reservations=state.reservations - {each})
        if state.created < _VICTIMS:
            victim = Reservation(_VICTIM, "pod", state.created)
            yield from self._create(state._replace(created=state.created + 1), victim)

    def _create(self, state: State, reservation: Reservation) -> Iterator[tuple[str, State]]:
        if self._is_accepted(state.reservations, reservation):
            yield f"{reservation} is reserved", state._replace(reservations=state.reservations | {reservation})
            return
        name = f"{reservation} has to wait"
        own = [each for each in state.reservations if each.namespace == reservation.namespace]
        if reservation in state.reservations:
            yield name, state._replace(mistake=f"repeated: {reservation} has a reservation, and must wait for one")
        elif len(own) < MAX_RESERVATIONS // SHARE:
            yield name, state._replace(mistake=f"crowded: {reservation} must wait for those of another namespace")

    def _is_accepted(self, reservations: frozenset[Reservation], reservation: Reservation) -> bool:
        """Return whether an attempt may write this reservation."""
        if reservation in reservations and "counts_repeated" not in self.mutants:
            return True
        if len(reservations) >= MAX_RESERVATIONS:
            return False
        if "amounts_only" in self.mutants:
            return True
        if "guarded_only" in self.mutants and reservation.kind not in _GUARDED:
            return True
        own = [each for each in reservations if self._is_counted(each, reservation)]
        return len(own) < MAX_RESERVATIONS // SHARE

    def _is_counted(self, each: Reservation, reservation: Reservation) -> bool:
        """Return whether a reservation counts for the share of another one."""
        if "of_all" in self.mutants:
            return True
        if "by_kind" in self.mutants and each.kind != reservation.kind:
            return False
        return each.namespace == reservation.namespace
