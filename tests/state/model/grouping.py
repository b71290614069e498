"""The first pod of a PodGroup reserves for all pods of the group, and the others take over (rule 11).

Each group has two pods that start together, and the cap allows three. Groups A and B have the same name in two
namespaces. Group A may be deleted with its pods, and group C be made under its name. The gate reads the group of a pod
by its name, and knows it by its UID. If the ledger has no reservation of the group, and the view of the replica shows
no stored pod of it, the creation of a pod first reserves for two. The view may lag. Pods may end, and be replaced.

A creation that is allowed is stored or lost. Revisions are the number of stored events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_A, _B, _C = "A", "B", "C"
_SIZE = 2
_PODS_PER_GROUP = 3  # two, and one in place of a lost or ended one
_END, _REMADE = "-", "C!"


class Ledger(NamedTuple):
    """The used amount and its revision, the reserved pods with the group that each took over from, and what is left.

    `left` has the amount for each group with a reservation.
    """

    used: int = 0
    revision: int = 0
    reserved: frozenset[str] = frozenset()
    taken: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, int], ...] = ()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + len(self.reserved) + sum(amount for _, amount in self.left)

    def find_left(self, group: str) -> int | None:
        """Return what is left of a group, None without a reservation."""
        return dict(self.left).get(group)

    def with_left(self, group: str, amount: int | None) -> "Ledger":
        """Return the ledger with another amount left of a group, or without its reservation."""
        amounts = {**dict(self.left), group: amount}
        return self._replace(left=tuple(sorted((name, each) for name, each in amounts.items() if each is not None)))

    def drop_reservations(self, pods: frozenset[str]) -> "Ledger":
        """Return the ledger without the reservations of these pods."""
        taken = tuple((pod, group) for pod, group in self.taken if pod not in pods)
        return self._replace(reserved=self.reserved - pods, taken=taken)


class State(NamedTuple):
    """The stored events in their order, the ledger, the allowed creations in flight, the lost ones, and what stopped.

    An event is a pod that is stored, a pod that has ended, or the group C in the place of A. `begun` are the groups of
    which a pod was allowed, `expired` those whose reservation ended because no pod came.
    """

    history: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Grouping:
    """The groups A and B of two pods each under a cap of `hard`, and C in the place of A if it `is_remade`.

    `losses` creations are lost, and `ends` pods end.
    """

    mutants: Mutants = frozenset()
    hard: int = 3
    losses: int = 0
    ends: int = 1
    is_remade: bool = False

    def start(self) -> State:
        """Return the state in which nothing is stored."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: the cap, whole groups, replacements, nothing reserved for ever."""
        stored = len(_list_pods(state.history))
        if stored > self.hard:
            return f"over: the cap allows {self.hard}, and {stored} pods are stored"
        for group in _list_groups(state):
            pod = _name_pod(state, group)
            if self._is_half(state, group, pod):
                return f"half: there is no room for the rest of {group}"
            if self._is_refused(state, group, pod):
                return f"refused: {pod} has room, and is the replacement of a pod of {group}"
        if not state.allowed and not any(after != state for _, after in self._list_ledger_steps(state)):
            needed = stored + sum(_count_missing(state, group) for group in _list_groups(state) if group in state.begun)
            if state.ledger.charged > needed:
                return f"kept: {state.ledger.charged} are charged, and {needed} are stored or will come"
        return ""

    def _is_half(self, state: State, group: str, pod: str) -> bool:
        """Return whether a group that has begun has no room for its next pod, and waits for no expiry."""
        if group not in state.begun - state.expired or not pod or not _count_missing(state, group):
            return False
        pending = {each for each in state.ledger.reserved & state.lost if each[0] == group}
        return not pending and any(self._create_pod(state, pod, seen) is None for seen in _list_views(state))

    def _is_refused(self, state: State, group: str, pod: str) -> bool:
        """Return whether a replica that sees all rejects the replacement of a pod, although the cap has room for it."""
        has_started = any(each[0] == group for each in _list_pods(state.history))
        if not pod or not has_started or state.ledger.charged + 1 > self.hard:
            return False
        return self._create_pod(state, pod, len(state.history)) is None

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for group in _list_groups(state):
            pod = _name_pod(state, group)
            if pod and group not in state.stopped and _count_running(state, group) < _SIZE:
                for seen in _list_views(state):
                    if (after := self._create_pod(state, pod, seen)) is not None:
                        yield f"{pod} is allowed by a replica that has seen {seen} events", after
                yield f"the controller of {group} stops", state._replace(stopped=state.stopped | {group})
        yield from self._list_events(state)
        yield from self._list_ledger_steps(state)

    def _list_events(self, state: State) -> Iterator[Step]:
        """Yield what becomes of allowed creations, the ends of pods, and the group that is made again."""
        for name in sorted(state.allowed):
            without = state._replace(allowed=state.allowed - {name})
            if name[0] in _list_groups(state):
                yield f"{name} is stored", without._replace(history=(*state.history, name))
            if len(state.lost) < self.losses or name[0] not in _list_groups(state):
                yield f"{name} is lost", without._replace(lost=state.lost | {name})
        for name in _list_pods(state.history):
            if sum(each.endswith(_END) for each in state.history) < self.ends:
                yield f"{name} ends", state._replace(history=(*state.history, name + _END))
        if self.is_remade and _REMADE not in state.history and _A in state.begun:
            yield "A is deleted, and C is made under its name", state._replace(history=(*state.history, _REMADE))

    def _find_key(self, group: str) -> str:
        """Return that by which the ledger knows a group: its UID."""
        if "joins_by_name" in self.mutants:
            return "g"
        return _A if "takes_over_by_name" in self.mutants and group == _C else group

    def _create_pod(self, state: State, pod: str, seen: int) -> State | None:
        """Return the state in which a replica allows a pod; None if the cap has no room for it.

        The replica has seen this number of events.
        """
        ledger, group = state.ledger, pod[0]
        key, begun = self._find_key(group), state.begun
        has_started = any(each[0] == group for each in _list_pods(state.history[:seen]))
        if "reserves_again" in self.mutants:
            has_started = False
        left = ledger.find_left(key)
        if "reserves_each" in self.mutants and not has_started:
            left = (left or 0) + _SIZE
            ledger = ledger.with_left(key, left)
        elif left is None and not has_started:
            left = _SIZE
            ledger = ledger.with_left(key, left)
        if ledger.charged > self.hard and ledger is not state.ledger:
            return None
        after = ledger._replace(reserved=ledger.reserved | {pod})
        if left:
            after = after.with_left(key, left - 1)._replace(taken=tuple(sorted({*ledger.taken, (pod, key)})))
            begun |= {group}
        elif after.charged > self.hard:
            return None
        if "half_at_first" in self.mutants and state.ledger.find_left(key) is None and not has_started:
            after = after.with_left(key, None)
        return state._replace(ledger=after, allowed=state.allowed | {pod}, begun=begun)

    def _list_ledger_steps(self, state: State) -> Iterator[Step]:
        """Yield the recounts and the expiries."""
        for revision in range(state.ledger.revision, len(state.history) + 1):
            yield f"a recount at {revision}", state._replace(ledger=self._recount(state, revision))
        for pod in sorted(state.ledger.reserved & state.lost):
            yield f"the reservation of {pod} expires", state._replace(ledger=_expire(state.ledger, pod))
        for group, _ in state.ledger.left:
            without = state._replace(ledger=state.ledger.with_left(group, None), expired=state.expired | {group})
            if group not in _list_groups(state) and "expires_by_name" not in self.mutants:
                yield f"the reservation of {group} expires", without
            elif group in state.stopped or (group in _list_groups(state) and not _count_missing(state, group)):
                yield f"no pod of {group} comes", without

    def _recount(self, state: State, revision: int) -> Ledger:
        seen = state.history[:revision]
        stored = frozenset(name for name in seen if name not in _REMADE and not name.endswith(_END))
        ledger = state.ledger.drop_reservations(stored)._replace(used=len(_list_pods(seen)), revision=revision)
        for group, left in state.ledger.left:
            if not left and not any(owner == group for _, owner in ledger.taken):
                ledger = ledger.with_left(group, None)
        return ledger


