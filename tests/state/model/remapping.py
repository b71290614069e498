"""A class of devices that comes, goes, and is changed, under a cap whose name it may stand for (rules 8 and 10).

The cap counts one unit. What some consumers count depends on the mapping of their class, which is unknown while
the class does not exist. A claim uses its device once it is allocated, which is decided again; a pod uses its device as
soon as it is stored.

Writes of a ledger are atomic here, and counts are those of the stored consumers as they are: `world` and `returning`
cover late writes and replicas that are behind in pods and claims. Here a replica may be behind in classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_HARD = 1
_MAX_CHANGES = 2
_REPLICAS = 2

MAPPED, OTHER, MISSING = "mapped", "other", "missing"
"""The class leads to the counted name, or to another one, or does not exist."""


class Consumer(NamedTuple):
    """A claim or a pod of one unit: whether it counts by the mapping of the class alone, and needs an allocation."""

    name: str
    is_by_mapping: bool
    needs_allocation: bool


CLAIM = Consumer("a claim", is_by_mapping=True, needs_allocation=True)
POD = Consumer("a pod by the counted name", is_by_mapping=False, needs_allocation=False)
CLAIM_BY_CLASS = Consumer("a claim of the class of the cap", is_by_mapping=False, needs_allocation=True)
POD_BY_RESOURCE = Consumer("a pod by the extended resource", is_by_mapping=True, needs_allocation=False)


class Ledger(NamedTuple):
    """The used amount, the consumers with a reservation, and whether it counts by the mapping of the class.

    It `is_remapped` while it may count consumers that passed no guard, since it counted by other mappings then.
    """

    used: int = 0
    reserved: frozenset[int] = frozenset()
    is_mapped: bool = False
    is_remapped: bool = False

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + len(self.reserved)


class State(NamedTuple):
    """The states of the class, what each replica has seen of them, the ledger, and the consumers by number.

    `allowed` are creations that may be stored, `uncharged` those of them that no ledger has. `admitted` are consumers
    that were admitted, created or allocated, by a replica that did not see the class lead elsewhere.
    """

    history: tuple[str, ...] = (MAPPED,)
    seen: tuple[int, ...] = (0,) * _REPLICAS
    ledger: Ledger = Ledger(is_mapped=True)
    allowed: frozenset[int] = frozenset()
    uncharged: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()
    allocated: frozenset[int] = frozenset()
    admitted: frozenset[int] = frozenset()
    deleted: frozenset[int] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Remapping:
    """Consumers under a cap of one, and two replicas, which may be behind in what they see of the class."""

    mutants: Mutants = frozenset()
    consumers: tuple[Consumer, ...] = (CLAIM, CLAIM, POD)

    def start(self) -> State:
        """Return the state without consumers, in which the class leads to the counted name."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold.

        The consumers that were admitted under the name use no more than the cap allows.
        """
        using = {each for each in state.stored & state.admitted if not self.consumers[each].needs_allocation}
        used = len(using | (state.allocated & state.admitted))
        return f"over: the cap allows {_HARD}, and {used} are used" if used > _HARD else ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        yield from _list_events(state)
        for replica, number in enumerate(state.seen):
            for later in range(number + 1, len(state.history)):
                seen = (*state.seen[:replica], later, *state.seen[replica + 1 :])
                yield f"replica {replica} sees the class: {state.history[later]}", state._replace(seen=seen)
        for view in sorted({state.history[each] for each in state.seen}):
            for number, consumer in enumerate(self.consumers):
                yield from self._create(state, view, number, consumer)
                if consumer.needs_allocation and number in state.stored - state.allocated:
                    yield from self._allocate(state, view, number, consumer)
            yield f"a recount by a class that is {view}", state._replace(ledger=self._recount(state, view))
            yield from self._forget(state, view)
        yield from self._confirm(state)

    def _create(self, state: State, view: str, number: int, consumer: Consumer) -> Iterator[Step]:
        if number in state.allowed | state.stored | state.deleted:
            return
        if view == MISSING and consumer.is_by_mapping and "admits_unseen" not in self.mutants:
            return  # no decision
        name = f"{consumer.name} ({number}) is allowed by a class that is {view}"
        admitted = state.admitted if consumer.is_by_mapping and view == OTHER else state.admitted | {number}
        allowed = state._replace(allowed=state.allowed | {number}, admitted=admitted)
        ledger = self._prepare(state, view)
        if consumer.is_by_mapping and not (view == MAPPED or self._knows_mapping(ledger)):
            yield name, allowed._replace(uncharged=state.uncharged | {number})
        elif ledger.charged < _HARD:
            yield name, allowed._replace(ledger=ledger._replace(reserved=ledger.reserved | {number}))

    def _allocate(self, state: State, view: str, number: int, consumer: Consumer) -> Iterator[Step]:
        """Decide on an allocation where the ledger may count consumers that passed no guard.

        A claim that counts the same before and after is not decided otherwise, since its creation was.
        """
        if view == MISSING and consumer.is_by_mapping and "admits_unseen" not in self.mutants:
            return
        name = f"the allocation of {consumer.name} ({number}) by a class that is {view}"
        ledger = self._prepare(state, view)
        if consumer.is_by_mapping and not (view == MAPPED or self._knows_mapping(ledger)):
            yield name, state._replace(allocated=state.allocated | {number})
            return
        if ledger.is_remapped and "decides_no_allocation" not in self.mutants:
            if "older_count" not in self.mutants:
                ledger = self._recount(state, view)
            if ledger.charged > _HARD:  # the claim itself is counted
                return
        admitted = state.admitted if view == OTHER else state.admitted | {number}
        yield name, state._replace(ledger=ledger, allocated=state.allocated | {number}, admitted=admitted)

    def _knows_mapping(self, ledger: Ledger) -> bool:
        return ledger.is_mapped and "maps_by_today" not in self.mutants

    def _prepare(self, state: State, view: str) -> Ledger:
        """Return the ledger as it decides: counted again if the replica sees a mapping that it does not count by."""
        return self._recount(state, view) if view == MAPPED and not state.ledger.is_mapped else state.ledger

    def _recount(self, state: State, view: str) -> Ledger:
        """Return the ledger as counted by the mapping of the replica and by those that it was counted by before."""
        before = state.ledger
        is_mapped = view == MAPPED or before.is_mapped
        if view == MISSING and "forgets_missing" in self.mutants:
            is_mapped = False
        if view == OTHER and "maps_by_today" in self.mutants:
            is_mapped = False
        return Ledger(
            sum(is_mapped or not self.consumers[each].is_by_mapping for each in state.stored),
            before.reserved - state.stored,
            is_mapped,
            before.is_remapped or (is_mapped and not before.is_mapped),
        )

    def _forget(self, state: State, view: str) -> Iterator[Step]:
        """End a mapping that the replica does not see once no consumer that is counted or reserved counts by it."""
        ledger = self._recount(state, view)
        if view == MAPPED or not ledger.is_mapped:
            return
        reserved = frozenset[int]() if "forgets_reserved" in self.mutants else ledger.reserved
        if not any(self.consumers[each].is_by_mapping for each in state.stored | reserved):
            yield f"the mapping ends by a class that is {view}", state._replace(ledger=ledger._replace(is_mapped=False))

    def _confirm(self, state: State) -> Iterator[Step]:
        """End the decisions on allocations: everything counted is within the limit, and nothing else can be stored."""
        ledger = self._recount(state, OTHER) if state.ledger.is_mapped else state.ledger
        if not ledger.is_remapped or (ledger.charged > _HARD and "confirms_above" not in self.mutants):
            return
        if not state.uncharged or "confirms_early" in self.mutants:
            yield "the mapping is confirmed", state._replace(ledger=ledger._replace(is_remapped=False))


def _list_events(state: State) -> Iterator[Step]:
    """Yield the events of the cluster: the class changes, and creations are stored, dropped and undone."""
    if len(state.history) <= _MAX_CHANGES:
        for each in (MAPPED, OTHER, MISSING):
            if each != state.history[-1]:
                yield f"the class is {each}", state._replace(history=(*state.history, each))
    for number in state.allowed:
        after = state._replace(allowed=state.allowed - {number}, uncharged=state.uncharged - {number})
        yield f"consumer {number} is stored", after._replace(stored=state.stored | {number})
    for number in state.stored:
        after = state._replace(stored=state.stored - {number}, allocated=state.allocated - {number})
        yield f"consumer {number} is deleted", after._replace(deleted=state.deleted | {number})
