"""A world of requests, pods, observers and ledgers. Every write may be late or lost, and its answer may be lost.

A write in flight is computed from one version of a ledger, and may arrive as long as the ledger has that version. Time
passes in ticks; the in-flight bound is `BOUND` ticks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tests.state.model.rules import (
    Ledger,
    Mutants,
    Outcome,
    ReservationRequest,
    UsageSnapshot,
    recount,
    release,
    reserve,
)

BOUND = 2
"""The in-flight bound in ticks."""

_LONG_AFTER = 10 * BOUND
_ROUNDS = 4
Event = tuple[str, str, int]
"""A change of a pod: `+` created, `~` changed, `-` deleted, `.` ended; the pod's UID; its amount."""
History = tuple[Event, ...]
"""The changes of pods. A revision is a number of events."""


class Spec(NamedTuple):
    """A request that may arrive: the pod, whether it creates the pod, the requested amount and the caps."""

    uid: str
    creates: bool
    requested: int
    caps: tuple[int, ...] = (0,)


class Request(NamedTuple):
    """The progress of a request.

    `position` caps are done, `old_revision` is that of its pod, `to_release` has caps and attempts to be released.
    """

    phase: str = "idle"  # calling, waiting, allowed, stored, dropped, rejected
    arrived_at: int = 0
    position: int = 0
    attempt: int = 0
    old_revision: int = -1
    current: int = 0
    to_release: tuple[tuple[int, int], ...] = ()


class Write(NamedTuple):
    """A write in flight: the cap, the new ledger, and its sender; `request` is -1 for an observer."""

    cap: int
    ledger: Ledger
    name: str
    request: int = -1
    attempt: int = 0


class State(NamedTuple):
    """The state of the world; `restarts` of watches and `ends` of pods are the numbers up to now."""

    now: int
    history: History
    ledgers: tuple[Ledger, ...]
    writes: tuple[Write, ...]
    requests: tuple[Request, ...]
    observers: tuple[tuple[int, int], ...]  # the revisions at which a watch began and up to which it has seen events
    restarts: int = 0
    ends: int = 0


Step = tuple[str, State]


def list_amounts(history: History) -> dict[str, int]:
    """Return the amount of each stored pod."""
    amounts: dict[str, int] = {}
    for kind, uid, amount in history:
        if kind == "-":
            amounts.pop(uid, None)
        else:
            amounts[uid] = amount
    return amounts


