"""A world of requests, pods, observers and ledgers, in which every write may come late, get lost, or hear no answer.

A write waits on its way with the ledger that it was made from. It may arrive at any moment while the ledger is that one
still; its answer may be lost. Time goes in ticks, of which `BOUND` are the in-flight bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tests.state.model.rules import Answer, Ask, Ledger, View, Wrong, recount, release, reserve

BOUND = 2
"""B in ticks."""

_LONG_AFTER = 10 * BOUND
_ROUNDS = 4
Event = tuple[str, str, int]
"""`+` stored, `~` changed, `-` deleted, `.` ended; of which pod; with how much."""
History = tuple[Event, ...]
"""What happened to pods. A revision is how many events there were."""


class Spec(NamedTuple):
    """A request that may come: of which pod, whether it creates it, what it asks for, under which caps."""

    uid: str
    creates: bool
    to: int
    caps: tuple[int, ...] = (0,)


class Request(NamedTuple):
    """Where a request is: `step` caps are done, `seen` is the revision of its pod, `left` is to be taken back."""

    phase: str = "idle"  # calling, waiting, allowed, stored, dropped, refused
    arrived: int = 0
    step: int = 0
    attempt: int = 0
    seen: int = -1
    old: int = 0
    left: tuple[tuple[int, int], ...] = ()


class Write(NamedTuple):
    """On its way: to which cap, what it stores, and whose it is; `request` is -1 for an observer's."""

    cap: int
    ledger: Ledger
    what: str
    request: int = -1
    attempt: int = 0


class State(NamedTuple):
    """Everything that is so; `restarts` and `ends` of observers and pods count what there was of them."""

    now: int
    history: History
    ledgers: tuple[Ledger, ...]
    writes: tuple[Write, ...]
    requests: tuple[Request, ...]
    observers: tuple[tuple[int, int], ...]  # where its watch began, how far it is
    restarts: int = 0
    ends: int = 0


Step = tuple[str, State]


def holding(history: History) -> dict[str, int]:
    """What each pod holds that is there."""
    held: dict[str, int] = {}
    for what, uid, amount in history:
        if what == "-":
            held.pop(uid, None)
        else:
            held[uid] = amount
    return held


