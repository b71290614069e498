"""An etcd that stalls for longer than the bound: what has come to it may commit after all (rule 6).

The API server gives a creation up at its deadline, but not what etcd has in its queue. Reads are answered meanwhile, or
before what waits. Two pods ask for the one place that the cap has; whoever observes may drop the first one's promise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Wrong
from tests.state.model.world import BOUND

_HARD = 1
_PODS = (0, 1)


class State(NamedTuple):
    """Everything that is so; `known` is since when the first pod's promise is, -1 where there is none."""

    now: int = 0
    queue: tuple[str, ...] = ()
    stored: tuple[int, ...] = ()
    promised: tuple[int, ...] = ()
    phases: tuple[str, str] = ("calling", "calling")  # then allowed, sent
    arrived: tuple[int, int] = (0, 0)
    known: int = -1
    marked: bool = False
    dropping: str = ""  # there, sent, done
    is_up: bool = True


Step = tuple[str, State]


@dataclass(frozen=True)
class Stalling:
    """The world; `ticks` is how long it lasts."""

    wrong: Wrong = frozenset()
    ticks: int = 5

    def begin(self) -> State:
        """Nobody has asked for anything."""
        return State()

    def broken(self, state: State) -> str:
        """Both are stored."""
        return f"over: {len(state.stored)} of {_HARD}" if len(state.stored) > _HARD else ""

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that can happen next."""
        for pod in _PODS:
            yield from _of_pod(state, pod)
        yield ("etcd stalls" if state.is_up else "etcd goes on"), state._replace(is_up=not state.is_up)
        if state.is_up and state.queue:
            yield f"etcd commits: {state.queue[0]}", _committed(state._replace(queue=state.queue[1:]), state.queue[0])
        yield from self._observed(state)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _observed(self, state: State) -> Iterator[Step]:
        """The promise is old: first a write, through etcd's queue; then a read; then the promise is dropped."""
        if 0 not in state.promised or state.known < 0 or state.now - state.known < BOUND:
            return
        careless = "read_then_drop" in self.wrong
        if not state.marked and "mark" not in state.queue and not careless:
            yield "a ledger is written", state._replace(queue=(*state.queue, "mark"))
        if not state.dropping and (state.marked or careless):
            if 0 in state.stored:
                yield "the pod is found", state._replace(dropping="there")
            else:
                yield "no pod is found", state._replace(dropping="sent", queue=(*state.queue, "drop"))


def _of_pod(state: State, pod: int) -> Iterator[Step]:
    phase = state.phases[pod]
    if phase == "calling" and len(state.promised) < _HARD and state.dropping != "sent" and state.is_up:
        arrived = (state.now, state.arrived[1]) if pod == 0 else (state.arrived[0], state.now)
        after = state._replace(promised=(*state.promised, pod), phases=_put(state, pod, "allowed"), arrived=arrived)
        yield f"pod {pod} is promised room", after._replace(known=state.now) if pod == 0 else after
    if phase == "allowed" and state.now - state.arrived[pod] < BOUND:
        queue = (*state.queue, f"pod {pod}")
        yield f"pod {pod} is sent to etcd", state._replace(queue=queue, phases=_put(state, pod, "sent"))


def _committed(state: State, what: str) -> State:
    if what == "mark":
        return state._replace(marked=True)
    if what == "drop":
        return state._replace(promised=tuple(pod for pod in state.promised if pod != 0), dropping="done")
    return state._replace(stored=(*state.stored, int(what[-1])))


def _put(state: State, pod: int, phase: str) -> tuple[str, str]:
    return (phase, state.phases[1]) if pod == 0 else (state.phases[0], phase)
