"""A namespace enters a shared cap by its label, which one of two replicas may not have seen yet (rule 5).

Pod 0 is created in that namespace, pod 1 in another member namespace. The cap allows one pod.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_MAX_WRITES = 2
_HARD = 1
_PODS = (0, 1)


class Ledger(NamedTuple):
    """The number of counted pods, the revisions of pods and namespaces, and the pods with a reservation."""

    used: int = 0
    pods_revision: int = 0
    namespaces_revision: int = 0
    reservations: tuple[int, ...] = ()


class Write(NamedTuple):
    """A write in flight; `pod` is the one that it reserves for, -1 for a recount."""

    ledger: Ledger
    name: str
    pod: int = -1


class Pod(NamedTuple):
    """The progress of a creation: idle, allowed or stored; and whether the pod was charged."""

    phase: str = "idle"
    is_charged: bool = False


class State(NamedTuple):
    """The stored pods, the ledger, and for each replica the number of pods seen and whether it has seen the label."""

    stored: tuple[int, ...] = ()
    ledger: Ledger = Ledger()
    writes: tuple[Write, ...] = ()
    seen: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    pods: tuple[Pod, Pod] = (Pod(), Pod())


Step = tuple[str, State]


@dataclass(frozen=True)
class Entering:
    """Two replicas, one of which may be behind in pods, in namespaces or in both."""

    mutants: Mutants = frozenset()

    def start(self) -> State:
        """Return the state before any request."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: the stored pods that were charged do not exceed the cap."""
        charged = sum(state.pods[pod].is_charged for pod in state.stored)
        return f"over: {charged} of {_HARD}" if charged > _HARD else ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for replica in range(len(state.seen)):
            yield from self._list_replica_steps(state, replica)
        for write in state.writes:
            pods = state.pods
            if write.pod >= 0 and pods[write.pod].phase == "idle":
                pods = _put(pods, write.pod, Pod("allowed", is_charged=True))
            yield f"{write.name} arrives", state._replace(ledger=write.ledger, writes=(), pods=pods)
        for pod in _PODS:
            if state.pods[pod].phase == "allowed":
                pods = _put(state.pods, pod, state.pods[pod]._replace(phase="stored"))
                yield f"pod {pod} is stored", state._replace(stored=(*state.stored, pod), pods=pods)

    def _list_replica_steps(self, state: State, replica: int) -> Iterator[Step]:
        pods, namespaces = state.seen[replica]
        if pods < len(state.stored):
            yield f"replica {replica} sees a pod", _update(state, replica, (pods + 1, namespaces))
        if not namespaces:
            yield f"replica {replica} sees the label", _update(state, replica, (pods, 1))
        is_current = namespaces >= state.ledger.namespaces_revision or "no_ns_guard" in self.mutants
        if pods >= state.ledger.pods_revision and is_current:
            yield from _send(state, Write(_recount(state, replica), f"the recount of replica {replica}"))
        for pod in _PODS:
            if state.pods[pod].phase == "idle":
                yield from self._reserve(state, replica, pod)

    def _reserve(self, state: State, replica: int, pod: int) -> Iterator[Step]:
        pods, namespaces = state.seen[replica]
        if pod == 0 and not namespaces:
            allowed = _put(state.pods, pod, Pod("allowed"))
            yield f"replica {replica} allows pod 0, which is under no cap there", state._replace(pods=allowed)
            return
        ledger = state.ledger
        if "no_ns_guard" not in self.mutants and namespaces != ledger.namespaces_revision:
            if namespaces < ledger.namespaces_revision or pods < ledger.pods_revision:
                return  # this replica must catch up first
            ledger = _recount(state, replica)
        if ledger.used + len(ledger.reservations) < _HARD:
            after = ledger._replace(reservations=tuple(sorted([*ledger.reservations, pod])))
            yield from _send(state, Write(after, f"the reservation of replica {replica} for pod {pod}", pod))


def _recount(state: State, replica: int) -> Ledger:
    """Return the ledger as this replica counts it: pod 0 counts if the replica has seen the label."""
    pods, namespaces = state.seen[replica]
    counted = [pod for pod in state.stored[:pods] if pod == 1 or namespaces]
    reservations = tuple(pod for pod in state.ledger.reservations if pod not in counted)
    return Ledger(len(counted), pods, namespaces, reservations)


def _send(state: State, write: Write) -> Iterator[Step]:
    if len(state.writes) < _MAX_WRITES and write.ledger != state.ledger and write not in state.writes:
        yield f"{write.name} is sent", state._replace(writes=tuple(sorted([*state.writes, write])))


def _update(state: State, replica: int, seen: tuple[int, int]) -> State:
    return state._replace(seen=(*state.seen[:replica], seen, *state.seen[replica + 1 :]))


def _put(pods: tuple[Pod, Pod], number: int, pod: Pod) -> tuple[Pod, Pod]:
    return (pod, pods[1]) if number == 0 else (pods[0], pod)
