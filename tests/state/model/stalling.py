"""An etcd that stalls for longer than the in-flight bound may commit its waiting transactions afterwards (rule 6).

The API server gives up a creation at its deadline, but not the transaction in etcd's queue. Reads are answered
meanwhile, before the queue. Two pods request the one place under the cap; an observer may expire the reservation of the
first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants
from tests.state.model.world import BOUND

_HARD = 1
_PODS = (0, 1)


class State(NamedTuple):
    """The state of both pods, of etcd and of the observer.

    `first_seen` is the time at which the observer saw the reservation of pod 0, or -1.
    """

    now: int = 0
    queue: tuple[str, ...] = ()
    stored: tuple[int, ...] = ()
    reservations: tuple[int, ...] = ()
    phases: tuple[str, str] = ("calling", "calling")  # then allowed, sent
    arrived_at: tuple[int, int] = (0, 0)
    first_seen: int = -1
    is_confirmed: bool = False
    expiry: str = ""  # not due, sent, done
    is_stalled: bool = False


Step = tuple[str, State]


@dataclass(frozen=True)
class Stalling:
    """The world; `ticks` is its duration."""

    mutants: Mutants = frozenset()
    ticks: int = 5

    def start(self) -> State:
        """Return the state before any request."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: the stored pods do not exceed the cap."""
        return f"over: {len(state.stored)} of {_HARD}" if len(state.stored) > _HARD else ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for pod in _PODS:
            yield from _list_pod_steps(state, pod)
        yield ("etcd continues" if state.is_stalled else "etcd stalls"), state._replace(is_stalled=not state.is_stalled)
        if state.queue and not state.is_stalled:
            yield f"etcd commits {state.queue[0]}", _commit(state._replace(queue=state.queue[1:]), state.queue[0])
        yield from self._list_observer_steps(state)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _list_observer_steps(self, state: State) -> Iterator[Step]:
        """Write the ledger through etcd's queue, then read the pod, then expire the old reservation."""
        if 0 not in state.reservations or state.first_seen < 0 or state.now - state.first_seen < BOUND:
            return
        needs_no_write = "read_then_drop" in self.mutants
        if not state.is_confirmed and "the write" not in state.queue and not needs_no_write:
            yield "the ledger is written unchanged", state._replace(queue=(*state.queue, "the write"))
        if not state.expiry and (state.is_confirmed or needs_no_write):
            if 0 in state.stored:
                yield "the live read finds the pod", state._replace(expiry="not due")
            else:
                yield "the live read finds no pod", state._replace(expiry="sent", queue=(*state.queue, "the expiry"))


def _list_pod_steps(state: State, pod: int) -> Iterator[Step]:
    phase = state.phases[pod]
    is_free = len(state.reservations) < _HARD and state.expiry != "sent"
    if phase == "calling" and is_free and not state.is_stalled:
        arrived_at = (state.now, state.arrived_at[1]) if pod == 0 else (state.arrived_at[0], state.now)
        after = state._replace(
            reservations=(*state.reservations, pod), phases=_put(state, pod, "allowed"), arrived_at=arrived_at
        )
        yield f"the gate reserves for pod {pod}", after._replace(first_seen=state.now) if pod == 0 else after
    if phase == "allowed" and state.now - state.arrived_at[pod] < BOUND:
        queue = (*state.queue, f"pod {pod}")
        yield f"pod {pod} is sent to etcd", state._replace(queue=queue, phases=_put(state, pod, "sent"))


def _commit(state: State, transaction: str) -> State:
    if transaction == "the write":
        return state._replace(is_confirmed=True)
    if transaction == "the expiry":
        return state._replace(reservations=tuple(pod for pod in state.reservations if pod != 0), expiry="done")
    return state._replace(stored=(*state.stored, int(transaction[-1])))


def _put(state: State, pod: int, phase: str) -> tuple[str, str]:
    return (phase, state.phases[1]) if pod == 0 else (state.phases[0], phase)