def find_revision(history: History, uid: str) -> int:
    """Return the revision of a pod's last change, or 0."""
    return max((revision for revision, event in enumerate(history, 1) if event[1] == uid), default=0)


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The world; `ticks` is its duration; if `checks_pods`, invariants check each pod and not only the sums."""

    specs: Sequence[Spec]
    hard: tuple[int, ...]
    mutants: Mutants = frozenset()
    ticks: int = 3
    before: History = ()
    attempts: int = 2
    observers: int = 1
    ends: int = 0
    restarts: int = 0
    crashes: bool = False
    checks_pods: bool = False
    max_writes: int = 2

    @cached_property
    def _caps(self) -> dict[str, tuple[int, ...]]:
        caps: dict[str, tuple[int, ...]] = {}
        for spec in self.specs:
            caps.setdefault(spec.uid, spec.caps)
        return caps

    def start(self) -> State:
        """Return the state in which the ledgers count the pods that exist before."""
        revision = len(self.before)
        used = [sum(self._list_used(self.before, cap).values()) for cap in range(len(self.hard))]
        ledgers = tuple(Ledger(each, revision) for each in used)
        requests = tuple(Request() for _ in self.specs)
        return State(0, self.before, ledgers, (), requests, ((revision, revision),) * self.observers)

    def find_violation(self, state: State) -> str:
        """Return an exceeded cap, an amount that is never freed, or a pod that is charged less than its claim."""
        for cap, hard in enumerate(self.hard):
            used_by_pod = self._list_used(state.history, cap)
            if self.checks_pods and (undercount := self._find_undercount(state, cap, used_by_pod)):
                return undercount
            used = sum(used_by_pod.values())
            if used > hard:
                return f"over: cap {cap} allows {hard}, and {used} are used"
            if not_freed := self._find_not_freed(state, cap, used_by_pod):
                return not_freed
        return ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        amounts = list_amounts(state.history)
        for number in range(len(self.specs)):
            yield from self._list_request_steps(state, number, amounts)
        for write in state.writes:
            yield from self._arrive(state, write)
        if state.ends < self.ends:
            for uid, amount in amounts.items():
                if amount:
                    for kind, verb in (("-", "is deleted"), (".", "ends")):
                        history = (*state.history, (kind, uid, 0))
                        yield f"{uid} {verb}", state._replace(history=history, ends=state.ends + 1)
        for number in range(len(state.observers)):
            yield from self._list_observer_steps(state, number)
        for cap, ledger in enumerate(state.ledgers):
            expired = self._expire(ledger, state.history, state.now)
            yield from self._send(state, Write(cap, expired, "expiry"), state.requests)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _list_used(self, history: History, cap: int) -> dict[str, int]:
        return {uid: amount for uid, amount in list_amounts(history).items() if cap in self._caps.get(uid, (cap,))}

    def _find_undercount(self, state: State, cap: int, used_by_pod: dict[str, int]) -> str:
        ledger, claims = state.ledgers[cap], dict(used_by_pod)
        for request, spec in zip(state.requests, self.specs, strict=True):
            if cap in _list_reserved(request, spec) and state.now - request.arrived_at < BOUND:
                is_current = find_revision(state.history, spec.uid) == request.old_revision
                if spec.creates or (is_current and used_by_pod.get(spec.uid)):
                    claims[spec.uid] = max(claims.get(spec.uid, 0), spec.requested)
        counted = list_amounts(state.history[: ledger.pods_revision])
        for uid, claim in claims.items():
            reservation = ledger.find_reservation(uid)
            reserved = max(0, reservation.requested - reservation.counted) if reservation else 0
            charged = counted.get(uid, 0) + reserved
            if charged < claim:
                return f"undercount: cap {cap} charges {uid} {charged}; its claim is {claim}"
        return ""

    def _find_not_freed(self, state: State, cap: int, used_by_pod: dict[str, int]) -> str:
        """Return whether a ledger charges too much for ever, if all requests end and one observer continues."""
        ledger, used = state.ledgers[cap], sum(used_by_pod.values())
        for _ in range(_ROUNDS):
            ledger = recount(ledger, UsageSnapshot(len(state.history), used_by_pod), self.mutants)
            ledger = self._expire(ledger, state.history, state.now + _LONG_AFTER)
        return "" if ledger.charged == used else f"not freed: cap {cap} charges {ledger.charged}, and {used} are used"

    def _expire(self, ledger: Ledger, history: History, now: int) -> Ledger:
        """Expire every reservation that is old enough (rule 6)."""
        amounts = list_amounts(history)
        for reservation in ledger.reservations:
            if now - reservation.first_seen < (1 if "short_bound" in self.mutants else BOUND):
                continue
            if self._is_conclusive(reservation.uid, ledger, history, is_stored=reservation.uid in amounts):
                ledger = ledger.remove_reservation(reservation.uid)
        return ledger

    def _is_conclusive(self, uid: str, ledger: Ledger, history: History, *, is_stored: bool) -> bool:
        """Return whether a live read of a pod permits the expiry of its reservation."""
        if "no_live_read" in self.mutants or not is_stored:
            return True
        if "expire_needs_absence" in self.mutants:
            return False
        return "expire_change_by_get" in self.mutants or ledger.pods_revision >= find_revision(history, uid)

    def _list_request_steps(self, state: State, number: int, amounts: dict[str, int]) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        is_in_time = state.now - request.arrived_at < BOUND
        if request.phase == "idle":
            yield from self._accept(state, number, amounts)
        elif request.phase == "calling" and is_in_time:
            yield from self._reserve(state, number)
        elif request.phase == "waiting":
            yield from self._read_outcome(state, number)
        elif request.phase == "allowed" and is_in_time:
            yield from self._store(state, number, amounts)
        elif request.phase == "dropped" and is_in_time and request.attempt + 1 < self.attempts:
            again = request._replace(phase="calling", position=0, attempt=request.attempt + 1)
            yield self._update(state, number, again, "calls the webhook again")
        if request.phase in {"calling", "waiting"} and self.crashes:
            yield from self._drop(state, number)
        for cap, attempt in request.to_release:
            others = tuple(each for each in request.to_release if each != (cap, attempt))
            rest = request._replace(to_release=others)
            ledger = release(state.ledgers[cap], spec.uid, (number, attempt), self.mutants)
            if ledger == state.ledgers[cap]:
                yield self._update(state, number, rest, f"has nothing to release in cap {cap}")
            else:
                yield from self._send(state, Write(cap, ledger, "release", number, attempt), _put(state, number, rest))

    def _accept(self, state: State, number: int, amounts: dict[str, int]) -> Iterator[Step]:
        spec = self.specs[number]
        revision = find_revision(state.history, spec.uid)
        if (revision == 0) if spec.creates else amounts.get(spec.uid):
            request = Request("calling", state.now, old_revision=revision, current=amounts.get(spec.uid, 0))
            yield self._update(state, number, request, "arrives")

    def _reserve(self, state: State, number: int) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        cap = spec.caps[request.position]
        wanted = ReservationRequest(spec.uid, request.current, spec.requested, (number, request.attempt), spec.creates)
        outcome, ledger = reserve(state.ledgers[cap], wanted, self.hard[cap], state.now, self.mutants)
        if outcome is Outcome.NEEDS_NO_WRITE:
            yield self._update(state, number, _advance(request, spec), f"needs no write in cap {cap}")
        elif outcome is Outcome.EXCEEDED:
            to_release = tuple((done, request.attempt) for done in spec.caps[: request.position])
            rejected = request._replace(phase="rejected", to_release=to_release)
            yield self._update(state, number, rejected, f"exceeds cap {cap}")
        else:
            write = Write(cap, ledger, "reservation", number, request.attempt)
            yield from self._send(state, write, _put(state, number, request._replace(phase="waiting")))

    def _read_outcome(self, state: State, number: int) -> Iterator[Step]:
        """Read the ledger after an unknown outcome; if the write is not there, try again."""
        request, spec = state.requests[number], self.specs[number]
        reservation = state.ledgers[spec.caps[request.position]].find_reservation(spec.uid)
        if reservation is not None and reservation.attempt == (number, request.attempt):
            yield self._update(state, number, _advance(request, spec), "finds its own write")
        elif request.attempt + 1 < self.attempts:
            again = request._replace(phase="calling", attempt=request.attempt + 1)
            yield self._update(state, number, again, "receives no answer and tries again")

    def _drop(self, state: State, number: int) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        started = spec.caps[: request.position + (request.phase == "waiting")]
        to_release = tuple((cap, request.attempt) for cap in started)
        dropped = request._replace(phase="dropped", to_release=to_release)
        yield self._update(state, number, dropped, "reaches its deadline")
        if to_release:
            yield self._update(state, number, request._replace(phase="dropped"), "is lost in a crash")

    def _store(self, state: State, number: int, amounts: dict[str, int]) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        revision = find_revision(state.history, spec.uid)
        if spec.creates or (amounts.get(spec.uid) and revision == request.old_revision):
            event = ("+" if spec.creates else "~", spec.uid, spec.requested)
            stored = state._replace(history=(*state.history, event))
            yield self._update(stored, number, request._replace(phase="stored"), "is stored")
        elif amounts.get(spec.uid) and request.attempt + 1 < self.attempts:
            again = request._replace(
                phase="calling",
                position=0,
                attempt=request.attempt + 1,
                old_revision=revision,
                current=amounts[spec.uid],
            )
            yield self._update(state, number, again, "finds a changed pod, and calls the webhook again")

    def _arrive(self, state: State, write: Write) -> Iterator[Step]:
        """Store a write; the others that were computed from the same version fail."""
        ledgers = (*state.ledgers[: write.cap], write.ledger, *state.ledgers[write.cap + 1 :])
        after = state._replace(ledgers=ledgers, writes=tuple(each for each in state.writes if each.cap != write.cap))
        line = f"the {write.name} of {self._describe(write.request)} arrives in cap {write.cap}"
        request = state.requests[write.request]
        is_awaited = write.name == "reservation" and (request.phase, request.attempt) == ("waiting", write.attempt)
        if is_awaited:
            advanced = _advance(request, self.specs[write.request])
            yield line, after._replace(requests=_put(state, write.request, advanced))
            line += "; its answer is lost"
        yield line, after

    def _list_observer_steps(self, state: State, number: int) -> Iterator[Step]:
        began_at, revision = state.observers[number]
        last = len(state.history)
        if revision < last:
            line = f"watch {number} sees {state.history[revision][:2]}"
            yield line, _update_observer(state, number, (began_at, revision + 1))
        if state.restarts < self.restarts and (began_at, revision) != (last, last):
            relisted = _update_observer(state, number, (last, last))
            yield f"watch {number} lists again", relisted._replace(restarts=state.restarts + 1)
        deleted = {uid for kind, uid, _ in state.history[began_at:revision] if kind == "-"}
        for cap, ledger in enumerate(state.ledgers):
            snapshot = UsageSnapshot(revision, self._list_used(state.history[:revision], cap), deleted)
            recounted = recount(ledger, snapshot, self.mutants)
            yield from self._send(state, Write(cap, recounted, f"recount at {revision}"), state.requests)
            if "settle_one_by_one" in self.mutants:
                for uid, counted, *_ in ledger.reservations:
                    if uid in snapshot.used_by_pod:
                        used = ledger.used + snapshot.used_by_pod[uid] - counted
                        settled = ledger.remove_reservation(uid)._replace(used=used)
                        yield from self._send(state, Write(cap, settled, f"settlement of {uid}"), state.requests)

    def _send(self, state: State, write: Write, requests: tuple[Request, ...]) -> Iterator[Step]:
        """Send a write, unless it changes nothing or too many writes are in flight."""
        changes = write.ledger != state.ledgers[write.cap] and write not in state.writes
        if changes and len(state.writes) < self.max_writes:
            after = state._replace(writes=tuple(sorted([*state.writes, write])), requests=requests)
            yield f"{self._describe(write.request)} sends its {write.name} to cap {write.cap}", after

    def _update(self, state: State, number: int, request: Request, line: str) -> Step:
        return f"{self._describe(number)} {line}", state._replace(requests=_put(state, number, request))

    def _describe(self, number: int) -> str:
        if number < 0:
            return "an observer"
        spec = self.specs[number]
        return f"request {number} ({'create' if spec.creates else 'change'} {spec.uid} → {spec.requested})"


def _list_reserved(request: Request, spec: Spec) -> tuple[int, ...]:
    """Return the caps with a reservation for a request that may still be stored."""
    if request.phase == "allowed":
        return spec.caps
    return spec.caps[: request.position] if request.phase in {"calling", "waiting"} else ()


def _advance(request: Request, spec: Spec) -> Request:
    """Return the request at its next cap, or allowed after the last."""
    if request.position + 1 < len(spec.caps):
        return request._replace(phase="calling", position=request.position + 1)
    return request._replace(phase="allowed")


def _put(state: State, number: int, request: Request) -> tuple[Request, ...]:
    return (*state.requests[:number], request, *state.requests[number + 1 :])


def _update_observer(state: State, number: int, observer: tuple[int, int]) -> State:
    return state._replace(observers=(*state.observers[:number], observer, *state.observers[number + 1 :]))