def changed_at(history: History, uid: str) -> int:
    """The revision of a pod's last change; 0 when there was none."""
    return max((at for at, event in enumerate(history, 1) if event[1] == uid), default=0)


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The world. `ticks` is how long it lasts; `strict` looks at every pod, not only at sums."""

    specs: Sequence[Spec]
    hard: tuple[int, ...]
    wrong: Wrong = frozenset()
    ticks: int = 3
    before: History = ()
    attempts: int = 2
    observers: int = 1
    ends: int = 0
    restarts: int = 0
    crashes: bool = False
    strict: bool = False
    most_writes: int = 2

    @cached_property
    def _caps(self) -> dict[str, tuple[int, ...]]:
        caps: dict[str, tuple[int, ...]] = {}
        for spec in self.specs:
            caps.setdefault(spec.uid, spec.caps)
        return caps

    def begin(self) -> State:
        """What there was before is counted."""
        at = len(self.before)
        ledgers = tuple(Ledger(sum(self._held(self.before, cap).values()), at) for cap in range(len(self.hard)))
        requests = tuple(Request() for _ in self.specs)
        return State(0, self.before, ledgers, (), requests, ((at, at),) * self.observers)

    def broken(self, state: State) -> str:
        """No cap is passed, no room is lost; and where that is wanted each pod is charged what it may come to hold."""
        for cap, hard in enumerate(self.hard):
            held = self._held(state.history, cap)
            if self.strict and (undercount := self._undercount(state, cap, held)):
                return undercount
            if sum(held.values()) > hard:
                return f"over: cap {cap} allows {hard}, and {sum(held.values())} are held"
            if lost := self._lost(state, cap, held):
                return lost
        return ""

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that can happen next."""
        alive = holding(state.history)
        for number in range(len(self.specs)):
            yield from self._of_request(state, number, alive)
        for write in state.writes:
            yield from self._arriving(state, write)
        if state.ends < self.ends:
            for uid, amount in alive.items():
                if amount:
                    for what, word in (("-", "is deleted"), (".", "ends")):
                        history = (*state.history, (what, uid, 0))
                        yield f"{uid} {word}", state._replace(history=history, ends=state.ends + 1)
        for number in range(len(state.observers)):
            yield from self._of_observer(state, number)
        for cap, ledger in enumerate(state.ledgers):
            expired = self._expired(ledger, state.history, state.now)
            yield from self._sent(state, Write(cap, expired, "expire"), state.requests)
        if state.now < self.ticks:
            yield f"time {state.now + 1}", state._replace(now=state.now + 1)

    def _held(self, history: History, cap: int) -> dict[str, int]:
        return {uid: amount for uid, amount in holding(history).items() if cap in self._caps.get(uid, (cap,))}

    def _undercount(self, state: State, cap: int, held: dict[str, int]) -> str:
        ledger, need = state.ledgers[cap], dict(held)
        for request, spec in zip(state.requests, self.specs, strict=True):
            if cap in _promising(request, spec) and state.now - request.arrived < BOUND:
                is_void = changed_at(state.history, spec.uid) != request.seen or not held.get(spec.uid)
                if spec.creates or not is_void:
                    need[spec.uid] = max(need.get(spec.uid, 0), spec.to)
        then = holding(state.history[: ledger.as_of])
        for uid, amount in need.items():
            row = ledger.row(uid)
            charged = then.get(uid, 0) + (max(0, row.to - row.base) if row else 0)
            if charged < amount:
                return f"undercount: cap {cap} charges {uid} {charged}; it holds or may hold {amount}"
        return ""

    def _lost(self, state: State, cap: int, held: dict[str, int]) -> str:
        """Whether room stays taken that nobody holds, when nobody asks any more and one observer goes on."""
        ledger = state.ledgers[cap]
        for _ in range(_ROUNDS):
            ledger = recount(ledger, View(len(state.history), held), self.wrong)
            ledger = self._expired(ledger, state.history, state.now + _LONG_AFTER)
        if ledger.charged != sum(held.values()):
            return f"lost room: cap {cap} charges {ledger.charged} for ever, and {sum(held.values())} are held"
        return ""

    def _expired(self, ledger: Ledger, history: History, now: int) -> Ledger:
        """Rule 6, for every row that is old enough."""
        alive = holding(history)
        for row in ledger.rows:
            if now - row.born < (1 if "short_bound" in self.wrong else BOUND):
                continue
            if self._may_go(row.uid, ledger, history, is_there=row.uid in alive):
                ledger = ledger.without(row.uid)
        return ledger

    def _may_go(self, uid: str, ledger: Ledger, history: History, *, is_there: bool) -> bool:
        if "no_live_read" in self.wrong or not is_there:
            return True
        if "expire_needs_absence" in self.wrong:
            return False
        return "expire_change_by_get" in self.wrong or ledger.as_of >= changed_at(history, uid)

    def _of_request(self, state: State, number: int, alive: dict[str, int]) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        inside = state.now - request.arrived < BOUND
        if request.phase == "idle":
            yield from self._arrives(state, number, alive)
        elif request.phase == "calling" and inside:
            yield from self._asked(state, number)
        elif request.phase == "waiting":
            yield from self._unanswered(state, number)
        elif request.phase == "allowed" and inside:
            yield from self._stored(state, number, alive)
        elif request.phase == "dropped" and inside and request.attempt + 1 < self.attempts:
            again = request._replace(phase="calling", step=0, attempt=request.attempt + 1)
            yield self._to(state, number, again, "is asked about again")
        if request.phase in {"calling", "waiting"} and self.crashes:
            yield from self._dropped(state, number)
        for cap, attempt in request.left:
            rest = request._replace(left=tuple(each for each in request.left if each != (cap, attempt)))
            ledger = release(state.ledgers[cap], spec.uid, (number, attempt), self.wrong)
            if ledger == state.ledgers[cap]:
                yield self._to(state, number, rest, f"has nothing to take back in cap {cap}")
            else:
                yield from self._sent(
                    state, Write(cap, ledger, "withdrawal", number, attempt), _put(state, number, rest)
                )

    def _arrives(self, state: State, number: int, alive: dict[str, int]) -> Iterator[Step]:
        spec = self.specs[number]
        seen = changed_at(state.history, spec.uid)
        if (seen == 0) if spec.creates else alive.get(spec.uid):
            request = Request("calling", state.now, seen=seen, old=alive.get(spec.uid, 0))
            yield self._to(state, number, request, "arrives")

    def _asked(self, state: State, number: int) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        cap = spec.caps[request.step]
        ask = Ask(spec.uid, request.old, spec.to, (number, request.attempt), spec.creates)
        answer, ledger = reserve(state.ledgers[cap], ask, self.hard[cap], state.now, self.wrong)
        if answer is Answer.FREE:
            yield self._to(state, number, _further(request, spec), f"needs no write in cap {cap}")
        elif answer is Answer.REFUSE:
            left = tuple((done, request.attempt) for done in spec.caps[: request.step])
            yield self._to(state, number, request._replace(phase="refused", left=left), f"is refused by cap {cap}")
        else:
            write = Write(cap, ledger, "promise", number, request.attempt)
            yield from self._sent(state, write, _put(state, number, request._replace(phase="waiting")))

    def _unanswered(self, state: State, number: int) -> Iterator[Step]:
        """It reads again: its write is there, or it tries once more."""
        request, spec = state.requests[number], self.specs[number]
        row = state.ledgers[spec.caps[request.step]].row(spec.uid)
        if row is not None and row.by == (number, request.attempt):
            yield self._to(state, number, _further(request, spec), "finds its own write")
        elif request.attempt + 1 < self.attempts:
            again = request._replace(phase="calling", attempt=request.attempt + 1)
            yield self._to(state, number, again, "hears nothing and tries again")

    def _dropped(self, state: State, number: int) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        begun = spec.caps[: request.step + (request.phase == "waiting")]
        left = tuple((cap, request.attempt) for cap in begun)
        yield self._to(state, number, request._replace(phase="dropped", left=left), "is given up")
        if left:
            yield self._to(state, number, request._replace(phase="dropped"), "is forgotten in a crash")

    def _stored(self, state: State, number: int, alive: dict[str, int]) -> Iterator[Step]:
        request, spec = state.requests[number], self.specs[number]
        if spec.creates or (alive.get(spec.uid) and changed_at(state.history, spec.uid) == request.seen):
            event = ("+" if spec.creates else "~", spec.uid, spec.to)
            done = state._replace(history=(*state.history, event))
            yield self._to(done, number, request._replace(phase="stored"), "is stored")
        elif alive.get(spec.uid) and request.attempt + 1 < self.attempts:
            seen, old = changed_at(state.history, spec.uid), alive[spec.uid]
            again = request._replace(phase="calling", step=0, attempt=request.attempt + 1, seen=seen, old=old)
            yield self._to(state, number, again, "finds another object, and is asked about again")

    def _arriving(self, state: State, write: Write) -> Iterator[Step]:
        """It arrives; others that were made from the ledger before it will not any more."""
        ledgers = (*state.ledgers[: write.cap], write.ledger, *state.ledgers[write.cap + 1 :])
        after = state._replace(ledgers=ledgers, writes=tuple(each for each in state.writes if each.cap != write.cap))
        told = f"the {write.what} of {self._called(write.request)} arrives in cap {write.cap}"
        request = state.requests[write.request]
        waits = write.what == "promise" and (request.phase, request.attempt) == ("waiting", write.attempt)
        if waits:
            further = _further(request, self.specs[write.request])
            yield told, after._replace(requests=_put(state, write.request, further))
            told += "; its answer is lost"
        yield told, after

    def _of_observer(self, state: State, number: int) -> Iterator[Step]:
        begun, at = state.observers[number]
        end = len(state.history)
        if at < end:
            yield f"watch {number} sees {state.history[at][:2]}", _moved(state, number, (begun, at + 1))
        if state.restarts < self.restarts and (begun, at) != (end, end):
            relisted = _moved(state, number, (end, end))
            yield f"watch {number} lists anew", relisted._replace(restarts=state.restarts + 1)
        gone = {uid for what, uid, _ in state.history[begun:at] if what == "-"}
        for cap, ledger in enumerate(state.ledgers):
            view = View(at, self._held(state.history[:at], cap), gone)
            recounted = recount(ledger, view, self.wrong)
            yield from self._sent(state, Write(cap, recounted, f"recount at {at}"), state.requests)
            if "settle_one_by_one" in self.wrong:
                for row in ledger.rows:
                    if row.uid in view.held:
                        tally = ledger.tally + view.held[row.uid] - row.base
                        settled = ledger.without(row.uid)._replace(tally=tally)
                        yield from self._sent(state, Write(cap, settled, f"settling of {row.uid}"), state.requests)

    def _sent(self, state: State, write: Write, requests: tuple[Request, ...]) -> Iterator[Step]:
        """A write is on its way, unless it would change nothing, or too many are."""
        changes = write.ledger != state.ledgers[write.cap] and write not in state.writes
        if changes and len(state.writes) < self.most_writes:
            after = state._replace(writes=tuple(sorted([*state.writes, write])), requests=requests)
            yield f"{self._called(write.request)} sends its {write.what} to cap {write.cap}", after

    def _to(self, state: State, number: int, request: Request, told: str) -> Step:
        return f"{self._called(number)} {told}", state._replace(requests=_put(state, number, request))

    def _called(self, number: int) -> str:
        if number < 0:
            return "an observer"
        spec = self.specs[number]
        return f"request {number} ({'create' if spec.creates else 'change'} {spec.uid} → {spec.to})"


def _promising(request: Request, spec: Spec) -> tuple[int, ...]:
    """The caps that have promised something to a request that may still be stored."""
    if request.phase == "allowed":
        return spec.caps
    return spec.caps[: request.step] if request.phase in {"calling", "waiting"} else ()


def _further(request: Request, spec: Spec) -> Request:
    if request.step + 1 < len(spec.caps):
        return request._replace(phase="calling", step=request.step + 1)
    return request._replace(phase="allowed")


def _put(state: State, number: int, request: Request) -> tuple[Request, ...]:
    return (*state.requests[:number], request, *state.requests[number + 1 :])


def _moved(state: State, number: int, at: tuple[int, int]) -> State:
    return state._replace(observers=(*state.observers[:number], at, *state.observers[number + 1 :]))
