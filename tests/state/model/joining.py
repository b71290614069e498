"""The pods of a workload take over what is reserved for all of them together (rule 11).

Each workload has two pods that start together, and the cap allows three. The gate charges the creation of a workload
for both. Its controller creates pods until two are stored, and one more for each that the API server loses after the
gate. A controller may stop: then its pods do not come. Pod x belongs to no workload. An attempt of a creation may
arrive at a ledger a second time, after another one was allowed.

A creation that is allowed is stored or lost. Revisions are the number of stored events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

WORKLOADS = ("A", "B")
OTHER = "x"
_SIZE = 2
_PODS_PER_WORKLOAD = 3  # two, and one in place of a lost one


class Ledger(NamedTuple):
    """The used amount and its revision, the reserved pods, those of them that took over, and what is left of workloads.

    `left` has the amount for each workload with a reservation, and `came` the counted pods that took over amounts.
    """

    used: int = 0
    revision: int = 0
    reserved: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    left: tuple[tuple[str, int], ...] = ()
    came: frozenset[str] = frozenset()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + len(self.reserved) + sum(amount for _, amount in self.left)

    def find_left(self, workload: str) -> int | None:
        """Return what is left of a workload, None without a reservation."""
        return dict(self.left).get(workload)

    def with_left(self, workload: str, amount: int | None) -> "Ledger":
        """Return the ledger with another amount left of a workload, or without its reservation."""
        amounts = {**dict(self.left), workload: amount}
        return self._replace(left=tuple(sorted((name, each) for name, each in amounts.items() if each is not None)))


class State(NamedTuple):
    """The stored objects in their order, the ledger, the allowed creations in flight, the lost ones, and what stopped.

    `repeated` are the creations of which another attempt has arrived, `expired` the workloads whose reservation ended
    because no pod came.
    """

    history: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Joining:
    """Workloads A and B of two pods each, and pod x, under a cap of `hard`."""

    mutants: Mutants = frozenset()
    hard: int = 3
    workloads: tuple[str, ...] = WORKLOADS
    losses: int = 1

    def start(self) -> State:
        """Return the state in which nothing is stored."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: the cap, whole workloads, and nothing reserved for ever."""
        stored = len(_list_pods(state.history))
        if stored > self.hard:
            return f"over: the cap allows {self.hard}, and {stored} pods are stored"
        for workload in self.workloads:
            if self._is_half(state, workload):
                return f"half: there is no room for the rest of {workload}"
        if not state.allowed and not any(after != state for _, after in self._list_ledger_steps(state)):
            needed = stored + sum(self._count_missing(state, workload) for workload in self.workloads)
            if state.ledger.charged > needed:
                return f"kept: {state.ledger.charged} are charged, and {needed} are stored or will come"
        return ""

    def _is_half(self, state: State, workload: str) -> bool:
        """Return whether a workload whose controller is at work has no room for its next pod, and waits for no expiry.

        A pod that the API server lost has its amount until that expires.
        """
        if self._count_missing(state, workload) == 0 or workload in state.expired:
            return False
        pending = {pod for pod in state.ledger.reserved & state.lost if pod[0] == workload}
        return not pending and self._create_pod(state, _name_pod(state, workload)) is None

    def _count_missing(self, state: State, workload: str) -> int:
        """Return the number of pods that the controller of a stored workload still makes."""
        if workload not in state.history or workload in state.stopped:
            return 0
        made = [pod for pod in {*_list_pods(state.history), *state.allowed} if pod[0] == workload and pod != workload]
        return _SIZE - len(made)

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for workload in self.workloads:
            if workload not in {*state.history, *state.allowed, *state.lost}:
                ledger = state.ledger.with_left(workload, _SIZE)
                if ledger.charged <= self.hard:
                    yield f"{workload} is allowed", state._replace(ledger=ledger, allowed=state.allowed | {workload})
            if self._count_missing(state, workload):
                pod = _name_pod(state, workload)
                if pod and (after := self._create_pod(state, pod)) is not None:
                    yield f"{pod} is allowed", after
                yield f"the controller of {workload} stops", state._replace(stopped=state.stopped | {workload})
        if OTHER not in {*state.history, *state.allowed, *state.lost}:
            after = self._create_pod(state, OTHER)
            if after is not None:
                yield f"{OTHER} is allowed", after
        for name in sorted(state.allowed):
            without = state._replace(allowed=state.allowed - {name})
            yield f"{name} is stored", without._replace(history=(*state.history, name))
            if len(state.lost) < self.losses:
                yield f"{name} is lost", without._replace(lost=state.lost | {name})
        yield from self._list_repetitions(state)
        yield from self._list_ledger_steps(state)

    def _create_pod(self, state: State, pod: str) -> State | None:
        """Return the state in which the gate allows a pod; None if the cap has no room for it."""
        if not pod:
            return None
        ledger, workload = state.ledger, pod[0]
        if pod == OTHER and "foreign_takes" in self.mutants:
            workload = next((name for name, left in ledger.left if left), workload)
        left = ledger.find_left(workload)
        after = ledger._replace(reserved=ledger.reserved | {pod})
        if left:
            after = after.with_left(workload, left - 1)._replace(taken=ledger.taken | {pod})
            if "takes_unreserved" in self.mutants:
                after = after._replace(reserved=ledger.reserved)
        elif after.charged > self.hard:
            return None
        return state._replace(ledger=after, allowed=state.allowed | {pod})

    def _list_repetitions(self, state: State) -> Iterator[Step]:
        """Yield the second attempts of creations that were allowed: each finds its reservation as it is."""
        for name in sorted({*state.history, *state.allowed} - state.repeated):
            after, ledger = state._replace(repeated=state.repeated | {name}), state.ledger
            left = ledger.find_left(name[0])
            if name in self.workloads and left is not None:
                falls = "counted_falls" in self.mutants
                yield f"{name} arrives again", after._replace(ledger=ledger.with_left(name, _SIZE) if falls else ledger)
            elif name in ledger.reserved and left and "taken_twice" in self.mutants:
                yield f"{name} arrives again", after._replace(ledger=ledger.with_left(name[0], left - 1))
            elif name not in {*self.workloads, *ledger.reserved}:
                yield f"{name} arrives again", after._replace(ledger=self._reserve_again(ledger, name))

    def _reserve_again(self, ledger: Ledger, pod: str) -> Ledger:
        """Return the ledger after an attempt for a pod whose reservation a recount has removed."""
        again, left = ledger._replace(reserved=ledger.reserved | {pod}), ledger.find_left(pod[0])
        if left and (pod not in ledger.came or "taken_again" in self.mutants):
            return again.with_left(pod[0], left - 1)._replace(taken=ledger.taken | {pod})
        return again if again.charged <= self.hard else ledger

    def _list_ledger_steps(self, state: State) -> Iterator[Step]:
        """Yield the recounts and the expiries."""
        for revision in range(state.ledger.revision, len(state.history) + 1):
            yield f"a recount at {revision}", state._replace(ledger=self._recount(state, revision))
        for pod in sorted(state.ledger.reserved & state.lost):
            yield f"the reservation of {pod} expires", state._replace(ledger=self._expire(state.ledger, pod))
        for workload, _ in state.ledger.left:
            if "kept_for_ever" in self.mutants:
                continue
            without = state._replace(ledger=state.ledger.with_left(workload, None))
            if workload in state.lost:
                yield f"the reservation of {workload} expires", without
            elif workload in state.stopped or (workload in state.history and not self._count_missing(state, workload)):
                yield f"no pod of {workload} comes", without._replace(expired=state.expired | {workload})
            elif "expires_at_once" in self.mutants and workload in state.history:
                yield f"the reservation of {workload} expires", without

    def _recount(self, state: State, revision: int) -> Ledger:
        pods = _list_pods(state.history[:revision])
        reserved = state.ledger.reserved - set(pods)
        ledger = state.ledger._replace(
            used=len(pods),
            revision=revision,
            reserved=reserved,
            taken=state.ledger.taken & reserved,
            came=state.ledger.came | (state.ledger.taken & set(pods)),
        )
        for workload, left in state.ledger.left:
            in_flight = {pod for pod in ledger.taken if pod[0] == workload}
            if not left and (not in_flight or "ends_in_flight" in self.mutants):
                ledger = ledger.with_left(workload, None)
        return ledger._replace(came=frozenset(pod for pod in ledger.came if ledger.find_left(pod[0]) is not None))

    def _expire(self, ledger: Ledger, pod: str) -> Ledger:
        after = ledger._replace(reserved=ledger.reserved - {pod}, taken=ledger.taken - {pod})
        left = ledger.find_left(pod[0])
        if pod in ledger.taken and left is not None and "half_back" not in self.mutants:
            after = after.with_left(pod[0], left + 1)
        return after


def _list_pods(history: tuple[str, ...]) -> list[str]:
    return [name for name in history if name not in WORKLOADS]


def _name_pod(state: State, workload: str) -> str:
    """Return the name of the next pod of a workload, empty if it has had all."""
    known = {*state.history, *state.allowed, *state.lost}
    names = (f"{workload}{number}" for number in range(1, _PODS_PER_WORKLOAD + 1))
    return next((name for name in names if name not in known), "")
