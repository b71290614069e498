"""The pods of one name follow each other, and the scheduler makes a claim for one of them (rules 10 and 13).

Pods a and b have one name, of which the API server stores one at a time; pod x has another one. A creation that is
allowed is stored if its name is free, and fails if it is not. The scheduler makes claim s for pod a, which keeps its
device after a is deleted, beside b.

The part of a counted pod of the name covers the attempts of the name: these need the largest amount of that pod and of
each of them. A writer knows the part if it counts in the same write; else its attempt is not covered until the next
recount. The part of a covers s, or the attempts of the name, never both. Revisions are the number of stored events, and
a replica may have seen more pods than claims, or fewer.
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

    `covered` has the pod whose part of the used amount covers a reservation, by that reservation.
    """

    used: int = 0
    pods_revision: int = 0
    claims_revision: int = 0
    reserved: frozenset[str] = frozenset()
    covered: frozenset[tuple[str, str]] = frozenset()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap: the attempts of a name need the largest amount."""
        named = max((self._compute_reserved(each) for each in self.reserved & _NAMED), default=0)
        return self.used + named + sum(map(self._compute_reserved, self.reserved - _NAMED))

    def _compute_reserved(self, each: str) -> int:
        return max(_SIZES[each] - sum(_SIZES[pod] for one, pod in self.covered if one == each), 0)

    def uncover(self, names: frozenset[str]) -> "Ledger":
        """Return the ledger without what covers these reservations."""
        return self._replace(covered=frozenset(each for each in self.covered if each[0] not in names))


class State(NamedTuple):
    """The stored events, the ledger, and the progress of the creations.

    `allowed` are those in flight, `ended` those that were stored or failed.
    """

    events: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


class Count(NamedTuple):
    """What a replica counts as of its revisions of pods and claims.

    `part` is the counted pod of the name, and `is_served` whether a counted claim of the scheduler is for it.
    """

    used: int
    part: str
    is_served: bool


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

        No more is used than allowed. After a recount a name is charged no more than its counted pod, or its largest
        attempt.
        """
        used = _compute_used(_list_stored(state.events))
        if used > self.hard:
            return f"over: {self.hard} are allowed, and {used} are used"
        ledger = state.ledger
        is_plain = not {"s", "x"} & (ledger.reserved | set(state.events))
        most = max((_SIZES[each] for each in ledger.reserved | _list_stored(state.events)), default=0)
        if is_plain and (charged := self._recount(state, len(state.events), len(state.events)).charged) > most:
            return f"overcharge: the name is charged {charged}, and {most} are enough"
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
            if each in state.allowed | state.ended or not is_possible:
                continue
            for part in self._list_parts(state, each):
                ledger = self._reserve(state.ledger, each, part)
                is_checked = each != "s" or (each, "a") not in ledger.covered or "ignores_next" not in self.mutants
                if ledger.charged <= self.hard or not is_checked:
                    covered = f", covered by {part}" if part else ""
                    yield f"{each} is allowed{covered}", state._replace(ledger=ledger, allowed=state.allowed | {each})

    def _list_parts(self, state: State, each: str) -> set[str]:
        """Return the pods whose part may cover a creation, by what its writer knows; an empty text for none.

        A writer that counts in the same write stores that recount: it is a step of its own before this one.
        """
        if each == "x":
            return {""}
        count = self._count(state, state.ledger.pods_revision, state.ledger.claims_revision)
        is_free = not count.is_served or "covers_beside_counted" in self.mutants
        parts = {"", count.part if is_free else ""}
        if "covers_by_newer" in self.mutants and each in _NAMED:
            parts |= _list_stored(state.events) & _NAMED
        return parts

    def _reserve(self, ledger: Ledger, each: str, part: str) -> Ledger:
        """Return the ledger with the reservation of a creation, and with what the part of a counted pod covers."""
        after = ledger._replace(reserved=ledger.reserved | {each})
        if each == "s":
            if "covers_both" not in self.mutants:
                after = after.uncover(_NAMED)
            return after._replace(covered=after.covered | {(each, part)}) if part == "a" else after
        if each in _NAMED and part and self._may_cover_names(ledger.reserved):
            return after._replace(covered=after.covered | {(each, part)})
        return after

    def _may_cover_names(self, reserved: frozenset[str]) -> bool:
        """Return whether the part of a pod covers the attempts of its name, and no claim of the scheduler."""
        return "adds_counted" not in self.mutants and ("s" not in reserved or "covers_beside_reserved" in self.mutants)

    def _count(self, state: State, pods_revision: int, claims_revision: int) -> Count:
        pods = {each for each in _list_stored(state.events[:pods_revision]) if each != "s"}
        is_seen = "s" in _list_stored(state.events[:claims_revision])
        used = sum(_SIZES[each] for each in pods) + (is_seen and "a" not in pods)
        part = next(iter(sorted(pods & _NAMED)), "")
        return Count(used, part, is_served=part == "a" and is_seen)

    def _recount(self, state: State, pods_revision: int, claims_revision: int) -> Ledger:
        """Return the ledger as counted from pods and claims of two revisions."""
        before, count = state.ledger, self._count(state, pods_revision, claims_revision)
        pods = _list_stored(state.events[:pods_revision]) - {"s"}
        claims = _list_stored(state.events[:claims_revision]) & {"s"}
        deleted = {each[1:] for each in state.events[:pods_revision] if each.startswith("-")}
        reserved = before.reserved - pods - claims - deleted
        after = Ledger(count.used, pods_revision, claims_revision, frozenset(reserved))
        part = count.part
        if "stays_covered" in self.mutants and not part:
            return after._replace(covered=frozenset(each for each in before.covered if each[0] in reserved & _NAMED))
        covered = set[tuple[str, str]]()
        if not count.is_served and "s" in reserved and part == "a":
            covered.add(("s", part))
        is_free = not count.is_served or "covers_beside_counted" in self.mutants
        if part and is_free and self._may_cover_names(frozenset(reserved)):
            covered |= {(each, part) for each in reserved & _NAMED}
        return after._replace(covered=frozenset(covered))


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
    return ledger.uncover(frozenset({each}))._replace(reserved=ledger.reserved - {each})
