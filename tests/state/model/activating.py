"""A cap becomes active: it counts first, and enforces from then on (rule 7).

Pods are created where a replica may not have the cap yet, and where it counts already. The cap allows one pod. The
record, which the leader writes, tells a cap that was never active from one whose ledger is lost.

An attempt has two steps, between which its replica may freeze: it reads the record, then it writes the ledger.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants
from tests.state.model.world import BOUND

_HARD = 1
_NEVER = -1


class Ledger(NamedTuple):
    """A ledger: counting as of a new cap, closed as a lost one, or active; the counted pods and the reservations."""

    phase: str  # counting, closed, active
    since: int
    used: tuple[int, ...] = ()
    reservations: tuple[int, ...] = ()


class Pod(NamedTuple):
    """The progress of a creation: idle, reading, allowed, stored, dropped or rejected.

    `was_recorded` is the record as the attempt read it, `is_bound` whether the cap was active before the attempt began.
    """

    phase: str = "idle"
    arrived_at: int = 0
    was_recorded: bool = False
    is_bound: bool = False


class State(NamedTuple):
    """The state of the world; `loaded_at` are the times at which the replicas loaded the cap.

    `was_active` is whether a ledger was ever active, and `views` is the record as each replica saw it last, which only
    a mutant uses.
    """

    now: int = 0
    ledger: Ledger | None = None
    is_recorded: bool = False
    loaded_at: tuple[int, ...] = (_NEVER, _NEVER)
    views: tuple[bool, ...] = (False, False)
    pods: tuple[Pod, ...] = ()
    losses: int = 0
    was_active: bool = False
    violation: str = ""


Step = tuple[str, State]


@dataclass(frozen=True)
class Activating:
    """Two replicas that load a new cap one after the other; a user may delete the ledger once."""

    mutants: Mutants = frozenset()
    pods: int = 2
    ticks: int = 3
    losses: int = 1

    def start(self) -> State:
        """Return the state before the cap exists."""
        return State(pods=(Pod(),) * self.pods)

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold.

        An attempt that begins after the record is written, or a ledger is active, is allowed only if there is room.
        None waits before that.
        """
        return state.violation

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for replica, loaded_at in enumerate(state.loaded_at):
            if loaded_at == _NEVER:
                yield (
                    f"replica {replica} loads the cap",
                    state._replace(loaded_at=_put(state.loaded_at, replica, state.now)),
                )
            if "cached_record" in self.mutants and state.views[replica] != state.is_recorded:
                yield (
                    f"replica {replica} sees the record",
                    state._replace(views=_put(state.views, replica, state.is_recorded)),
                )
        for number, pod in enumerate(state.pods):
            yield from self._list_pod_steps(state, number, pod)
        yield from self._list_leader_steps(state)
        if state.ledger is not None and state.losses < self.losses:
            yield "a user deletes the ledger", state._replace(ledger=None, losses=state.losses + 1)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _list_pod_steps(self, state: State, number: int, pod: Pod) -> Iterator[Step]:
        if pod.phase == "idle":
            for replica, loaded_at in enumerate(state.loaded_at):
                if loaded_at == _NEVER:
                    allowed = Pod("allowed", state.now)
                    yield f"replica {replica} allows pod {number} without the cap", _set_pod(state, number, allowed)
                    continue
                was_recorded = state.views[replica] if "cached_record" in self.mutants else state.is_recorded
                reading = Pod("reading", state.now, was_recorded, state.is_recorded or state.was_active)
                yield f"replica {replica} reads the record for pod {number}", _set_pod(state, number, reading)
        if pod.phase == "reading":
            yield self._reserve(state, number, pod)
        if pod.phase == "allowed" and state.now - pod.arrived_at < BOUND:
            yield f"pod {number} is stored", _set_pod(state, number, pod._replace(phase="stored"))

    def _reserve(self, state: State, number: int, pod: Pod) -> Step:
        """Write the ledger: compared and swapped, so that it is the one that is stored at this moment."""
        is_new = not pod.was_recorded
        ledger = state.ledger
        if ledger is None:
            opens = is_new or "absence_is_new" in self.mutants
            ledger = Ledger("counting" if opens else "closed", state.now)
        is_open = is_new or "absence_is_new" in self.mutants or "trusts_the_ledger" in self.mutants
        reserved = ledger._replace(reservations=tuple(sorted({*ledger.reservations, number})))
        if ledger.phase == "counting" and is_open:
            if "admits_without_reservation" in self.mutants:
                reserved = ledger
            return f"pod {number} is admitted while the cap counts", self._allow(state, number, pod, reserved)
        if ledger.phase == "active":
            if len({*ledger.used, *ledger.reservations, number}) <= _HARD:
                return f"pod {number} is reserved", self._allow(state, number, pod, reserved)
            return f"pod {number} is rejected", _set_pod(state, number, pod._replace(phase="rejected"))
        after = _set_pod(state._replace(ledger=ledger), number, Pod())
        if not state.is_recorded:
            after = after._replace(violation="refused: a pod waits for a cap that was never active")
        return f"pod {number} waits for the ledger", after

    def _allow(self, state: State, number: int, pod: Pod, ledger: Ledger) -> State:
        """Store the ledger, and allow the pod if the API server still waits for the attempt."""
        if state.now - pod.arrived_at >= BOUND:
            return _set_pod(state._replace(ledger=ledger), number, pod._replace(phase="dropped"))
        others = [
            each
            for uid, each in enumerate(state.pods)
            if uid != number
            and (each.phase == "stored" or (each.phase == "allowed" and state.now - each.arrived_at < BOUND))
        ]
        after = _set_pod(state._replace(ledger=ledger), number, pod._replace(phase="allowed"))
        if pod.is_bound and len(others) >= _HARD:
            after = after._replace(violation=f"over: a pod beside {len(others)} under an active cap of {_HARD}")
        return after

    def _list_leader_steps(self, state: State) -> Iterator[Step]:
        """Write the record once every replica has had the cap for the bound, then activate."""
        ledger, loaded_at = state.ledger, max(state.loaded_at)
        if ledger is None and state.loaded_at[0] != _NEVER:
            phase = "closed" if state.is_recorded else "counting"
            yield "replica 0 creates the ledger", state._replace(ledger=Ledger(phase, state.now))
        is_loaded = _NEVER not in state.loaded_at
        is_due = is_loaded and (state.now >= loaded_at + BOUND or "no_bound" in self.mutants)
        if is_due and not state.is_recorded and self._may_record(state):
            yield "the leader records the cap", state._replace(is_recorded=True)
        if ledger is None or ledger.phase == "active" or not is_due:
            return
        is_known = state.now >= ledger.since + BOUND or "no_bound" in self.mutants
        may_activate = state.is_recorded or ledger.phase == "closed" or "records_later" in self.mutants
        if is_known and may_activate:
            stored = tuple(number for number, pod in enumerate(state.pods) if pod.phase == "stored")
            reservations = tuple(number for number in ledger.reservations if number not in stored)
            active = Ledger("active", state.now, stored, reservations)
            yield "the ledger is activated", state._replace(ledger=active, was_active=True)

    def _may_record(self, state: State) -> bool:
        """Return whether the record may be written; the mutant waits for an active ledger."""
        return "records_later" not in self.mutants or (state.ledger is not None and state.ledger.phase == "active")


def _put(values: tuple, index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:index], value, *values[index + 1 :])


def _set_pod(state: State, number: int, pod: Pod) -> State:
    return state._replace(pods=_put(state.pods, number, pod))