def _list_groups(state: State) -> tuple[str, ...]:
    """Return the groups that exist."""
    return (_C if _REMADE in state.history else _A, _B)


def _list_views(state: State) -> tuple[int, ...]:
    """Return the numbers of events that a replica may have seen: all, and those of the last count."""
    return tuple({len(state.history), state.ledger.revision})


def _list_pods(history: tuple[str, ...]) -> list[str]:
    """Return the pods that are stored and have not ended; those of A go with it."""
    is_remade = _REMADE in history
    ended = {name.removesuffix(_END) for name in history if name.endswith(_END)}
    pods = [name for name in history if name != _REMADE and not name.endswith(_END) and name not in ended]
    return [name for name in pods if not (is_remade and name[0] == _A)]


def _count_running(state: State, group: str) -> int:
    """Return the number of pods of a group that are stored and have not ended, or are in flight."""
    return sum(name[0] == group for name in {*_list_pods(state.history), *state.allowed})


def _count_missing(state: State, group: str) -> int:
    """Return the number of pods that the controller of a group still makes for the first time."""
    if group in state.stopped:
        return 0
    made = {name for name in (*state.history, *state.allowed) if name[0] == group and name[-1] not in {_END, "!"}}
    return max(_SIZE - len(made), 0)


def _name_pod(state: State, group: str) -> str:
    """Return the name of the next pod of a group, empty if it has had all."""
    known = {*state.history, *state.allowed, *state.lost}
    names = (f"{group}{number}" for number in range(1, _PODS_PER_GROUP + 1))
    return next((name for name in names if name not in known), "")


def _expire(ledger: Ledger, pod: str) -> Ledger:
    """Return the ledger without the reservation of a pod that is not stored, which gives back what it took over."""
    group = dict(ledger.taken).get(pod)
    after, left = ledger.drop_reservations(frozenset({pod})), ledger.find_left(group) if group else None
    return after if group is None or left is None else after.with_left(group, left + 1)
