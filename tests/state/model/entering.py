"""A namespace has just come under a shared cap by its label; one of two replicas may not have seen that yet (rule 5).

Pod 0 is to be created in the namespace that comes, pod 1 in one that was there. The cap allows one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Wrong

_MOST_WRITES = 2
_HARD = 1
_PODS = (0, 1)


class Ledger(NamedTuple):
    """What is counted as of which pods and namespaces, and which pods are promised room."""

    tally: int = 0
    as_of: int = 0
    ns_as_of: int = 0
    promised: tuple[int, ...] = ()


class Write(NamedTuple):
    """On its way; `pod` is whom it promises room, -1 for a recount."""

    ledger: Ledger
    told: str
    pod: int = -1


class Pod(NamedTuple):
    """Where its creation is: idle, allowed or stored; and whether it was charged."""

    phase: str = "idle"
    charged: bool = False


class State(NamedTuple):
    """Everything that is so; `seen` is how many pods, and whether the namespace's label, each replica has seen."""

    stored: tuple[int, ...] = ()
    ledger: Ledger = Ledger()
    writes: tuple[Write, ...] = ()
    seen: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    pods: tuple[Pod, Pod] = (Pod(), Pod())


Step = tuple[str, State]


@dataclass(frozen=True)
class Entering:
    """The world."""

    wrong: Wrong = frozenset()

    def begin(self) -> State:
        """Nobody has asked for anything."""
        return State()

    def broken(self, state: State) -> str:
        """More is stored that was charged to the cap than it allows."""
        held = sum(state.pods[pod].charged for pod in state.stored)
        return f"over: {held} of {_HARD}" if held > _HARD else ""

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that can happen next."""
        for replica in range(len(state.seen)):
            yield from self._of_replica(state, replica)
        for write in state.writes:
            pods = state.pods
            if write.pod >= 0 and pods[write.pod].phase == "idle":
                pods = _put(pods, write.pod, Pod("allowed", charged=True))
            yield f"it arrives: {write.told}", state._replace(ledger=write.ledger, writes=(), pods=pods)
        for pod in _PODS:
            if state.pods[pod].phase == "allowed":
                pods = _put(state.pods, pod, state.pods[pod]._replace(phase="stored"))
                yield f"pod {pod} is stored", state._replace(stored=(*state.stored, pod), pods=pods)

    def _of_replica(self, state: State, replica: int) -> Iterator[Step]:
        pods, namespaces = state.seen[replica]
        if pods < len(state.stored):
            yield f"replica {replica} sees a pod", _sees(state, replica, (pods + 1, namespaces))
        if not namespaces:
            yield f"replica {replica} sees the label", _sees(state, replica, (pods, 1))
        if pods >= state.ledger.as_of and (namespaces >= state.ledger.ns_as_of or "no_ns_guard" in self.wrong):
            yield from _sent(state, Write(_recounted(state, replica), f"recount by replica {replica}"))
        for pod in _PODS:
            if state.pods[pod].phase == "idle":
                yield from self._asked(state, replica, pod)

    def _asked(self, state: State, replica: int, pod: int) -> Iterator[Step]:
        pods, namespaces = state.seen[replica]
        if pod == 0 and not namespaces:
            allowed = _put(state.pods, pod, Pod("allowed"))
            yield f"replica {replica} lets pod 0 in, which is under no cap there", state._replace(pods=allowed)
            return
        ledger = state.ledger
        if "no_ns_guard" not in self.wrong and namespaces != ledger.ns_as_of:
            if namespaces < ledger.ns_as_of or pods < ledger.as_of:
                return  # it has to catch up first
            ledger = _recounted(state, replica)
        if ledger.tally + len(ledger.promised) < _HARD:
            promising = ledger._replace(promised=tuple(sorted([*ledger.promised, pod])))
            yield from _sent(state, Write(promising, f"promise to pod {pod} by replica {replica}", pod))


def _recounted(state: State, replica: int) -> Ledger:
    """The ledger as this replica counts it: pods of the namespace that comes count where it has seen the label."""
    pods, namespaces = state.seen[replica]
    counted = [pod for pod in state.stored[:pods] if pod == 1 or namespaces]
    promised = tuple(pod for pod in state.ledger.promised if pod not in counted)
    return Ledger(len(counted), pods, namespaces, promised)


def _sent(state: State, write: Write) -> Iterator[Step]:
    if len(state.writes) < _MOST_WRITES and write.ledger != state.ledger and write not in state.writes:
        yield f"it is sent: {write.told}", state._replace(writes=tuple(sorted([*state.writes, write])))


def _sees(state: State, replica: int, seen: tuple[int, int]) -> State:
    return state._replace(seen=(*state.seen[:replica], seen, *state.seen[replica + 1 :]))


def _put(pods: tuple[Pod, Pod], number: int, pod: Pod) -> tuple[Pod, Pod]:
    return (pod, pods[1]) if number == 0 else (pods[0], pod)
