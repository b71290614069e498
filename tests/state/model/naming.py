"""Several creations have one name, of which the API server stores one at a time (rule 13).

The creations of `NAMED` have the same name and different UIDs and amounts; pod x has another one. A creation that is
allowed is stored if its name is free, and fails if it is not: its reservation remains until it expires. A pod is
deleted, and then another creation of its name, which was allowed before, may be stored. Pod a may be changed. Another
webhook may reject an attempt, which is released then. Revisions are the number of stored events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

HARD = 3
NAMED: Mapping[str, int] = {"a": 1, "b": 2}
"""The amounts of the pods with one name."""
OTHERS: Mapping[str, int] = {"x": 1}
CHANGED = 3
"""The amount of pod a after its change."""
_SIZES = {**NAMED, **OTHERS}
_CHANGE = "a'"
"""The request that changes pod a."""


class Reservation(NamedTuple):
    """The reservation of a pod, and whether only creations wrote it."""

    uid: str
    counted: int
    requested: int
    creates: bool = True

    @property
    def reserved(self) -> int:
        """The amount that it adds to the used one."""
        return max(0, self.requested - self.counted)


class State(NamedTuple):
    """The stored events, the revision of the ledger and its reservations, and the progress of the requests.

    `allowed` are those in flight, `ended` those that were stored, failed or were released.
    """

    events: tuple[tuple[str, str, int], ...] = ()
    revision: int = 0
    reservations: tuple[Reservation, ...] = ()
    allowed: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Naming:
    """A cap of `HARD` with two creations of one name, and another pod."""

    mutants: Mutants = frozenset()

    def start(self) -> State:
        """Return the state with an empty ledger."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold."""
        stored = _list_pods(state.events)
        if sum(stored.values()) > HARD:
            return f"over: {HARD} are allowed, and the pods use {sum(stored.values())}"
        counted = _list_pods(state.events[: state.revision])
        entitled = max((self._compute_entitlement(state, uid, stored) for uid in NAMED), default=0)
        used = sum(amount for uid, amount in counted.items() if uid in NAMED)
        reservations = [each for each in state.reservations if each.uid in NAMED]
        charged = used + self._sum(tuple(reservations))
        if charged < entitled:
            return f"undercount: the name is charged {charged}, and its pods may use {entitled}"
        most = used + max((each.reserved for each in reservations), default=0)
        return f"overcharge: the name is charged {charged}, and {most} are enough" if charged > most else ""

    def _compute_entitlement(self, state: State, uid: str, stored: Mapping[str, int]) -> int:
        amount = stored.get(uid, 0)
        if uid in state.allowed:
            amount = max(amount, _SIZES[uid])
        return max(amount, CHANGED) if uid == "a" and uid in stored and _CHANGE in state.allowed else amount

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        stored = _list_pods(state.events)
        for uid, amount in _SIZES.items():
            if uid not in state.allowed | state.ended:
                yield from self._allow(state, uid, Reservation(uid, 0, amount))
        if "a" in stored and _CHANGE not in state.allowed | state.ended:
            yield from self._allow(state, _CHANGE, Reservation("a", stored["a"], CHANGED, creates=False))
        for request in sorted(state.allowed):
            yield from self._finish(state, request, stored)
        for uid in stored:
            yield f"{uid} is deleted", state._replace(events=(*state.events, ("-", uid, 0)))
        for revision in range(state.revision + 1, len(state.events) + 1):
            yield f"a recount at {revision}", self._recount(state, revision)
        for each in state.reservations:
            if not {each.uid, _CHANGE if each.uid == "a" else each.uid} & state.allowed and (
                each.uid not in stored or state.revision == len(state.events)
            ):
                yield f"the reservation of {each.uid} expires", self._remove(state, each.uid)

    def _allow(self, state: State, request: str, reservation: Reservation) -> Iterator[Step]:
        earlier = next((each for each in state.reservations if each.uid == reservation.uid), None)
        if earlier is not None:
            reservation = Reservation(
                reservation.uid,
                min(earlier.counted, reservation.counted),
                max(earlier.requested, reservation.requested),
                earlier.creates and reservation.creates,
            )
        others = tuple(each for each in state.reservations if each.uid != reservation.uid)
        if "by_last" in self.mutants and reservation.uid in NAMED:
            others = tuple(each for each in others if each.uid not in NAMED)
        if "first_stays" in self.mutants and reservation.uid in NAMED and earlier is None:
            named = [each for each in others if each.uid in NAMED]
            if named:
                yield f"{request} is allowed", state._replace(allowed=state.allowed | {request})
                return
        after = state._replace(reservations=tuple(sorted((*others, reservation))))
        if self._compute_charged(after) <= HARD:
            yield f"{request} is allowed", after._replace(allowed=after.allowed | {request})

    def _finish(self, state: State, request: str, stored: Mapping[str, int]) -> Iterator[Step]:
        after = state._replace(allowed=state.allowed - {request}, ended=state.ended | {request})
        if request == _CHANGE:
            if "a" in stored:
                yield f"{request} is stored", after._replace(events=(*state.events, ("~", "a", CHANGED)))
            else:
                yield f"{request} fails", after
            return
        is_taken = request in NAMED and any(each in stored for each in NAMED)
        if is_taken:
            yield f"{request} fails, since its name exists", after
        else:
            yield f"{request} is stored", after._replace(events=(*state.events, ("+", request, _SIZES[request])))
        yield f"{request} is released", self._release(after, request)

    def _release(self, state: State, uid: str) -> State:
        if "releases_name" in self.mutants and uid in NAMED:
            return state._replace(reservations=tuple(each for each in state.reservations if each.uid not in NAMED))
        return self._remove(state, uid)

    def _remove(self, state: State, uid: str) -> State:
        return state._replace(reservations=tuple(each for each in state.reservations if each.uid != uid))

    def _recount(self, state: State, revision: int) -> State:
        events = state.events[:revision]
        pods = _list_pods(events)
        created, deleted = ({uid for kind, uid, _ in events if kind == sign} for sign in "+-")
        remaining = []
        for each in state.reservations:
            if each.uid in deleted or (each.uid in created and each.creates):
                continue
            if "exists" in self.mutants and each.uid in NAMED and any(uid in pods for uid in NAMED):
                continue
            if "gone_with_another" in self.mutants and each.uid in NAMED and deleted & set(NAMED):
                continue
            remaining.append(each._replace(counted=pods.get(each.uid, 0)))
        return state._replace(revision=revision, reservations=tuple(remaining))

    def _compute_charged(self, state: State) -> int:
        used = sum(_list_pods(state.events[: state.revision]).values())
        return used + self._sum(state.reservations)

    def _sum(self, reservations: tuple[Reservation, ...]) -> int:
        """Return the sum of the reservations, with the largest one of each name."""
        if "sums" in self.mutants:
            return sum(each.reserved for each in reservations)
        if "any_name" in self.mutants:
            return max((each.reserved for each in reservations), default=0)
        named = max((self._weigh(each) for each in reservations if each.uid in NAMED), default=0)
        return named + sum(each.reserved for each in reservations if each.uid not in NAMED)

    def _weigh(self, reservation: Reservation) -> int:
        return 0 if "creations_only" in self.mutants and not reservation.creates else reservation.reserved


def _list_pods(events: tuple[tuple[str, str, int], ...]) -> dict[str, int]:
    """Return the amounts of the pods that are stored after these events."""
    pods: dict[str, int] = {}
    for kind, uid, amount in events:
        if kind == "-":
            pods.pop(uid, None)
        else:
            pods[uid] = amount
    return pods
