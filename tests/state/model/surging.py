"""The pods of a controller that rolls may exceed the hard limit by the surge, for a time (rule 12).

A controller has `SIZE` old pods, which fill the cap. It creates as many new ones, and `max_surge` pods more than
`SIZE` at a time; it deletes an old pod only as long as `SIZE` pods remain. Pod x belongs to another controller, which
does not roll. A creation that is allowed is stored or lost. Another attempt may arrive after it was allowed.

Two replicas decide. The clock of the second one is `SKEW` ticks ahead, and its policy has a surge of `larger_surge`,
while the ledger has that of the first one. Time passes in ticks; a surge may last for `LENGTH` of them. Revisions are
the number of stored events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

SIZE = 2
LENGTH = 1
SKEW = 1
OTHER = "x"
_NEW_NAMES = ("n1", "n2", "n3")  # two, and one in place of a lost one
_REPLICAS = (0, 1)


class Ledger(NamedTuple):
    """The used amount and its revision, the pods with reservations, and the time at which the surge began."""

    used: int = SIZE
    revision: int = 0
    reserved: frozenset[str] = frozenset()
    since: int | None = None

    @property
    def charged(self) -> int:
        """The amount that is compared with the limit."""
        return self.used + len(self.reserved)


class State(NamedTuple):
    """The stored events in their order, the ledger, the allowed creations in flight, the lost ones, and the time.

    `repeated` are the pods of which a second attempt has arrived. `above_since` is the time since when the pods, stored
    or allowed, exceed the hard limit. `mistake` is the invariant that an answer of the gate has violated.
    """

    events: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    now: int = 0
    above_since: int | None = None
    mistake: str = ""


Step = tuple[str, State]


@dataclass(frozen=True)
class Surging:
    """A controller that rolls, and pod x, under a cap of `hard` with a surge of `surge`."""

    mutants: Mutants = frozenset()
    hard: int = SIZE
    surge: int = 1
    larger_surge: int = 2
    max_surge: int = 2
    ticks: int = 4
    losses: int = 1

    def start(self) -> State:
        """Return the state in which the old pods are stored."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: the limits, the length of a surge, and the end of the rollout."""
        stored = len(_list_pods(state.events))
        if stored > self.hard + self.surge:
            return f"over: {self.hard} and a surge of {self.surge} are allowed, and {stored} pods are stored"
        if state.mistake:
            return state.mistake
        return "stuck: the rollout never ends" if self._is_stuck(state) else ""

    def _is_stuck(self, state: State) -> bool:
        """Return whether the controller can neither delete an old pod nor create a new one, whatever is counted."""
        pods = _list_pods(state.events)
        if state.allowed or len(pods) - (OTHER in pods) > SIZE or not self._wants_new(state):
            return False
        ledger = self._recount(state, len(state.events))
        for pod in ledger.reserved & state.lost:
            ledger = self._end(ledger._replace(reserved=ledger.reserved - {pod}))
        return self._reserve(ledger, "new", is_rolling=True, replica=0, now=state.now + LENGTH + SKEW + 1) is None

    def _wants_new(self, state: State) -> bool:
        pods = [*_list_pods(state.events), *state.allowed]
        return sum(pod in _NEW_NAMES for pod in pods) < SIZE

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        pods = _list_pods(state.events)
        known = {*pods, *state.allowed, *state.lost, *(event[1:] for event in state.events)}
        own = [pod for pod in {*pods, *state.allowed} if pod != OTHER]
        names = [each for each in _NEW_NAMES if each not in known]
        if names and self._wants_new(state) and len(own) < SIZE + self.max_surge:
            yield from self._create(state, names[0])
        if OTHER not in known:
            yield from self._create(state, OTHER)
        for pod in pods:
            if pod in {"o1", "o2"} and len([each for each in pods if each != OTHER]) > SIZE:
                yield f"{pod} is deleted", self._observe(state._replace(events=(*state.events, f"-{pod}")))
        for pod in sorted(state.allowed):
            without = state._replace(allowed=state.allowed - {pod})
            yield f"{pod} is stored", self._observe(without._replace(events=(*state.events, f"+{pod}")))
            if len(state.lost) < self.losses:
                yield f"{pod} is lost", self._observe(without._replace(lost=state.lost | {pod}))
        yield from self._list_repetitions(state)
        for revision in range(state.ledger.revision, len(state.events) + 1):
            yield f"a recount at {revision}", state._replace(ledger=self._recount(state, revision))
        for pod in sorted(state.ledger.reserved & state.lost):
            ledger = self._end(state.ledger._replace(reserved=state.ledger.reserved - {pod}))
            yield f"the reservation of {pod} expires", state._replace(ledger=ledger)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _create(self, state: State, pod: str) -> Iterator[Step]:
        """Yield the states in which a replica allows a pod. A controller rolls while pods of both revisions exist."""
        for replica in _REPLICAS:
            ledger = self._reserve(state.ledger, pod, self._is_rolling(state, pod), replica, state.now)
            if ledger is None:
                continue
            after = self._observe(state._replace(ledger=ledger, allowed=state.allowed | {pod}))
            count = len({*_list_pods(after.events), *after.allowed})
            if pod == OTHER and count > self.hard:
                after = after._replace(mistake=f"shared: {pod} does not roll, and makes {count} of {self.hard}")
            elif state.above_since is not None and state.now - state.above_since > LENGTH + SKEW:
                after = after._replace(mistake=f"late: {pod} surges at {state.now}, since {state.above_since}")
            yield f"replica {replica} allows {pod}", after

    def _is_rolling(self, state: State, pod: str) -> bool:
        if pod == OTHER:
            return "any_controller" in self.mutants
        return any(each in {"o1", "o2"} for each in _list_pods(state.events))

    def _reserve(self, ledger: Ledger, pod: str, is_rolling: bool, replica: int, now: int) -> Ledger | None:  # noqa: FBT001
        """Return the ledger with a reservation for a pod; None if the cap has no room for it."""
        clock = now + SKEW * replica
        after = ledger._replace(reserved=ledger.reserved | {pod})
        if after.charged <= self.hard:
            return after
        own = self.larger_surge if replica else self.surge
        surge = own if "ignores_smaller" in self.mutants else min(own, self.surge)
        if "twice" in self.mutants:
            surge += self.surge
        since = ledger.since if ledger.since is not None else clock
        is_over = clock - since > LENGTH and "never_ends" not in self.mutants
        if not is_rolling or is_over or after.charged > self.hard + surge:
            return None
        if "renews" in self.mutants:
            return after._replace(since=clock)
        return after._replace(since=min(since, clock))

    def _list_repetitions(self, state: State) -> Iterator[Step]:
        """Yield the second attempts of creations that were allowed, as far as the gate allows them again."""
        for pod in sorted((state.allowed | {each[1:] for each in state.events if each[0] == "+"}) - state.repeated):
            if pod not in state.ledger.reserved:
                continue
            ledger = self._reserve(state.ledger, pod, self._is_rolling(state, pod), 0, state.now)
            if ledger is not None:
                yield f"{pod} arrives again", state._replace(ledger=ledger, repeated=state.repeated | {pod})

    def _recount(self, state: State, revision: int) -> Ledger:
        pods = _list_pods(state.events[:revision])
        seen = {event[1:] for event in state.events[:revision]}
        ledger = state.ledger._replace(used=len(pods), revision=revision, reserved=state.ledger.reserved - seen)
        if "recount_forgets" in self.mutants:
            return ledger._replace(since=None)
        return self._end(ledger)

    def _end(self, ledger: Ledger) -> Ledger:
        """Return the ledger without a surge that has ended: it charges the hard limit or less."""
        is_ended = ledger.charged <= self.hard and "keeps_begin" not in self.mutants
        return ledger._replace(since=None) if is_ended else ledger

    def _observe(self, state: State) -> State:
        """Return the state with the time since when the pods exceed the hard limit."""
        is_above = len({*_list_pods(state.events), *state.allowed}) > self.hard
        since = state.now if state.above_since is None else state.above_since
        return state._replace(above_since=since if is_above else None)


def _list_pods(events: tuple[str, ...]) -> list[str]:
    """Return the pods that are stored after these events."""
    pods = ["o1", "o2"]
    for event in events:
        if event[0] == "+":
            pods.append(event[1:])
        else:
            pods.remove(event[1:])
    return pods
