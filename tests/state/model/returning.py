"""A namespace returns to a shared cap with a pod that was created while it was away (rule 5).

Pod 0 is created in that namespace while no cap counts it, pod 1 in another member namespace. The cap allows one pod.
Revisions are those of etcd: each stored pod and each relabelling has one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_MAX_WRITES = 2
_HARD = 1


class Ledger(NamedTuple):
    """The number of counted pods, the revisions of pods and namespaces, and whether pod 1 has a reservation."""

    used: int = 0
    pods_revision: int = 0
    namespaces_revision: int = 0
    is_reserved: bool = False


class Replica(NamedTuple):
    """The revisions up to which one replica has seen pods and namespaces."""

    pods_revision: int = 0
    namespaces_revision: int = 0


class Write(NamedTuple):
    """A write that was sent; `ignores_pod` if its writer has seen pod 0 return, and the ledger does not count it."""

    ledger: Ledger
    name: str
    ignores_pod: bool = False


class State(NamedTuple):
    """The revision of etcd, those of pod 0 and of the return (0 before), the ledger, the writes and the replicas."""

    revision: int = 0
    created_at: int = 0
    returned_at: int = 0
    ledger: Ledger = Ledger()
    writes: tuple[Write, ...] = ()
    replicas: tuple[Replica, Replica] = (Replica(), Replica())
    has_ignored_pod: bool = False


Step = tuple[str, State]


@dataclass(frozen=True)
class Returning:
    """Two replicas, one of which may be behind in pods, in namespaces or in both."""

    mutants: Mutants = frozenset()

    def start(self) -> State:
        """Return the state in which the namespace is away and has no pod."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: no reservation ignores a pod that its writer has seen return."""
        return "unseen: pod 1 is reserved by a count from before pod 0 returned" if state.has_ignored_pod else ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        revision = state.revision + 1
        if not state.created_at and not state.returned_at:
            yield "pod 0 is stored under no cap", state._replace(revision=revision, created_at=revision)
        if not state.returned_at:
            yield "the namespace returns", state._replace(revision=revision, returned_at=revision)
        for write in state.writes:
            yield (
                f"{write.name} arrives",
                state._replace(ledger=write.ledger, writes=(), has_ignored_pod=write.ignores_pod),
            )
        for number in range(len(state.replicas)):
            yield from self._list_replica_steps(state, number)

    def _list_replica_steps(self, state: State, number: int) -> Iterator[Step]:
        replica, ledger = state.replicas[number], state.ledger
        for revision in {state.created_at, state.revision}:
            if replica.pods_revision < revision:
                yield (
                    f"replica {number} sees pods up to {revision}",
                    _update(state, number, replica._replace(pods_revision=revision)),
                )
        if replica.namespaces_revision < state.returned_at:
            yield (
                f"replica {number} sees the return",
                _update(state, number, replica._replace(namespaces_revision=state.returned_at)),
            )
        if replica.pods_revision >= ledger.pods_revision and replica.namespaces_revision >= ledger.namespaces_revision:
            yield from _send(state, Write(_recount(state, number), f"the recount of replica {number}"))
        yield from self._reserve(state, number)

    def _reserve(self, state: State, number: int) -> Iterator[Step]:
        replica, ledger = state.replicas[number], state.ledger
        if replica.namespaces_revision < ledger.namespaces_revision:
            return  # this replica must catch up first
        if self._may_lack_pods(ledger, replica):
            if replica.pods_revision < ledger.pods_revision:
                return
            ledger = _recount(state, number)
        if ledger.used + ledger.is_reserved >= _HARD:
            return
        has_seen_pod = bool(state.created_at) and replica.pods_revision >= state.created_at
        has_seen_return = bool(state.returned_at) and replica.namespaces_revision == state.returned_at
        yield from _send(
            state,
            Write(
                ledger._replace(is_reserved=True),
                f"the reservation of replica {number}",
                ignores_pod=has_seen_pod and has_seen_return and not ledger.used,
            ),
        )

    def _may_lack_pods(self, ledger: Ledger, replica: Replica) -> bool:
        """Return whether the ledger may lack pods that this replica sees."""
        if ledger.namespaces_revision != replica.namespaces_revision:
            return True
        if "no_pods_guard" in self.mutants:
            return False
        return ledger.pods_revision < replica.namespaces_revision and ledger.pods_revision < replica.pods_revision


def _recount(state: State, number: int) -> Ledger:
    """Return the ledger as this replica counts it: pod 0 counts if the replica has seen it and the return."""
    replica = state.replicas[number]
    counts_pod = state.created_at and replica.pods_revision >= state.created_at and replica.namespaces_revision
    return Ledger(int(bool(counts_pod)), replica.pods_revision, replica.namespaces_revision, state.ledger.is_reserved)


def _send(state: State, write: Write) -> Iterator[Step]:
    if len(state.writes) < _MAX_WRITES and write.ledger != state.ledger and write not in state.writes:
        yield f"{write.name} is sent", state._replace(writes=tuple(sorted([*state.writes, write])))


def _update(state: State, number: int, replica: Replica) -> State:
    replicas = (replica, state.replicas[1]) if number == 0 else (state.replicas[0], replica)
    return state._replace(replicas=replicas)
