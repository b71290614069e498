"""The pods of one name follow each other, and the scheduler makes a claim for one of them (rules 10 and 13).

Pods a and b have one name, of which the API server stores one at a time; pod x has another one. A creation that is
allowed is stored if its name is free, and fails if it is not. The scheduler makes claim s for pod a, which keeps its
device after a is deleted, beside b.

The part of a in the used amount covers s, or else the attempts of its name: these need the largest amount of the
counted pod and of each of them. It covers no attempt beside s. Revisions are the number of stored events, and a replica
may have seen more pods than claims, or fewer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

_HARD = 2
_SIZES: Mapping[str, int] = {"a": 1, "b": 2, "x": 1, "s": 1}
_NAMED = frozenset({"a", "b"})


class Ledger(NamedTuple):
    """The used amount as of the revisions of pods and claims, and the reservations, by what they are for.

    `part` is the counted pod of the name if no claim that is seen has its part of the used amount, `covering` is that
    part, and `covered` are the reservations that it covers.
    """

    used: int = 0
    pods_revision: int = 0
    claims_revision: int = 0
    part: str = ""
    covering: int = 0
    reserved: frozenset[str] = frozenset()
    covered: frozenset[str] = frozenset()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap: the attempts of a name need the largest amount."""
        named = max((self._compute_reserved(each) for each in self.reserved & _NAMED), default=0)
        return self.used + named + sum(map(self._compute_reserved, self.reserved - _NAMED))

    def _compute_reserved(self, each: str) -> int:
        return max(_SIZES[each] - (self.covering if each in self.covered else 0), 0)


class State(NamedTuple):
    """The stored events, the ledger, and the progress of the creations.

    `allowed` are those in flight, `ended` those that were stored or failed.
    """

    events: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Following:
    """Pods a and b of one name, the claim s that the scheduler makes for a, and pod x; the cap allows `hard`."""

    mutants: Mutants = frozenset()
    hard: int = _HARD

    def start(self) -> State:
        """Return the state in which nothing is stored."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold.

        No more is used than allowed, and a name is charged no more than its counted pod, or its largest attempt.
        """
        used = _compute_used(_list_stored(state.events))
        if used > self.hard:
            return f"over: {self.hard} are allowed, and {used} are used"
        ledger = state.ledger
        is_plain = not {"s", "x"} & (ledger.reserved | set(state.events))
        most = max((_SIZES[each] for each in ledger.reserved | _list_stored(state.events)), default=0)
        is_current = min(ledger.pods_revision, ledger.claims_revision) == len(state.events)
        if is_plain and is_current and ledger.charged > most:
            return f"overcharge: the name is charged {ledger.charged}, and {most} are enough"
        return ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        stored = _list_stored(state.events)
        yield from self._allow(state, stored)
        for each in sorted(state.allowed):
            after = state._replace(allowed=state.allowed - {each}, ended=state.ended | {each})
            if each in _NAMED and stored & _NAMED:
                yield f"{each} fails, since its name exists", after
            else:
                yield f"{each} is stored", after._replace(events=(*state.events, each))
        for each in sorted(stored):
            yield f"{each} is deleted", state._replace(events=(*state.events, f"-{each}"))
        for pods_revision in range(state.ledger.pods_revision, len(state.events) + 1):
            for claims_revision in range(state.ledger.claims_revision, len(state.events) + 1):
                ledger = self._recount(state, pods_revision, claims_revision)
                yield f"a recount at {pods_revision} and {claims_revision}", state._replace(ledger=ledger)
        yield from _expire(state, stored)

    def _allow(self, state: State, stored: set[str]) -> Iterator[Step]:
        for each in sorted(_SIZES):
            is_possible = each != "s" or "a" in stored
            if each not in state.allowed | state.ended and is_possible:
                ledger = self._reserve(state.ledger, each)
                is_checked = each != "s" or "s" not in ledger.covered or "ignores_next" not in self.mutants
                if ledger.charged <= self.hard or not is_checked:
                    yield f"{each} is allowed", state._replace(ledger=ledger, allowed=state.allowed | {each})

    def _reserve(self, ledger: Ledger, each: str) -> Ledger:
        """Return the ledger with the reservation of a creation, and with what the counted pod of the name covers."""
        reserved, covered = ledger.reserved | {each}, ledger.covered
        if each == "s" and ledger.part == "a":
            covered = covered | {"s"} if "covers_both" in self.mutants else (covered - _NAMED) | {"s"}
        elif each in _NAMED and ledger.part and self._may_cover_names(ledger.reserved):
            covered |= {each}
        return ledger._replace(reserved=reserved, covered=covered)

    def _may_cover_names(self, reserved: frozenset[str]) -> bool:
        """Return whether the part of a pod covers the attempts of its name, and no claim of the scheduler."""
        return "adds_counted" not in self.mutants and ("s" not in reserved or "covers_both" in self.mutants)

    def _recount(self, state: State, pods_revision: int, claims_revision: int) -> Ledger:
        """Return the ledger as counted from pods and claims of two revisions."""
        before = state.ledger
        pods = {each for each in _list_stored(state.events[:pods_revision]) if each != "s"}
        is_seen = "s" in _list_stored(state.events[:claims_revision])
        used = sum(_SIZES[each] for each in pods) + (is_seen and "a" not in pods)
        named = next(iter(sorted(pods & _NAMED)), "")
        part = "" if named == "a" and is_seen and "covers_both" not in self.mutants else named
        deleted = {each[1:] for each in state.events[:pods_revision] if each.startswith("-")}
        reserved = before.reserved - pods - deleted - ({"s"} if is_seen else set())
        covered, covering = set[str](), _SIZES[part] if part else 0
        if "s" in reserved and part == "a":
            covered.add("s")
        if part and self._may_cover_names(reserved):
            covered |= reserved & _NAMED
        if "stays_covered" in self.mutants and not part:
            covered, covering = {*(before.covered & reserved & _NAMED)}, before.covering
        return Ledger(used, pods_revision, claims_revision, part, covering, frozenset(reserved), frozenset(covered))


def _list_stored(events: tuple[str, ...]) -> set[str]:
    stored: set[str] = set()
    for each in events:
        if each.startswith("-"):
            stored.discard(each[1:])
        else:
            stored.add(each)
    return stored


def _compute_used(stored: set[str]) -> int:
    """Return the devices in use: those of a pod and of the claim that the scheduler made for it are the same."""
    return sum(_SIZES[each] for each in stored) - ({"a", "s"} <= stored)


def _expire(state: State, stored: set[str]) -> Iterator[Step]:
    """Yield the expiry of each reservation whose creation has ended, if what it stored is counted."""
    for each in sorted(state.ledger.reserved - state.allowed):
        revision = state.ledger.claims_revision if each == "s" else state.ledger.pods_revision
        if each not in stored or revision == len(state.events):
            yield f"the reservation of {each} expires", state._replace(ledger=_remove(state.ledger, each))


def _remove(ledger: Ledger, each: str) -> Ledger:
    return ledger._replace(reserved=ledger.reserved - {each}, covered=ledger.covered - {each})
